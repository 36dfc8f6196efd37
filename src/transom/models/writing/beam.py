"""Beam search: the best few beginnings are kept at every step, and the best finished sequences in the end."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.writing.job import Job, Result
from transom.models.writing.largest import continued, filled, whole
from transom.models.writing.steps import Answer, Steps


def searched(job: Job, steps: Steps) -> Result:
    """The best `num_return_sequences` sequences after each prompt with their scores, best first."""
    search = Search(job)
    logits = steps.first()
    while True:
        rows, entries, tokens = search.advance(logits)
        if len(rows) == 0:
            return search.result()
        if len(rows) != len(logits) or not torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            steps.select(rows, entries)
        logits = steps.next(tokens)


class Finished:
    """The best finished sequences after one prompt."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: list[tuple[float, Tensor]] = []

    def add(self, score: float, tokens: Int[Tensor, " token"]) -> None:
        self.held.append((score, tokens))
        self.held.sort(key=lambda one: one[0], reverse=True)
        del self.held[self.most :]

    @property
    def full(self) -> bool:
        return len(self.held) == self.most

    def surpassed(self, score: float) -> bool:
        """Whether a sequence of that score would still be among the best."""
        return not self.full or score > self.held[-1][0]


class Search:
    """The beginnings that are still being written, `num_beams` for each prompt, and what is finished."""

    def __init__(self, job: Job) -> None:
        self.job, self.beams = job, job.settings.num_beams
        # Enough that as many as there are beams go on, even if all the best ones end.
        self.candidates = max(2, 1 + len(job.settings.ends)) * self.beams
        self.tokens = job.prompt
        self.scores = torch.zeros(len(job.prompt), 1, device=job.prompt.device)
        self.entries = list(range(len(job.prompt)))  # the prompts that are not finished
        self.finished = [Finished(self.beams) for _ in self.entries]
        self.room, self.skipped = torch.tensor(job.room, device=job.prompt.device), job.skipped()

    def advance(self, logits: Answer) -> tuple[Tensor, Tensor | None, Tensor]:
        """One token further: the rows to go on with, the prompts among those that are left, and the new tokens."""
        scores, beams, tokens = self.best(logits)
        hits = self.hits(beams, tokens)
        self.lay_away(scores, beams, tokens, hits)
        self.scores, order = scores.masked_fill(hits, -torch.inf).topk(self.beams)
        beams, tokens = beams.gather(1, order), tokens.gather(1, order)
        left = self.left()
        entries = None
        if len(left) < len(self.entries):
            entries = torch.tensor(left, dtype=torch.int64, device=tokens.device)
            self.entries = [self.entries[entry] for entry in left]
            self.scores, beams, tokens = self.scores[entries], beams[entries], tokens[entries]
        rows, tokens = beams.flatten(), tokens.flatten()
        self.tokens = torch.cat([self.tokens[rows], tokens[:, None]], dim=1)
        return rows, entries, tokens

    def best(self, logits: Answer) -> tuple[Tensor, Tensor, Tensor]:
        """For each prompt the best continuations: their scores, the rows they continue, and their tokens."""
        (entries, times), vocabulary = self.scores.shape, logits.shape[1]
        if self.job.rules.any:
            log_probabilities = whole(logits).float().log_softmax(dim=1)
            log_probabilities = self.job.rules.applied(log_probabilities, self.tokens, self.real_so_far)
            scores, places = filled(log_probabilities, self.scores, self.candidates)
        else:
            scores, places = continued(logits, self.scores, self.candidates)
        first = torch.arange(0, entries * times, times, device=places.device)[:, None]
        return scores, first + places // vocabulary, places % vocabulary

    def hits(self, beams: Int[Tensor, "batch any"], tokens: Int[Tensor, "batch any"]) -> Bool[Tensor, "batch any"]:
        """Which continuations end."""
        stopping, flat = self.job.stopping, tokens.flatten()
        so_far, skipped = flat[:, None], None
        if stopping.stops:
            so_far = torch.cat([self.tokens[beams.flatten()], flat[:, None]], dim=1)
            skipped = self.skipped[self.entries].repeat_interleave(tokens.shape[1])
        hits = stopping.finished(flat, so_far, skipped).view(tokens.shape)
        return hits if self.new < self.job.least else hits | (self.room[self.entries] <= self.new)[:, None]

    @property
    def new(self) -> int:
        """How many tokens there are behind each prompt with the one that is being chosen."""
        return self.tokens.shape[1] + 1 - self.job.prompt.shape[1]

    def lay_away(self, scores: Tensor, beams: Tensor, tokens: Tensor, hits: Bool[Tensor, "batch any"]) -> None:
        """Keep what has ended, if it is among the `num_beams` best continuations."""
        ended = (hits & (scores > -torch.inf))[:, : self.beams]
        if not ended.any():
            return
        values = scores / self.new**self.job.settings.length_penalty
        start = self.job.prompt.shape[1]
        for entry, place in ended.nonzero().tolist():
            new = torch.cat([self.tokens[beams[entry, place], start:], tokens[entry, place, None]])
            self.finished[self.entries[entry]].add(float(values[entry, place]), new)

    def left(self) -> list[int]:
        """Which prompts are not yet done, by their place among those that were left."""
        settings, new = self.job.settings, self.new
        if settings.early_stopping == "never" and settings.length_penalty > 0.0:
            new = self.room[self.entries]
        hopes = (self.scores[:, 0] / new**settings.length_penalty).tolist()
        left = []
        for place, (entry, hope) in enumerate(zip(self.entries, hopes, strict=True)):
            finished = self.finished[entry]
            enough = settings.early_stopping is True and finished.full
            if hope > -torch.inf and not enough and finished.surpassed(hope):
                left.append(place)
        return left

    def real_so_far(self) -> Bool[Tensor, "batch token"] | None:
        """True for all but padding; None where there is none."""
        if self.job.real is None:
            return None
        real = self.job.real[self.entries].repeat_interleave(self.scores.shape[1], dim=0)
        return torch.cat([real, real.new_ones(len(real), self.tokens.shape[1] - real.shape[1])], dim=1)

    def result(self) -> Result:
        """The best of what is finished, padded to the longest; nothing but padding where there are too few."""
        settings = self.job.settings
        asked = settings.num_return_sequences
        nothing = (-torch.inf, self.job.prompt.new_empty(0))
        best = [(one.held + [nothing] * asked)[:asked] for one in self.finished]
        ends = [len(tokens) for held in best for _, tokens in held]
        new = self.job.prompt.new_full((len(best) * asked, max(ends, default=0)), settings.pad_token_id)
        for row, (_, tokens) in enumerate(one for held in best for one in held):
            new[row, : len(tokens)] = tokens
        return Result(new, ends, torch.tensor([score for held in best for score, _ in held], device=new.device))
