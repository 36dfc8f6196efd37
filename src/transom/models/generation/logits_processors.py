"""The rules that change logits before a token is chosen, in Hugging Face's order."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.equations import sampling
from transom.models.generation.config import GenerationConfig
from transom.models.position_ids import Tokens
from transom.names import Misfit

Logits = Float[Tensor, "batch vocabulary"]
PaddingMask = Callable[[], Bool[Tensor, "batch token"] | None]
RowPrompts = Callable[[], Int[Tensor, " batch"]]
PromptNumbers = Int[Tensor, " any"]  # one for each prompt
CustomProcessor = Callable[[Tensor, Tensor], Tensor]


class LogitsProcessors:
    """The rules that the settings ask for at every step.

    counts, limits   of each prompt: its tokens, padding of a tensor included, and the most new ones
    custom           rules of the caller: functions of the tokens so far and the logits
    """

    def __init__(
        self,
        settings: GenerationConfig,
        prompt_length: int,
        counts: PromptNumbers,
        limits: PromptNumbers,
        custom: Sequence[CustomProcessor] = (),
    ) -> None:
        self.settings, self.prompt_length, self.custom = settings, prompt_length, custom
        self.limits = limits
        least = settings.min_new_tokens  # takes precedence over min_length, as max_new_tokens does over max_length
        self.least = torch.full_like(counts, least) if least else (settings.min_length - counts).clamp(min=0)
        self.largest_least = int(self.least.max()) if len(self.least) else 0
        self.ends, self.suppressed, self.suppressed_first, self.forced_ends = (
            torch.tensor(tokens, dtype=torch.int64, device=counts.device)
            for tokens in (
                settings.ends,
                settings.suppress_tokens,
                settings.begin_suppress_tokens,
                as_tuple(settings.forced_eos_token_id),
            )
        )
        self.words = [
            list(word) for word in settings.bad_words_ids if tuple(word) not in {(end,) for end in settings.ends}
        ]
        self.samplers = list(sampling_processors(settings)) if settings.do_sample else []
        self.reads_tokens = settings.repetition_penalty != 1.0 or settings.no_repeat_ngram_size > 0 or bool(self.words)
        # After prompts of one token; padding counts, so that it does not matter which other rows there are.
        self.forces_first = settings.forced_bos_token_id is not None and len(counts) > 0 and int(counts.max()) == 1
        self.forces = self.forces_first or len(self.forced_ends) > 0
        suppresses = len(self.suppressed) > 0 or len(self.suppressed_first) > 0
        self.any = bool(
            self.samplers or self.custom or self.reads_tokens or self.largest_least > 0 or self.forces or suppresses
        )

    def apply(self, logits: Logits, tokens: Tokens, padding_mask: PaddingMask, prompts: RowPrompts) -> Logits:
        """The logits after all rules, which may overwrite them.

        padding_mask   False for padding in `tokens`
        prompts        the prompt that each row continues
        """
        logits = self.apply_to_past(logits, tokens, padding_mask)
        new_tokens = tokens.shape[1] - self.prompt_length
        if new_tokens < self.largest_least and len(self.ends):
            logits = sampling.suppress_tokens(logits, self.ends, self.least[prompts()] > new_tokens)
        if self.forces:
            logits = self.force(logits, new_tokens, self.limits[prompts()] == new_tokens + 1)
        if len(self.suppressed):
            logits = sampling.suppress_tokens(logits, self.suppressed)
        if len(self.suppressed_first) and new_tokens == self.begin_index:
            logits = sampling.suppress_tokens(logits, self.suppressed_first)
        for rule in self.custom:
            logits = check_processed(rule(tokens, logits), logits)
        for sampler in self.samplers:
            logits = sampler(logits)
        return logits

    def apply_to_past(self, logits: Logits, tokens: Tokens, padding_mask: PaddingMask) -> Logits:
        """The rules that read the tokens so far."""
        settings, real = self.settings, padding_mask() if self.reads_tokens else None
        if settings.repetition_penalty != 1.0:
            logits = sampling.repetition_penalty(logits, tokens, float(settings.repetition_penalty), real)
        if settings.no_repeat_ngram_size:
            logits = sampling.no_repeat_ngram(logits, tokens, settings.no_repeat_ngram_size, real)
        return sampling.bad_words(logits, tokens, self.words, real) if self.words else logits

    def force(self, logits: Logits, new_tokens: int, is_last: Bool[Tensor, " batch"]) -> Logits:
        """The forced first token after prompts of one token, and the forced end at the limit."""
        if self.forces_first and new_tokens == 0:
            first = torch.tensor([self.settings.forced_bos_token_id], device=logits.device)
            logits = sampling.force_tokens(logits, first)
        return sampling.force_tokens(logits, self.forced_ends, is_last) if len(self.forced_ends) else logits

    @property
    def begin_index(self) -> int:
        """After how many new tokens the first free one comes: a forced one stands before it."""
        return 1 if self.forces_first else 0


def as_tuple(tokens: int | tuple[int, ...] | list[int] | None) -> tuple[int, ...]:
    return () if tokens is None else tuple(tokens) if isinstance(tokens, tuple | list) else (tokens,)


def check_processed(processed: object, logits: Logits) -> Logits:
    """What a rule of the caller returns: logits of the same shape."""
    if isinstance(processed, Tensor) and processed.shape == logits.shape:
        return processed
    found = tuple(processed.shape) if isinstance(processed, Tensor) else type(processed).__name__
    raise Misfit(
        f"a logits_processor must return logits of {tuple(logits.shape)}, but it returned {found}; return scores"
    )


def sampling_processors(settings: GenerationConfig) -> Iterator[Callable[[Tensor], Tensor]]:
    """The rules of sampling that change something."""
    if settings.temperature != 1.0:
        yield partial(sampling.temperature, value=float(settings.temperature))
    if settings.top_k:
        yield partial(sampling.top_k, k=settings.top_k)
    if settings.top_p is not None and settings.top_p < 1.0:
        yield partial(sampling.top_p, p=float(settings.top_p))
    if settings.min_p is not None:
        yield partial(sampling.min_p, share=float(settings.min_p))
