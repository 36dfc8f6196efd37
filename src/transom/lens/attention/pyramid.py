"""The pyramid of tiles behind the zoomable map: each level pools two by two cells of the level below."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, log2

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels import BLOCK_SCORES, weight_stats
from transom.lens.attention.pooled_map import (
    BatchHead,
    PooledMap,
    Span,
    cell_areas,
    chunks,
    pool_values,
    window_weights,
)
from transom.lens.attention.sight import Sight
from transom.names import Misfit, check_index

TILE = 256  # cells a side
BASE_CELLS = 4096  # cells a side of the base at most: 4096² of two numbers are 128 MB
FINEST_BASE = 4  # a tile of level 3 is 2,048 rows by 2,048 keys: fast enough without a base
ROWS_AT_ONCE = 512  # of the base; their weights on a run of keys fill the second-level cache
SHOWN = ("max", "mean")
OnProgress = Callable[[float], None]


class PyramidBase:
    """The maximum and the sum of cells of side × side weights; a pass that was interrupted continues where it was."""

    def __init__(self, sight: Sight, batch_head: BatchHead, side: int) -> None:
        self.sight, self.batch_head, self.side = sight, batch_head, side
        self.rows, self.keys = sight.shape[2:]
        shape = (ceil(self.rows / side), ceil(self.keys / side))
        self.maxima, self.sums = (sight.lse.new_zeros(shape) for _ in range(2))
        # The first column of cells again, without the first key.
        self.maxima_without_first, self.sums_without_first = (sight.lse.new_zeros(shape[0]) for _ in range(2))
        self.rows_done = 0

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return 2 * self.maxima.numel()

    def build(self, on_progress: OnProgress | None = None) -> "PyramidBase":
        """Fill it; `on_progress` is called with the share that is done, and may raise an exception to stop."""
        rows_at_once = max(self.side, ROWS_AT_ONCE // self.side * self.side)  # whole cells
        while self.rows_done < self.rows:
            rows = (self.rows_done, min(self.rows_done + rows_at_once, self.rows))
            with torch.no_grad():
                self.fill(rows)
                self.fill_without_first(rows)
            self.rows_done = rows[1]
            if on_progress is not None:
                on_progress(self.rows_done / self.rows)
        return self

    def cells(self, span: Span) -> slice:
        """The cells that cover a span of rows or keys."""
        return slice(span[0] // self.side, ceil(span[1] / self.side))

    def fill(self, rows: Span) -> None:
        """The cells of these rows, over all keys."""
        maxima, sums = self.maxima[self.cells(rows)], self.sums[self.cells(rows)]
        if pooled := pool_by_native(self.sight, self.batch_head, (rows, (0, self.keys)), self.side):
            maxima[:], sums[:] = pooled
            return
        for keys in chunks((0, self.keys), self.side, max(self.side, BLOCK_SCORES // ROWS_AT_ONCE)):
            weights = window_weights(self.sight, self.batch_head, rows, keys)
            if 0 in weights.shape:  # a mask rules all of it out by position
                continue
            cell = (self.side, self.side)
            pooled = pool_values(weights, cell, "max"), pool_values(weights, cell, "sum")
            columns = slice(keys[0] // self.side, keys[0] // self.side + pooled[0].shape[1])
            maxima[:, columns], sums[:, columns] = pooled

    def fill_without_first(self, rows: Span) -> None:
        weights = window_weights(self.sight, self.batch_head, rows, (0, min(self.side, self.keys)))[:, 1:]
        weights = F.pad(weights, (0, 1))  # one column at least, and never the first
        cells = self.cells(rows)
        self.maxima_without_first[cells] = pool_values(weights, (self.side, self.side), "max")[:, 0]
        self.sums_without_first[cells] = pool_values(weights, (self.side, self.side), "sum")[:, 0]

    def window(self, rows: Span, keys: Span, pool: str, sink: bool) -> Float[Tensor, "rows columns"]:
        """The maxima, or the sums, of the cells of a window that begins and ends with whole cells."""
        part = (self.maxima if pool == "max" else self.sums)[self.cells(rows), self.cells(keys)]
        if sink or keys[0] > 0:
            return part
        first = (self.maxima_without_first if pool == "max" else self.sums_without_first)[self.cells(rows)]
        return torch.cat([first[:, None], part[:, 1:]], dim=1)


def pool_by_native(
    sight: Sight, batch_head: BatchHead, window: tuple[Span, Span], side: int
) -> tuple[Tensor, Tensor] | None:
    """Maxima and sums of the cells of a window by the native engine; None if it cannot compute these rows."""
    if not sight.uses_native(sight.lse[batch_head][slice(*window[0])]):
        return None
    return weight_stats.pool_window(sight.problem, sight.lse, batch_head, window, (side, side))


@dataclass(frozen=True, eq=False)
class TopEdges:
    """Single weights of a head, the largest first, and where they are."""

    weights: Float[Tensor, " any"]
    rows: Int[Tensor, " any"]
    keys: Int[Tensor, " any"]


class Pyramid:
    """All zoom levels of one head. `sink=False` leaves out the first key, which often holds most of the attention."""

    def __init__(self, sight: Sight, head: int, batch: int = 0) -> None:
        batches, heads, queries, keys = sight.shape
        self.sight, self.sizes = sight, (queries, keys)
        self.batch_head = (check_index(batch, "batch", batches), check_index(head, "heads", heads))
        if 0 in self.sizes:
            raise Misfit(f"there is nothing to draw of queries={queries} and keys={keys}; take a longer text")
        longest = max(self.sizes)
        self.top = max(0, ceil(log2(longest / TILE)))  # the level whose single tile holds the whole map
        self.base_level = max(FINEST_BASE, ceil(log2(longest / BASE_CELLS)))
        self.base: PyramidBase | None = None  # only for a map with that level

    def build_base(self, on_progress: OnProgress | None = None) -> None:
        """Fill the base if the map needs one; see `PyramidBase.build`."""
        if self.top >= self.base_level:
            self.filled_base(on_progress)

    def filled_base(self, on_progress: OnProgress | None = None) -> PyramidBase:
        self.base = self.base or self.new_base()
        return self.base.build(on_progress)

    def new_base(self) -> PyramidBase:
        return PyramidBase(self.sight, self.batch_head, 2**self.base_level)

    def tile(self, level: int, row: int, column: int, pool: str = "max", sink: bool = True) -> PooledMap:
        """Tile (row, column) of a level; level 0 has single weights, level `top` the whole map in tile (0, 0)."""
        rows, keys = self.window(level, row, column)
        if pool not in SHOWN:
            raise Misfit(f"pool must be one of {', '.join(SHOWN)}, but got {pool!r}; max keeps single weights visible")
        cell = (2**level, 2**level)
        if level >= self.base_level:
            side = 2 ** (level - self.base_level)  # of a cell, in cells of the base
            values = self.pool(self.filled_base().window(rows, keys, pool, sink), (side, side), pool)
        else:
            values = self.compute_cells(2**level, rows, keys, pool, sink)
        if pool == "mean" and level > 0:
            values = values / cell_areas((rows, keys), cell, values)
        return PooledMap(values, rows, keys, cell, pool)

    def pool(self, values: Tensor, cell: tuple[int, int], pool: str) -> Tensor:
        """Cells of the base as larger cells."""
        return pool_values(values, cell, pool)

    def window(self, level: int, row: int, column: int) -> tuple[Span, Span]:
        """The rows and keys that a tile covers."""
        if not 0 <= level <= self.top:
            raise Misfit(f"the map has levels 0 to {self.top}, but got {level}; 0 has single weights")
        size = TILE * 2**level
        (row_tiles, column_tiles), (queries, keys) = (ceil(length / size) for length in self.sizes), self.sizes
        if not (0 <= row < row_tiles and 0 <= column < column_tiles):
            raise Misfit(f"level {level} has {row_tiles} × {column_tiles} tiles, so ({row}, {column}) is none of them")
        return (row * size, min(row * size + size, queries)), (column * size, min(column * size + size, keys))

    def compute_cells(self, side: int, rows: Span, keys: Span, pool: str, sink: bool) -> Tensor:
        """Cells of a fine level, from the weights; single weights are bit-identical to those of `Sight.weights`."""
        whole_cells = side > 1 and (sink or keys[0] > 0)
        if whole_cells and (pooled := pool_by_native(self.sight, self.batch_head, (rows, keys), side)):
            return pooled[0 if pool == "max" else 1]
        width, parts = keys[1] - keys[0], []
        with torch.no_grad():
            for span in chunks(rows, side, max(side, BLOCK_SCORES // width // side * side)):
                weights = self.weights(span, keys, sink)
                parts.append(pool_values(F.pad(weights, (0, width - weights.shape[1])), (side, side), pool))
        return torch.cat(parts)

    def weights(self, rows: Span, keys: Span, sink: bool) -> Float[Tensor, "rows columns"]:
        """Single weights of a window, without the keys at its end that a mask rules out by position."""
        weights = window_weights(self.sight, self.batch_head, rows, keys)
        if not sink and keys[0] == 0:
            weights[:, :1] = 0.0
        return weights

    def top_edges(self, count: int, sink: bool = True) -> TopEdges:
        """The largest weights of the head, by size where they have signs.

        They lie in the `count` cells of the base with the largest maxima: every other cell has smaller ones only.
        """
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for rows, keys in self.likely_windows(count, sink):
            window = self.weights(rows, keys, sink)
            index = window.flatten().abs().topk(min(count, window.numel())).indices
            width = max(1, window.shape[1])
            parts.append((window.flatten()[index], index // width + rows[0], index % width + keys[0]))
        weights, rows, keys = (torch.cat(column) for column in zip(*parts, strict=True))
        order = weights.abs().argsort(descending=True, stable=True)[:count]
        order = order[weights[order] != 0]
        return TopEdges(weights[order], rows[order], keys[order])

    def likely_windows(self, count: int, sink: bool) -> Iterator[tuple[Span, Span]]:
        """Where the largest weights are: some cells of the base; without a base all rows, a few at a time."""
        rows, keys = self.sizes
        if self.top < self.base_level:
            for span in chunks((0, rows), 1, max(1, BLOCK_SCORES // keys)):
                yield span, (0, keys)
            return
        side, maxima = 2**self.base_level, self.filled_base().window((0, rows), (0, keys), "max", sink)
        for index in maxima.flatten().abs().topk(min(count, maxima.numel())).indices.tolist():
            row, key = (side * cell for cell in divmod(index, maxima.shape[1]))
            yield (row, min(row + side, rows)), (key, min(key + side, keys))
