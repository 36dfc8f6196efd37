"""Quick steps by PyTorch's operations: whatever the parts, the numbers and the device."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transom.layers import Arrangement
from transom.models.writing.bare import bare, unembedded
from transom.models.writing.prompted import Prompted
from transom.models.writing.quick_parts import OwnPast, Source
from transom.models.writing.rows import Rows
from transom.models.writing.steps import Logits


class TorchBlocks:
    """The rows of one prompt lie side by side, as queries over common keys and values with a mask.

    So nothing is copied when a search changes its mind, and a source is kept once, however many beams look at it.
    """

    def __init__(self, read: Prompted) -> None:
        self.rows = Rows(read.entries, read.cache.length, read.real, read.unembedding)
        self.closing = bare(read.stack.closing)
        self.unembedded = unembedded(read.unembedding, read.entries * read.beams)
        mask = added(read.source_real, read.unembedding)
        self.parts: list[OwnPast | Source] = []
        self.blocks: list[Callable[[Tensor], Tensor]] = []
        for block, kept in zip(cast("Iterable[Arrangement]", read.stack.blocks), read.cache.blocks, strict=True):
            K, V = (kept.own.held[name][:, :, : read.cache.length] for name in ("keys", "values"))
            own, cross = OwnPast(block.attention, K, V, self.rows, read.beams), None
            self.parts.append(own)
            if block.cross is not None and kept.cross.held is not None:
                cross = Source(block.cross, *kept.cross.held, mask, self.rows)
                self.parts.append(cross)
            self.blocks.append(arranged(block, own, cross))

    def step(self) -> Int[Tensor, "#batch token"]:
        """On to the next position: gives it, for each row of each prompt."""
        kept = self.rows.unseen()
        if kept is not None:
            for part in self.parts:
                part.keep(kept)
        self.rows.step()
        return self.rows.at()

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.entries, self.rows.times

    def logits(self, x: Float[Tensor, "rows d_model"]) -> Logits:
        for block in self.blocks:
            x = block(x)
        return self.unembedded(self.closing(x))

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        self.rows.select(rows, entries)
        if entries is not None:
            for part in self.parts:
                part.select(entries)


def arranged(block: Arrangement, own: OwnPast, cross: Source | None) -> Callable[[Tensor], Tensor]:
    """A block by its own equation, over bare parts."""
    norms = {f"norm_{place}": bare(getattr(block, f"norm_{place}", nn.Identity())) for place in block.normed}
    equation, parts, feed_forward = type(block).arranged, SimpleNamespace(**norms), bare(block.feed_forward)
    return lambda x: equation(parts, x, own, cross, feed_forward)  # pyright: ignore[reportArgumentType]


def added(real: Bool[Tensor, "batch source"] | None, like: Tensor) -> Float[Tensor, "batch 1 1 source"] | None:
    """0 for real tokens, −∞ for padding: what is added to the scores."""
    return None if real is None else like.new_zeros(real.shape).masked_fill(~real, -torch.inf)[:, None, None]
