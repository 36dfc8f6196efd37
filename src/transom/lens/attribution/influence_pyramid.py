"""The pyramid of tiles of a head's influence: as that of its weights, with signs."""

import torch
from jaxtyping import Float
from torch import Tensor

from transom.lens.attention.pooled_map import Span, pool_values
from transom.lens.attention.pyramid import Pyramid, PyramidBase
from transom.lens.attribution.attention_influence import AttentionInfluence
from transom.lens.attribution.edge_changes import EdgeChanges
from transom.lens.attribution.influence_map import pool_signed, pool_window, window_changes


class InfluenceBase(PyramidBase):
    """The largest change by size, with its sign, and the sum of the changes of each cell."""

    def __init__(self, changes: EdgeChanges, batch_head: tuple[int, int], side: int) -> None:
        super().__init__(changes.sight, batch_head, side)
        self.changes = changes

    def fill(self, rows: Span) -> None:
        cells = self.cells(rows)
        cell = (self.side, self.side)
        self.maxima[cells], self.sums[cells] = pool_window(self.changes, self.batch_head, (rows, (0, self.keys)), cell)

    def fill_without_first(self, rows: Span) -> None:
        cells = self.cells(rows)
        self.maxima_without_first[cells], self.sums_without_first[cells] = first_cells(
            self.changes, self.batch_head, rows, self.side
        )


class InfluencePyramid(Pyramid):
    """All zoom levels of one head by influence; the maximum of a cell is its largest change, with its sign."""

    def __init__(self, attention: AttentionInfluence, head: int, batch: int = 0) -> None:
        super().__init__(attention.sight, head, batch)
        self.changes = attention.changes

    def new_base(self) -> PyramidBase:
        return InfluenceBase(self.changes, self.batch_head, 2**self.base_level)

    def pool(self, values: Tensor, cell: tuple[int, int], pool: str) -> Tensor:
        return pool_signed(values, cell) if pool == "max" else pool_values(values, cell, pool)

    def compute_cells(self, side: int, rows: Span, keys: Span, pool: str, sink: bool) -> Tensor:
        """Cells of a fine level; single changes are bit-identical to those of `edges`."""
        which = 0 if pool == "max" else 1
        with torch.no_grad():
            if side == 1:
                return self.weights(rows, keys, sink)
            values = pool_window(self.changes, self.batch_head, (rows, keys), (side, side))[which]
            if not sink and keys[0] == 0:
                values[:, 0] = first_cells(self.changes, self.batch_head, rows, side)[which]
        return values

    def weights(self, rows: Span, keys: Span, sink: bool) -> Float[Tensor, "rows columns"]:
        """Single changes of a window."""
        changes = window_changes(self.changes, self.batch_head, rows, keys)
        if not sink and keys[0] == 0:
            changes[:, :1] = 0.0
        return changes


def first_cells(changes: EdgeChanges, batch_head: tuple[int, int], rows: Span, side: int) -> tuple[Tensor, Tensor]:
    """The first column of cells without the first key: maxima and sums."""
    keys = (1, min(side, changes.sight.shape[3]))
    if keys[0] == keys[1]:
        return tuple(changes.GO.new_zeros(-(-(rows[1] - rows[0]) // side)) for _ in range(2))  # pyright: ignore[reportReturnType]
    maxima, sums = pool_window(changes, batch_head, (rows, keys), (side, side))
    return maxima[:, 0], sums[:, 0]
