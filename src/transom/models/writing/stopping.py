"""When a sequence is finished."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.writing.settings import GenerationConfig
from transom.names import Misfit


@runtime_checkable
class Decodes(Protocol):
    """Something that turns tokens into text: `transom.text.Tokenizer`."""

    def decode(self, ids: list[int]) -> str: ...


class Stopping:
    """By an end token, or by a string that the last token completes."""

    def __init__(self, settings: GenerationConfig, tokenizer: Decodes | None, device: torch.device) -> None:
        self.ends = torch.tensor(settings.ends, dtype=torch.int64, device=device)
        self.stops, self.tokenizer = settings.stops, tokenizer
        if self.stops and tokenizer is None:
            raise Misfit("stop_strings are looked for in text, but no tokenizer came; give tokenizer")
        # Enough for any stop string, as every token but a special one stands for a byte or more.
        self.window = max((len(text.encode()) for text in self.stops), default=0) + 8

    def finished(
        self,
        tokens: Int[Tensor, " batch"],
        so_far: Int[Tensor, "batch token"],
        skipped: Int[Tensor, " batch"] | None = None,
    ) -> Bool[Tensor, " batch"]:
        """Which rows end with these tokens; `so_far` has them at its end, and behind so many of padding."""
        if len(self.ends) == 0:
            ended = torch.zeros_like(tokens, dtype=torch.bool)
        else:  # one is compared with more quickly than several
            ended = tokens == self.ends if len(self.ends) == 1 else torch.isin(tokens, self.ends)
        return ended | self.stopped(so_far, skipped) if self.stops else ended

    def stopped(
        self, so_far: Int[Tensor, "batch token"], skipped: Int[Tensor, " batch"] | None
    ) -> Bool[Tensor, " batch"]:
        """Which rows hold a stop string that their last token completes; padding in front is no part of it."""
        tails, cut = so_far[:, -self.window :].tolist(), max(0, so_far.shape[1] - self.window)
        if skipped is not None:
            tails = [tail[max(0, front - cut) :] for tail, front in zip(tails, skipped.tolist(), strict=True)]
        return torch.tensor([self.completes(tail) for tail in tails], dtype=torch.bool, device=so_far.device)

    def completes(self, tail: list[int]) -> bool:
        assert self.tokenizer is not None
        text, before = self.tokenizer.decode(tail), self.tokenizer.decode(tail[:-1])
        return any(text.count(stop) > before.count(stop) for stop in self.stops)
