"""Edges removed from an attention: a mask that allows everything else."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from transom.equations.masks import Allowed, Mask
from transom.equations.region import FullShape, Index, Region, index_to_tensor
from transom.names import Misfit


class EdgeBox(NamedTuple):
    """The edges between these indices of batch, heads, queries and keys; None is all of an axis."""

    batch: tuple[int, ...] | None
    heads: tuple[int, ...] | None
    queries: tuple[int, ...] | None
    keys: tuple[int, ...] | None


@dataclass(frozen=True)
class EdgeMask(Mask):
    """Allows every edge that is in none of these boxes."""

    boxes: tuple[EdgeBox, ...]

    def materialize(self, region: Region) -> Allowed:
        removed = torch.zeros((1, 1, 1, 1), dtype=torch.bool, device=region.device)
        for box in self.boxes:
            axes = zip(region.indices, region.full_shape, box, strict=True)
            inside = [membership(index, size, members, region.device) for index, size, members in axes]
            if all(axis.any() for axis in inside):
                batch, heads, queries, keys = inside
                removed = removed | (batch[:, None, None, None] & heads[:, None, None] & queries[:, None] & keys)
        return ~removed

    def shifted_boxes(self, rows: range, keys: range) -> tuple[EdgeBox, ...]:
        """Its boxes in a larger attention, in which this attention has these rows and keys."""
        return tuple(
            box._replace(
                queries=tuple(rows if box.queries is None else (rows[query] for query in box.queries)),
                keys=tuple(keys if box.keys is None else (keys[key] for key in box.keys)),
            )
            for box in self.boxes
        )

    @property
    def by_row(self) -> bool:
        return any(box.queries is not None for box in self.boxes)

    def check(self, full_shape: FullShape, device: torch.device) -> None:
        for box in self.boxes:
            for axis, members, size in zip(EdgeBox._fields, box, full_shape, strict=True):
                if members is not None and not all(0 <= member < size for member in members):
                    raise Misfit(f"an edge is cut at {axis} {members}, but there are {axis}={size}; count from 0")


def membership(index: Index, size: int, members: tuple[int, ...] | None, device: torch.device) -> Tensor:
    """Which of the positions that an index selects are members; a single True if every position is one."""
    if members is None:
        return torch.ones(1, dtype=torch.bool, device=device)
    positions = index_to_tensor(index, size, device)
    return positions == members[0] if len(members) == 1 else torch.isin(positions, torch.tensor(members, device=device))
