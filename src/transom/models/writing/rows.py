"""The rows of each prompt side by side, and which keys each of them may look at."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Rows:
    """What all layers have in common while several rows are written for each prompt.

    A prompt's rows share one list of keys: those of the prompt, then at each step one of each row. A row may look at
    the prompt and at what it, or the row it came from, has written.
    """

    def __init__(self, entries: int, length: int, real: Bool[Tensor, "batch token"] | None, like: Tensor) -> None:
        self.entries, self.times = entries, 1  # prompts, and rows of each
        self.keys, self.position = length, length - 1  # how many keys each prompt has, and where its last token stands
        self.places = torch.arange(length, device=like.device)  # the position of each key
        self.counts = None if real is None else real.sum(dim=1, keepdim=True) - 1  # the last position, of real tokens
        self.mask: Tensor | None = None  # (row, key): 0 where a row may look, −∞ elsewhere; None: everywhere
        if real is not None:
            self.mask = like.new_zeros(real.shape).masked_fill(~real, -torch.inf)
        self.like = like

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None) -> None:
        """Go on with these rows; `entries` are the prompts that are left, where some are not."""
        left = self.entries if entries is None else len(entries)
        times = len(rows) // left
        if times > 1 and self.mask is None:
            self.mask = self.like.new_zeros((self.entries * self.times, self.keys))
        self.mask = None if self.mask is None else self.mask[rows]
        self.counts = self.counts if self.counts is None or entries is None else self.counts[entries]
        self.entries, self.times = left, times

    def step(self) -> None:
        """On to the next position: a new key for each row, which that row alone may look at."""
        self.position += 1
        self.counts = None if self.counts is None else self.counts + 1
        if self.mask is not None:
            own = self.like.new_full((self.times, self.times), -torch.inf).fill_diagonal_(0.0)
            self.mask = torch.cat([self.mask, own.repeat(self.entries, 1)], dim=1)
        self.places = torch.cat([self.places, self.places.new_full((self.times,), self.position)])
        self.keys += self.times

    def at(self) -> Int[Tensor, "#batch token"]:
        """The positions of the tokens of this step, counting real ones only."""
        here = self.places[-1:].view(1, 1) if self.counts is None else self.counts
        return here.expand(-1, self.times)

    def allowed(self) -> Float[Tensor, "batch 1 token keys"] | None:
        """The mask as the kernel takes it."""
        return None if self.mask is None else self.mask.view(self.entries, 1, self.times, self.keys)
