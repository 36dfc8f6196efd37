"""Greedy search and sampling: the loop, a buffer of the sequences, and a random generator per row."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.equations.sampling import sample_token
from transom.models.generation.decoding_steps import DecodingSteps, StepLogits
from transom.models.generation.request import GenerationRequest, GenerationResult
from transom.models.generation.vocab_topk import argmax, compute_logits
from transom.names import Misfit

DRAWN_AT_ONCE = 64


class RowRng:
    """Uniform random numbers, from one seed per row."""

    def __init__(self, seeds: list[int]) -> None:
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.used, self.numbers = DRAWN_AT_ONCE, torch.empty(0)

    def uniform(self) -> Float[Tensor, " batch"]:
        """The next number of every row, at least 0 and below 1."""
        if self.used == DRAWN_AT_ONCE:
            rows = [torch.rand(DRAWN_AT_ONCE, generator=rng, dtype=torch.float64) for rng in self.generators]
            self.used, self.numbers = 0, torch.stack(rows)
        self.used += 1
        return self.numbers[:, self.used - 1]

    def select(self, rows: Int[Tensor, " any"]) -> None:
        """Continue with these rows."""
        self.generators = [self.generators[row] for row in rows.tolist()]
        self.numbers = self.numbers[rows.to(self.numbers.device)]


class SequenceBuffer:
    """Rows of tokens, the prompt first, with room for new ones; a finished row is stored and leaves the batch.

    `prompts` says which prompt of the request each row continues.
    """

    def __init__(self, request: GenerationRequest, prompts: Int[Tensor, " batch"]) -> None:
        prompt = request.prompt[prompts]
        self.length = self.prompt_length = prompt.shape[1]
        self.tokens = prompt.new_full((len(prompt), self.length + request.largest_limit), request.settings.pad_token_id)
        self.tokens[:, : self.length] = prompt
        self.real = None if request.real is None else request.real[prompts]
        self.limits, self.left_padding = request.limits[prompts], request.left_padding[prompts]
        self.prompts = prompts
        self.scores = torch.zeros(len(prompt), device=prompt.device)
        self.rows = torch.arange(len(prompt), device=prompt.device)  # the number of each row in the result
        self.finished = self.tokens.clone()
        self.finished_scores = self.scores.clone()
        self.ends = torch.zeros_like(self.rows)  # new tokens of each row of the result

    @property
    def tokens_so_far(self) -> Int[Tensor, "batch token"]:
        return self.tokens[:, : self.length]

    @property
    def new_tokens(self) -> int:
        """New tokens of each unfinished row."""
        return self.length - self.prompt_length

    def padding_mask(self) -> Bool[Tensor, "batch token"] | None:
        """True for all tokens except padding; None if there is no padding."""
        if self.real is None:
            return None
        return torch.cat([self.real, self.real.new_ones(len(self.real), self.new_tokens)], dim=1)

    def append(self, tokens: Int[Tensor, " batch"]) -> None:
        """Add a token to every row."""
        self.tokens[:, self.length] = tokens
        self.length += 1

    def remove_finished(self, finished: Bool[Tensor, " batch"], length_penalty: float) -> Int[Tensor, " any"]:
        """Store the finished rows, and return the indices of those that remain."""
        remaining, stored = (~finished).nonzero()[:, 0], self.rows[finished]
        self.finished[stored] = self.tokens[finished]
        self.ends[stored] = self.new_tokens
        self.finished_scores[stored] = self.scores[finished] / self.new_tokens**length_penalty
        self.tokens, self.rows, self.scores = self.tokens[remaining], self.rows[remaining], self.scores[remaining]
        self.real = None if self.real is None else self.real[remaining]
        self.limits, self.left_padding = self.limits[remaining], self.left_padding[remaining]
        self.prompts = self.prompts[remaining]
        return remaining

    def result(self) -> GenerationResult:
        """The new tokens of every row, once all are finished."""
        return GenerationResult(
            self.finished[:, self.prompt_length : self.length], self.ends.tolist(), self.finished_scores
        )


def sample(request: GenerationRequest, steps: DecodingSteps, logits: StepLogits) -> GenerationResult:
    """Choose token after token until every row is finished; `logits` are those after the prompts."""
    prompts = torch.arange(len(request.prompt), device=request.prompt.device)
    if request.settings.num_return_sequences > 1:
        # A prompt is read once, however many sequences follow it.
        prompts = prompts.repeat_interleave(request.settings.num_return_sequences)
        steps.select(prompts, prompts)
        logits = compute_logits(logits)[prompts]
    buffer = SequenceBuffer(request, prompts)
    rng = RowRng(row_seeds(request.seed, len(buffer.rows))) if request.settings.do_sample else None
    request.stream_prompt()
    while True:
        tokens = choose_tokens(request, buffer, logits, rng)
        buffer.append(tokens)
        request.stream(buffer.rows, tokens)
        finished = request.stopping.is_finished(tokens, buffer.tokens_so_far, buffer.left_padding)
        if buffer.new_tokens >= request.smallest_limit:
            finished = finished | (buffer.limits <= buffer.new_tokens)
        if finished.any():
            remaining = buffer.remove_finished(finished, request.settings.length_penalty)
            if len(remaining) == 0:
                request.end_stream()
                return buffer.result()
            steps.select(remaining, remaining)
            tokens = tokens[remaining]
            if rng is not None:
                rng.select(remaining)
        logits = steps.next(tokens)


def choose_tokens(
    request: GenerationRequest, buffer: SequenceBuffer, step_logits: StepLogits, rng: RowRng | None
) -> Int[Tensor, " batch"]:
    """The next token of each row, by the rules; its log-probability is added to the score if scores are returned."""
    if rng is None and not request.scored and not request.rules.any:
        return argmax(step_logits)
    logits = compute_logits(step_logits)
    log_probabilities = logits.log_softmax(dim=1) if request.scored else None
    if request.rules.any:
        logits = request.rules.apply(logits, buffer.tokens_so_far, buffer.padding_mask, lambda: buffer.prompts)
    tokens = argmax(logits) if rng is None else sample_token(logits, rng.uniform().to(logits.device))
    if log_probabilities is not None:
        buffer.scores += log_probabilities.gather(1, tokens[:, None])[:, 0]
    return tokens


def row_seeds(seed: int | list[int] | None, rows: int) -> list[int]:
    """One seed per row: those of the list, or counting from one seed, which is random by default."""
    if isinstance(seed, list):
        if len(seed) != rows:
            raise Misfit(f"there are {rows} rows to draw, but {len(seed)} seeds came; give one each, or one for all")
        return seed
    first = int(torch.randint(2**31, ())) if seed is None else seed
    return [(first + row) % 2**63 for row in range(rows)]
