"""Beam search: the best few unfinished sequences go on at every step, and the best finished ones are the result."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.generation.decoding_steps import DecodingSteps, StepLogits
from transom.models.generation.request import GenerationRequest, GenerationResult
from transom.models.generation.vocab_topk import best_continuations, compute_logits, pad_topk

Candidates = Int[Tensor, "batch any"]


def beam_search(request: GenerationRequest, steps: DecodingSteps, logits: StepLogits) -> GenerationResult:
    """The best `num_return_sequences` sequences after each prompt, best first; `logits` are those after the prompts."""
    search = BeamSearch(request)
    while True:
        rows, prompts, tokens = search.advance(logits)
        if len(rows) == 0:
            return search.result()
        if len(rows) != len(logits) or not torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            steps.select(rows, prompts)
        logits = steps.next(tokens)


class FinishedBeams:
    """The best finished sequences after one prompt, best first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.beams: list[tuple[float, Tensor]] = []

    def add(self, score: float, tokens: Int[Tensor, " token"]) -> None:
        self.beams.append((score, tokens))
        self.beams.sort(key=lambda beam: beam[0], reverse=True)
        del self.beams[self.most :]

    @property
    def full(self) -> bool:
        return len(self.beams) == self.most

    def would_enter(self, score: float) -> bool:
        """Whether a sequence with this score would be among the best."""
        return not self.full or score > self.beams[-1][0]


class BeamSearch:
    """The unfinished sequences, `num_beams` for each prompt, and the finished ones."""

    def __init__(self, request: GenerationRequest) -> None:
        self.request, self.num_beams = request, request.settings.num_beams
        # So many that `num_beams` unfinished ones remain, even if all the best ones end.
        self.candidates = max(2, 1 + len(request.settings.ends)) * self.num_beams
        self.tokens = request.prompt
        self.scores = torch.zeros(len(request.prompt), 1, device=request.prompt.device)
        self.prompts = list(range(len(request.prompt)))  # those that are not finished
        self.finished = [FinishedBeams(self.num_beams) for _ in self.prompts]

    @property
    def new_tokens(self) -> int:
        """New tokens of each row, with the one that is being chosen."""
        return self.tokens.shape[1] + 1 - self.request.prompt.shape[1]

    def advance(self, logits: StepLogits) -> tuple[Tensor, Tensor | None, Tensor]:
        """Choose the next token of each beam: the rows to continue, the prompts that remain, and the new tokens.

        The prompts are indices among those before this step, or None if all remain.
        """
        scores, beams, tokens = self.best_candidates(logits)
        ended = self.find_ended(beams, tokens)
        self.store_finished(scores, beams, tokens, ended)
        self.scores, order = scores.masked_fill(ended, -torch.inf).topk(self.num_beams)
        beams, tokens = beams.gather(1, order), tokens.gather(1, order)
        remaining = self.remaining_prompts()
        prompts = None
        if len(remaining) < len(self.prompts):
            prompts = torch.tensor(remaining, dtype=torch.int64, device=tokens.device)
            self.prompts = [self.prompts[index] for index in remaining]
            self.scores, beams, tokens = self.scores[prompts], beams[prompts], tokens[prompts]
        rows, tokens = beams.flatten(), tokens.flatten()
        self.tokens = torch.cat([self.tokens[rows], tokens[:, None]], dim=1)
        return rows, prompts, tokens

    def best_candidates(self, logits: StepLogits) -> tuple[Tensor, Tensor, Tensor]:
        """The best continuations of each prompt: their scores, the rows they continue, and their tokens."""
        (prompts, beams), vocabulary = self.scores.shape, logits.shape[1]
        if self.request.rules.any:
            log_probabilities = compute_logits(logits).float().log_softmax(dim=1)
            log_probabilities = self.request.rules.apply(
                log_probabilities, self.tokens, self.padding_mask, self.row_prompts
            )
            scores, indices = pad_topk(log_probabilities, self.scores, self.candidates)
        else:
            scores, indices = best_continuations(logits, self.scores, self.candidates)
        first_rows = torch.arange(0, prompts * beams, beams, device=indices.device)[:, None]
        return scores, first_rows + indices // vocabulary, indices % vocabulary

    def find_ended(self, beams: Candidates, tokens: Candidates) -> Bool[Tensor, "batch any"]:
        """Which candidates end with their new token."""
        stopping, new = self.request.stopping, tokens.flatten()
        rows, left_padding = new[:, None], None
        if stopping.stops:
            rows = torch.cat([self.tokens[beams.flatten()], new[:, None]], dim=1)
            left_padding = self.request.left_padding[self.prompts].repeat_interleave(tokens.shape[1])
        ended = stopping.is_finished(new, rows, left_padding).view(tokens.shape)
        if self.new_tokens < self.request.smallest_limit:
            return ended
        return ended | (self.request.limits[self.prompts] <= self.new_tokens)[:, None]

    def store_finished(self, scores: Tensor, beams: Tensor, tokens: Tensor, ended: Bool[Tensor, "batch any"]) -> None:
        """Store the ended candidates that are among the `num_beams` best."""
        ended = (ended & (scores > -torch.inf))[:, : self.num_beams]
        if not ended.any():
            return
        final_scores = scores / self.new_tokens**self.request.settings.length_penalty
        start = self.request.prompt.shape[1]
        for prompt, candidate in ended.nonzero().tolist():
            new = torch.cat([self.tokens[beams[prompt, candidate], start:], tokens[prompt, candidate, None]])
            self.finished[self.prompts[prompt]].add(float(final_scores[prompt, candidate]), new)

    def remaining_prompts(self) -> list[int]:
        """The unfinished prompts, by their index among those that were unfinished before."""
        settings, length = self.request.settings, self.new_tokens
        if settings.early_stopping == "never" and settings.length_penalty > 0.0:
            length = self.request.limits[self.prompts]
        best_scores = (self.scores[:, 0] / length**settings.length_penalty).tolist()
        remaining = []
        for index, (prompt, score) in enumerate(zip(self.prompts, best_scores, strict=True)):
            finished = self.finished[prompt]
            enough = settings.early_stopping is True and finished.full
            if score > -torch.inf and not enough and finished.would_enter(score):
                remaining.append(index)
        return remaining

    def row_prompts(self) -> Int[Tensor, " batch"]:
        """The prompt that each row continues."""
        return torch.tensor(self.prompts, device=self.tokens.device).repeat_interleave(self.scores.shape[1])

    def padding_mask(self) -> Bool[Tensor, "batch token"] | None:
        """True for all tokens except padding; None if there is no padding."""
        if self.request.real is None:
            return None
        real = self.request.real[self.prompts].repeat_interleave(self.scores.shape[1], dim=0)
        return torch.cat([real, real.new_ones(len(real), self.tokens.shape[1] - real.shape[1])], dim=1)

    def result(self) -> GenerationResult:
        """The best finished sequences, padded to the longest; if there are too few, rows of padding."""
        settings, count = self.request.settings, self.request.settings.num_return_sequences
        missing = (-torch.inf, self.request.prompt.new_empty(0))
        best = [beam for finished in self.finished for beam in (finished.beams + [missing] * count)[:count]]
        ends = [len(tokens) for _, tokens in best]
        new = self.request.prompt.new_full((len(best), max(ends)), settings.pad_token_id)
        for row, (_, tokens) in enumerate(best):
            new[row, : len(tokens)] = tokens
        return GenerationResult(new, ends, torch.tensor([score for score, _ in best], device=new.device))
