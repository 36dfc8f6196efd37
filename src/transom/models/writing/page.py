"""What is being written: the tokens so far of every row that is not finished, and those of the rows that are."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.writing.job import Job, Result


class Page:
    """Rows of tokens, the prompt first, with room for what may follow; a finished row is laid away and takes part no
    more. `prompts` says which prompt of the job each row goes on from.
    """

    def __init__(self, job: Job, prompts: Int[Tensor, " batch"]) -> None:
        prompt, room = job.prompt[prompts], torch.tensor(job.room, device=job.prompt.device)
        self.length = self.prompt_length = prompt.shape[1]
        self.tokens = prompt.new_full((len(prompt), self.length + job.most), job.settings.pad_token_id)
        self.tokens[:, : self.length] = prompt
        self.real = None if job.real is None else job.real[prompts]
        self.room, self.skipped = room[prompts], job.skipped()[prompts]
        self.scores = torch.zeros(len(prompt), device=prompt.device)
        self.rows = torch.arange(len(prompt), device=prompt.device)  # where each row stands in the result
        self.finished = self.tokens.clone()
        self.finished_scores = self.scores.clone()
        self.ends = torch.zeros_like(self.rows)  # how many new tokens each row of the result has

    @property
    def so_far(self) -> Int[Tensor, "batch token"]:
        return self.tokens[:, : self.length]

    @property
    def new(self) -> int:
        """How many tokens were written in each row that is not finished."""
        return self.length - self.prompt_length

    def real_so_far(self) -> Bool[Tensor, "batch token"] | None:
        """True for all but padding; None where there is none."""
        if self.real is None:
            return None
        return torch.cat([self.real, self.real.new_ones(len(self.real), self.length - self.prompt_length)], dim=1)

    def write(self, tokens: Int[Tensor, " batch"]) -> None:
        """Add a token to every row."""
        self.tokens[:, self.length] = tokens
        self.length += 1

    def lay_away(self, finished: Bool[Tensor, " batch"], length_penalty: float) -> Int[Tensor, " any"]:
        """Take the finished rows out, and give the places of those that are left."""
        done, left = finished.nonzero()[:, 0], (~finished).nonzero()[:, 0]
        self.finished[self.rows[done]] = self.tokens[done]
        self.ends[self.rows[done]] = self.new
        self.finished_scores[self.rows[done]] = self.scores[done] / self.new**length_penalty
        self.tokens, self.rows, self.scores = self.tokens[left], self.rows[left], self.scores[left]
        self.real = None if self.real is None else self.real[left]
        self.room, self.skipped = self.room[left], self.skipped[left]
        return left

    def result(self) -> Result:
        """What was written in every row, once all are finished."""
        return Result(self.finished[:, self.prompt_length : self.length], self.ends.tolist(), self.finished_scores)
