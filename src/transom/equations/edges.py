"""Edges taken out of an attention: a mask that lets everything through but them."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from transom.equations.blocks import Block, Index, count, numbers
from transom.equations.masks import Mask, Seen, Whole
from transom.names import Misfit


class Box(NamedTuple):
    """Edges of an attention: those between these places of its four axes; None is all of an axis."""

    batch: tuple[int, ...] | None
    heads: tuple[int, ...] | None
    queries: tuple[int, ...] | None
    keys: tuple[int, ...] | None


@dataclass(frozen=True)
class Without(Mask):
    """Everywhere but along the edges of these boxes."""

    boxes: tuple[Box, ...]

    def seen(self, block: Block) -> Seen:
        gone = torch.zeros((1, 1, 1, 1), dtype=torch.bool, device=block.device)
        indices = (block.batch, block.heads, block.rows, block.columns)
        for box in self.boxes:
            axes = zip(indices, block.whole, box, strict=True)
            held = [among(index, size, places, block.device) for index, size, places in axes]
            if all(one is None or one.any() for one in held):
                gone = gone | crossed(held, block.device)
        return ~gone

    def moved(self, rows: range, keys: range) -> tuple[Box, ...]:
        """Its boxes where the attention is part of a larger one, in which it has these rows and keys."""
        return tuple(
            box._replace(
                queries=tuple(rows if box.queries is None else (rows[place] for place in box.queries)),
                keys=tuple(keys if box.keys is None else (keys[place] for place in box.keys)),
            )
            for box in self.boxes
        )

    @property
    def by_row(self) -> bool:
        return any(box.queries is not None for box in self.boxes)

    def check(self, whole: Whole, device: torch.device) -> None:
        for box in self.boxes:
            for axis, held, size in zip(Box._fields, box, whole, strict=True):
                if held is not None and not all(0 <= place < size for place in held):
                    raise Misfit(f"an edge is cut at {axis} {held}, but there are {axis}={size}; count from 0")


def among(index: Index, size: int, held: tuple[int, ...] | None, device: torch.device) -> Tensor | None:
    """Which of the places an index names are held; None where all are."""
    if held is None:
        return None
    if isinstance(index, slice) and len(held) == 1:
        here = torch.zeros(count(index, size), dtype=torch.bool, device=device)
        first, last, _ = index.indices(size)
        if first <= held[0] < last:
            here[held[0] - first] = True
        return here
    return torch.isin(numbers(index, size, device), torch.tensor(held, device=device))


def crossed(held: list[Tensor | None], device: torch.device) -> Seen:
    """True where all four axes are; an axis of which everything is held has size 1."""
    all_of_it = torch.ones(1, dtype=torch.bool, device=device)
    b, h, q, k = (all_of_it if one is None else one for one in held)
    return b[:, None, None, None] & h[:, None, None] & q[:, None] & k
