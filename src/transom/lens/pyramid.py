"""A head's attention at every zoom, exact: tiles of TILE × TILE cells, each cell 2^level rows by 2^level keys.

One pass over the weights fills a floor of cells, with the maximum and the sum of each; every coarser level follows from
it, every finer tile is small enough to be worked out when it is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from transom.kernels.tiles import BAND_NUMBERS
from transom.lens.asked import inside
from transom.lens.pooled import Span, chunks, sizes_of, window_weights
from transom.lens.sight import Sight
from transom.names import Misfit

TILE = 256  # cells a side
FLOOR_CELLS = 2048  # cells a side of the floor at most: 2048² of two numbers are 32 MB
ROWS_AT_ONCE = 512  # of a block of the floor; its keys fill up the second-level cache
FINEST_FLOOR = 4  # a tile of level 3 is 2,048 rows by 2,048 keys: quick enough without a floor
SHOWN = ("max", "mean")


class Stopped(Exception):
    """Nobody waits for the floor any more."""


@dataclass(frozen=True, eq=False)
class Tile:
    """The cells of one tile that lie on the map, and what each of them covers."""

    values: Float[Tensor, "rows columns"]
    rows: Span
    keys: Span
    side: int  # of a cell, in rows and keys; the last ones may be smaller
    pool: str


class Pyramid:
    """All zooms of one head. `sink=False` leaves the first key out, which often holds most of the attention."""

    def __init__(self, sight: Sight, head: int, batch: int = 0) -> None:
        sizes = sight.problem.whole
        self.sight, self.sizes = sight, (sizes[2], sizes[3])
        self.place = (inside(batch, "batch", sizes[0]), inside(head, "heads", sizes[1]))
        if 0 in self.sizes:
            raise Misfit(f"there is nothing to draw of queries={sizes[2]} and keys={sizes[3]}; take a longer text")
        most = max(self.sizes)
        self.top = max(0, ceil(log2(most / TILE)))  # the level whose single tile holds the whole map
        self.floor_level = max(FINEST_FLOOR, ceil(log2(most / FLOOR_CELLS)))
        self.floors: dict[bool, tuple[Tensor, Tensor]] | None = None  # maximum and sum, with and without the sink

    @property
    def needs_floor(self) -> bool:
        return self.top >= self.floor_level

    def lay(self, told: Callable[[float], None] | None = None, stopped: Callable[[], bool] | None = None) -> None:
        """Fill the floor, once; `told` hears the share that is done, and `stopped` may end it with `Stopped`."""
        if self.floors is not None or not self.needs_floor:
            return
        side, (rows, keys) = 2**self.floor_level, self.sizes
        highest, total = (self.sight.lse.new_zeros((ceil(rows / side), ceil(keys / side))) for _ in range(2))
        bare_highest, bare_total = (highest[:, :1].clone() for _ in range(2))
        with torch.no_grad():
            for span in chunks((0, rows), side, ROWS_AT_ONCE):
                if stopped is not None and stopped():
                    raise Stopped
                for window in chunks((0, keys), side, max(side, BAND_NUMBERS // ROWS_AT_ONCE)):
                    weights = window_weights(self.sight, self.place, span, window)
                    gather((highest, total), weights, (span[0], window[0]), side)
                    if window[0] == 0:
                        weights[:, :1] = 0.0
                        gather((bare_highest, bare_total), weights[:, :side], (span[0], 0), side)
                if told is not None:
                    told(span[1] / rows)
        bare = (torch.cat([bare_highest, highest[:, 1:]], 1), torch.cat([bare_total, total[:, 1:]], 1))
        self.floors = {True: (highest, total), False: bare}

    def tile(self, level: int, row: int, column: int, pool: str = "max", sink: bool = True) -> Tile:
        """Tile (row, column) of a level; level 0 has single weights, level `top` the whole map in tile (0, 0)."""
        rows, keys = self.window(level, row, column)
        if pool not in SHOWN:
            raise Misfit(f"pool must be one of {', '.join(SHOWN)}, but got {pool!r}; max keeps single weights visible")
        if level >= self.floor_level:
            self.lay()
            values = self.from_floor(level, rows, keys, pool, sink)
        else:
            values = self.afresh(2**level, rows, keys, pool, sink)
        if pool == "mean" and level > 0:
            values = values / (sizes_of(rows, 2**level)[:, None] * sizes_of(keys, 2**level)[None]).to(values)
        return Tile(values, rows, keys, 2**level, pool)

    def window(self, level: int, row: int, column: int) -> tuple[Span, Span]:
        if not 0 <= level <= self.top:
            raise Misfit(f"the map has levels 0 to {self.top}, but got {level}; 0 has single weights")
        wide = TILE * 2**level
        firsts = (row * wide, column * wide)
        if not all(0 <= first < size for first, size in zip(firsts, self.sizes, strict=True)):
            across = tuple(ceil(size / wide) for size in self.sizes)
            raise Misfit(f"level {level} has {across[0]} × {across[1]} tiles, so ({row}, {column}) is none of them")
        first, second = ((at, min(at + wide, size)) for at, size in zip(firsts, self.sizes, strict=True))
        return first, second

    def from_floor(self, level: int, rows: Span, keys: Span, pool: str, sink: bool) -> Tensor:
        """Cells of a coarse level: the maximum of the floor's maxima, or the sum of its sums."""
        assert self.floors is not None
        side, times = 2**self.floor_level, 2 ** (level - self.floor_level)
        part = self.floors[sink][0 if pool == "max" else 1]
        part = part[rows[0] // side : ceil(rows[1] / side), keys[0] // side : ceil(keys[1] / side)]
        return cells(part, times, pool)

    def afresh(self, side: int, rows: Span, keys: Span, pool: str, sink: bool) -> Tensor:
        """Cells of a fine level, from the weights."""
        found = []
        with torch.no_grad():
            for span in chunks(rows, side, max(side, BAND_NUMBERS // (keys[1] - keys[0]) // side * side)):
                weights = window_weights(self.sight, self.place, span, keys)
                weights = F.pad(weights, (0, keys[1] - keys[0] - weights.shape[1]))
                if not sink and keys[0] == 0:
                    weights[:, 0] = 0.0
                found.append(cells(weights, side, pool))
        return torch.cat(found)


def gather(floor: tuple[Tensor, Tensor], weights: Tensor, first: Span, side: int) -> None:
    """Add a block of weights, from its first row and key on, to the floor's maximum and sum."""
    if 0 in weights.shape:  # all of it is ruled out by position
        return
    sums = cells(weights, side, "mean")
    down, across = (slice(at // side, at // side + size) for at, size in zip(first, sums.shape, strict=True))
    highest, total = floor[0][down, across], floor[1][down, across]
    highest.copy_(torch.maximum(highest, cells(weights, side, "max")))
    total.add_(sums)


def cells(values: Tensor, side: int, pool: str) -> Float[Tensor, "rows columns"]:
    """side × side numbers into one: their maximum, or their sum, which a mean is made of."""
    if side == 1:
        return values
    down, across = (ceil(size / side) for size in values.shape)
    values = F.pad(values, (0, across * side - values.shape[1], 0, down * side - values.shape[0]))
    values = values.view(down, side, across, side)
    return values.amax(dim=(1, 3)) if pool == "max" else values.sum(dim=(1, 3))
