"""A block: the part of an attention's (batch, heads, queries, keys) box that is worked on at one time."""

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int
from torch import Tensor

Index = slice | Tensor


def everything() -> slice:
    return slice(None)


@dataclass(frozen=True, eq=False)
class Block:
    """Which batch entries, heads, rows (queries) and columns (keys) of the whole; slices give views."""

    whole: tuple[int, int, int, int]
    batch: Index = field(default_factory=everything)
    heads: Index = field(default_factory=everything)
    rows: Index = field(default_factory=everything)
    columns: Index = field(default_factory=everything)
    device: torch.device = field(kw_only=True)

    def narrowed(self, **places: Index) -> "Block":
        return replace(self, **places)

    @property
    def shape(self) -> tuple[int, ...]:
        places = (self.batch, self.heads, self.rows, self.columns)
        return tuple(count(index, size) for index, size in zip(places, self.whole, strict=True))

    def query_positions(self, start: int | None = None) -> Int[Tensor, "rows 1"]:
        """Where the rows stand. Unless told the first one's place, the queries are the last positions of the keys."""
        queries, keys = self.whole[2:]
        first = keys - queries if start is None else start
        return numbers(self.rows, queries, self.device)[:, None] + first

    def key_positions(self) -> Int[Tensor, "1 columns"]:
        return numbers(self.columns, self.whole[3], self.device)[None, :]

    def part(self, tensor: Tensor) -> Tensor:
        """The block's part of a tensor that broadcasts to the whole: axes of size 1 stay."""
        for axis, index in enumerate((self.batch, self.heads, self.rows, self.columns)):
            if tensor.shape[axis] != 1:
                tensor = picked(tensor, axis, index)
        return tensor


def picked(tensor: Tensor, axis: int, index: Index) -> Tensor:
    """tensor[index] along one axis: a view for a slice, a copy of the named places otherwise."""
    if isinstance(index, slice):
        if index == slice(None):  # all of them, however many: torch.export may leave that open
            return tensor
        first, last, _ = index.indices(tensor.shape[axis])
        return tensor.narrow(axis, first, max(0, last - first))
    return tensor.index_select(axis, index)


def numbers(index: Index, size: int, device: torch.device) -> Int[Tensor, " any"]:
    """The places an index names, as numbers."""
    if isinstance(index, slice):
        first, last, _ = index.indices(size)
        return torch.arange(first, max(first, last), device=device)
    return index


def count(index: Index, size: int) -> int:
    """How many places an index names."""
    if isinstance(index, slice):
        first, last, _ = index.indices(size)
        return max(0, last - first)
    return len(index)
