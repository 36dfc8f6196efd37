"""A region: the part of an attention's (batch, heads, queries, keys) box that is computed at one time."""

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int
from torch import Tensor

Index = slice | Tensor
FullShape = tuple[int, int, int, int]  # (batch, heads, queries, keys) of a whole attention


def full_slice() -> slice:  # a function, because torch.compile cannot trace functools.partial here
    return slice(None)


@dataclass(frozen=True, eq=False)
class Region:
    """Some batch entries, heads, rows (queries) and columns (keys) of an attention; slices give views."""

    full_shape: FullShape
    batch: Index = field(default_factory=full_slice)
    heads: Index = field(default_factory=full_slice)
    rows: Index = field(default_factory=full_slice)
    columns: Index = field(default_factory=full_slice)
    device: torch.device = field(kw_only=True)

    def narrow(self, **indices: Index) -> "Region":
        return replace(self, **indices)

    @property
    def indices(self) -> tuple[Index, Index, Index, Index]:
        return (self.batch, self.heads, self.rows, self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(index_length(index, size) for index, size in zip(self.indices, self.full_shape, strict=True))

    def query_positions(self, start: int | None = None) -> Int[Tensor, "rows 1"]:
        """The positions of the rows. The first query is at `start`; by default the queries are the last of the keys."""
        queries, keys = self.full_shape[2:]
        first = keys - queries if start is None else start
        return index_to_tensor(self.rows, queries, self.device)[:, None] + first

    def key_positions(self) -> Int[Tensor, "1 columns"]:
        return index_to_tensor(self.columns, self.full_shape[3], self.device)[None, :]

    def crop(self, tensor: Tensor) -> Tensor:
        """The region's part of a tensor that broadcasts to the full shape: axes of size 1 stay."""
        for axis, index in enumerate(self.indices):
            if tensor.shape[axis] != 1:
                tensor = index_axis(tensor, axis, index)
        return tensor


def index_axis(tensor: Tensor, axis: int, index: Index) -> Tensor:
    """tensor[index] along one axis: a view for a slice, otherwise a copy."""
    if isinstance(index, slice):
        if index == slice(None):  # all of them, however many: torch.export may leave that open
            return tensor
        first, last, _ = index.indices(tensor.shape[axis])
        return tensor.narrow(axis, first, max(0, last - first))
    return tensor.index_select(axis, index)


def index_to_tensor(index: Index, size: int, device: torch.device) -> Int[Tensor, " any"]:
    """The positions that an index selects, as numbers."""
    if isinstance(index, slice):
        first, last, _ = index.indices(size)
        return torch.arange(first, max(first, last), device=device)
    return index


def index_length(index: Index, size: int) -> int:
    """How many positions an index selects."""
    return len(range(size)[index]) if isinstance(index, slice) else len(index)
