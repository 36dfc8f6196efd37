"""The rows of each prompt side by side, and which keys each of them may look at."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

EVERY = 8  # steps between two looks for keys that nobody sees any more


class Rows:
    """What all layers have in common while several rows are written for each prompt.

    A prompt's rows share one list of keys: those of the prompt, then at each step one of each row. A row may look at
    the prompt and at what it, or the row it came from, has written.
    """

    def __init__(self, entries: int, length: int, real: Bool[Tensor, "batch token"] | None, like: Tensor) -> None:
        self.entries, self.times = entries, 1  # prompts, and rows of each
        self.keys, self.position = length, length - 1  # how many keys each prompt has, and where its last token stands
        self.places = torch.arange(length, device=like.device)[
            None
        ]  # the position of each key, of each or of any prompt
        self.here = self.places[:, -1:]  # the position of each row
        self.counts = None if real is None else real.sum(dim=1, keepdim=True) - 1  # the same, counting real tokens only
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
        if entries is not None:
            self.counts = None if self.counts is None else self.counts[entries]
            self.places = self.places if len(self.places) == 1 else self.places[entries]
        self.entries, self.times = left, times

    def step(self) -> None:
        """On to the next position: a new key for each row, which that row alone may look at."""
        self.position += 1
        self.counts = None if self.counts is None else self.counts + 1
        if self.mask is not None:
            own = self.like.new_full((self.times, self.times), -torch.inf).fill_diagonal_(0.0)
            self.mask = torch.cat([self.mask, own.repeat(self.entries, 1)], dim=1)
        self.here = self.places.new_full((1, self.times), self.position)
        self.places = torch.cat([self.places, self.here.expand(len(self.places), -1)], dim=1)
        self.keys += self.times

    def unseen(self) -> Int[Tensor, "batch keys"] | None:
        """Forget keys that no row sees any more, and tell which stay, now and then and if it is worth it.

        Beams that go on have most of their past in common, and what the others wrote is dead.
        """
        if self.mask is None or self.times == 1 or self.position % EVERY:
            return None
        by_row = self.mask.view(self.entries, self.times, self.keys)
        seen = (by_row == 0).any(dim=1)
        most = int(seen.sum(dim=1).max())
        if 4 * most > 3 * self.keys:
            return None
        kept = seen.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        self.mask = by_row.gather(2, kept[:, None].expand(-1, self.times, -1)).flatten(0, 1)
        self.places = self.places.expand(self.entries, -1).gather(1, kept)
        self.keys = most
        return kept

    def at(self) -> Int[Tensor, "#batch token"]:
        """The positions of the tokens of this step, counting real ones only."""
        return self.here if self.counts is None else self.counts.expand(-1, self.times)

    def allowed(self) -> Float[Tensor, "batch 1 token keys"] | None:
        """The mask as the kernel takes it."""
        return None if self.mask is None else self.mask.view(self.entries, 1, self.times, self.keys)
