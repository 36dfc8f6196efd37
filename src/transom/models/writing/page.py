"""What is being written: the tokens so far of every row that is not finished, and those of the rows that are."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Page:
    """Rows of tokens, the prompt first, with room for `longest`; a finished row is laid away and takes part no more."""

    def __init__(
        self, prompt: Int[Tensor, "batch token"], real: Bool[Tensor, "batch token"] | None, longest: int, padding: int
    ) -> None:
        self.length = self.prompt_length = prompt.shape[1]
        self.tokens = prompt.new_full((len(prompt), longest), padding)
        self.tokens[:, : self.length] = prompt
        self.real = real
        self.scores = torch.zeros(len(prompt), device=prompt.device)
        self.rows = torch.arange(len(prompt), device=prompt.device)  # where each row stands in the result
        self.finished = self.tokens.clone()
        self.finished_scores = self.scores.clone()

    @property
    def so_far(self) -> Int[Tensor, "batch token"]:
        return self.tokens[:, : self.length]

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
        new = self.length - self.prompt_length
        self.finished_scores[self.rows[done]] = self.scores[done] / new**length_penalty
        self.tokens, self.rows, self.scores = self.tokens[left], self.rows[left], self.scores[left]
        self.real = None if self.real is None else self.real[left]
        return left

    def result(self) -> tuple[Int[Tensor, "batch token"], Float[Tensor, " batch"]]:
        """Every row, once all are finished, as long as the longest of them."""
        return self.finished[:, : self.length], self.finished_scores
