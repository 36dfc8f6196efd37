"""A bias that names a few keys of each row, and hides all others: attention in blocks and windows of a long text."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.equations.biases import Added, Bias, Scores
from transom.equations.region import FullShape, Region, index_to_tensor
from transom.names import Misfit, format_shape


@dataclass(frozen=True, eq=False)
class SparseBias(Bias):
    """A number for each listed key of a row, −∞ for the others; rows are (batch, heads, queries), flattened.

    source   what is added at each listed key, row after row
    keys     which key that is
    ends     where each row ends in both
    """

    source: Float[Tensor, " any"]
    keys: Int[Tensor, " any"]
    ends: Int[Tensor, " rows"]

    def materialize(self, region: Region) -> Added:
        rows, key_count = self.row_numbers(region), region.full_shape[3]
        last = self.ends[rows]
        counts = last - torch.where(rows > 0, self.ends[(rows - 1).clamp_min(0)], 0)
        # The place of each edge of these rows in `keys`: counted from the first edge of its row.
        row = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
        before = counts.cumsum(0) - counts
        edge = torch.arange(len(row), device=rows.device) + (last - counts - before)[row]
        columns, place = index_to_tensor(region.columns, key_count, rows.device).unique(return_inverse=True)
        column = torch.full((key_count,), -1, device=rows.device)
        column[columns] = torch.arange(len(columns), device=rows.device)
        column = column[self.keys[edge]]
        inside = column >= 0
        added = self.source.new_full((len(rows), len(columns)), -torch.inf)
        added[row[inside], column[inside]] = self.source[edge[inside]]
        if not isinstance(region.columns, slice):  # any keys, in any order, perhaps twice
            added = added.index_select(1, place)
        return added.reshape(region.shape)

    def row_numbers(self, region: Region) -> Int[Tensor, " any"]:
        """The rows of a region, in its order."""
        sizes, device = region.full_shape, self.ends.device
        batch, heads, rows = (
            index_to_tensor(index, size, device) for index, size in zip(region.indices[:3], sizes[:3], strict=True)
        )
        return ((batch[:, None, None] * sizes[1] + heads[:, None]) * sizes[2] + rows).flatten()

    def add_gradient(self, grad_source: Tensor, region: Region, grad_scores: Scores) -> None:
        raise Misfit("a SparseBias takes no gradient: it is what a model's weights were; use a dense bias to learn one")

    def check(self, full_shape: FullShape, device: torch.device) -> None:
        super().check(full_shape, device)
        batch, heads, queries, keys = full_shape
        rows, edges = batch * heads * queries, len(self.source)
        if len(self.ends) != rows or len(self.keys) != edges or (rows and int(self.ends[-1]) != edges):
            raise Misfit(
                f"a SparseBias has an end for each of {rows} rows and a key for each of {edges} edges, but its ends are"
                f" {format_shape(self.ends, 'any')} and its keys {format_shape(self.keys, 'any')}"
            )
        out_of_order = rows > 0 and (int(self.ends[0]) < 0 or bool((self.ends.diff() < 0).any()))
        if out_of_order or (edges and not 0 <= int(self.keys.min()) <= int(self.keys.max()) < keys):
            raise Misfit(f"the ends of a SparseBias must grow and its keys be below keys={keys}; one of them is not")
