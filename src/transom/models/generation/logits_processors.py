"""The rules that change logits before a token is chosen, in Hugging Face's order."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations import sampling
from transom.models.generation.config import GenerationConfig
from transom.models.position_ids import Tokens

Logits = Float[Tensor, "batch vocabulary"]
PaddingMask = Callable[[], Bool[Tensor, "batch token"] | None]


class LogitsProcessors:
    """The rules that the settings ask for at every step."""

    def __init__(self, settings: GenerationConfig, prompt_length: int, device: torch.device) -> None:
        self.settings, self.prompt_length = settings, prompt_length
        self.ends = torch.tensor(settings.ends, dtype=torch.int64, device=device)
        self.samplers = list(sampling_processors(settings)) if settings.do_sample else []
        self.reads_tokens = settings.repetition_penalty != 1.0 or settings.no_repeat_ngram_size > 0
        self.any = bool(self.samplers) or self.reads_tokens or settings.min_new_tokens > 0

    def apply(self, logits: Logits, tokens: Tokens, padding_mask: PaddingMask) -> Logits:
        """The logits after all rules, which may overwrite them; `padding_mask` is False for padding in `tokens`."""
        settings, real = self.settings, padding_mask() if self.reads_tokens else None
        if settings.repetition_penalty != 1.0:
            logits = sampling.repetition_penalty(logits, tokens, float(settings.repetition_penalty), real)
        if settings.no_repeat_ngram_size:
            logits = sampling.no_repeat_ngram(logits, tokens, settings.no_repeat_ngram_size, real)
        if tokens.shape[1] - self.prompt_length < settings.min_new_tokens and len(self.ends):
            logits.index_fill_(1, self.ends[self.ends < logits.shape[1]], -torch.inf)
        for sampler in self.samplers:
            logits = sampler(logits)
        return logits


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
