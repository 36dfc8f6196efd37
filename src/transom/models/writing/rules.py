"""The rules that change logits before a token is chosen, in Hugging Face's order."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.equations import sampling
from transom.models.writing.settings import GenerationConfig

Logits = Float[Tensor, "batch vocabulary"]


class Rules:
    """What the settings ask of every step."""

    def __init__(self, settings: GenerationConfig, prompt_length: int, device: torch.device) -> None:
        self.settings, self.prompt_length = settings, prompt_length
        self.ends = torch.tensor(settings.ends, dtype=torch.int64, device=device)
        self.warps = list(warps(settings)) if settings.do_sample else []
        self.look_back = settings.repetition_penalty != 1.0 or settings.no_repeat_ngram_size > 0
        self.any = bool(self.warps) or self.look_back or settings.min_new_tokens > 0

    def applied(
        self,
        logits: Logits,
        tokens: Int[Tensor, "batch token"],
        real: Callable[[], Bool[Tensor, "batch token"] | None],
    ) -> Logits:
        """The logits after all rules, which may be written over; `real` tells the tokens so far from padding."""
        settings, here = self.settings, real() if self.look_back else None
        if settings.repetition_penalty != 1.0:
            logits = sampling.repetition_penalty(logits, tokens, float(settings.repetition_penalty), here)
        if settings.no_repeat_ngram_size:
            logits = sampling.no_repeat_ngram(logits, tokens, settings.no_repeat_ngram_size, here)
        if tokens.shape[1] - self.prompt_length < settings.min_new_tokens and len(self.ends):
            logits.index_fill_(1, self.ends[self.ends < logits.shape[1]], -torch.inf)
        for warp in self.warps:
            logits = warp(logits)
        return logits


def warps(settings: GenerationConfig) -> Iterator[Callable[[Tensor], Tensor]]:
    """The rules of sampling."""
    if settings.temperature != 1.0:
        yield partial(sampling.temperature, degree=float(settings.temperature))
    if settings.top_k:
        yield partial(sampling.top_k, k=settings.top_k)
    if settings.top_p is not None and settings.top_p < 1.0:
        yield partial(sampling.top_p, p=float(settings.top_p))
    if settings.min_p is not None:
        yield partial(sampling.min_p, share=float(settings.min_p))
