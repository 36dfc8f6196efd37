"""A head's attention at every zoom, exact: tiles of TILE × TILE cells, each cell 2^level rows by 2^level keys.

One pass over the weights fills a floor of cells, with the maximum and the sum of each; every coarser level follows from
it, every finer tile is small enough to be worked out when it is asked for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, log2

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels import looking
from transom.kernels.tiles import BAND_NUMBERS
from transom.lens.asked import inside
from transom.lens.floor import Floor, by_engine, cells
from transom.lens.pooled import Span, chunks, sizes_of, window_weights
from transom.lens.sight import Sight
from transom.names import Misfit

TILE = 256  # cells a side
FLOOR_CELLS = 4096  # cells a side of the floor at most: 4096² of two numbers are 128 MB
FINEST_FLOOR = 4  # a tile of level 3 is 2,048 rows by 2,048 keys: quick enough without a floor
SHOWN = ("max", "mean")


@dataclass(frozen=True, eq=False)
class Tile:
    """The cells of one tile that lie on the map, and what each of them covers."""

    values: Float[Tensor, "rows columns"]
    rows: Span
    keys: Span
    side: int  # of a cell, in rows and keys; the last ones may be smaller
    pool: str


@dataclass(frozen=True, eq=False)
class Arrows:
    """Single weights of a head, strongest first, and where they are."""

    weights: Float[Tensor, " any"]
    rows: Int[Tensor, " any"]
    keys: Int[Tensor, " any"]

    @classmethod
    def of(cls, weights: Float[Tensor, "rows columns"], first: Span, count: int) -> "Arrows":
        """The strongest of a window that begins at (row, key)."""
        found, places = weights.flatten().topk(min(count, weights.numel()))
        wide = max(1, weights.shape[1])
        return cls(found, places // wide + first[0], places % wide + first[1])

    @classmethod
    def joined(cls, parts: list["Arrows"], count: int) -> "Arrows":
        """The strongest of all parts; what carries no weight is no arrow."""
        weights, rows, keys = (torch.cat([getattr(one, name) for one in parts]) for name in ("weights", "rows", "keys"))
        order = weights.argsort(descending=True, stable=True)[:count]
        order = order[weights[order] > 0]
        return cls(weights[order], rows[order], keys[order])


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
        self.floor: Floor | None = None

    @property
    def needs_floor(self) -> bool:
        return self.top >= self.floor_level

    def lay(self, told: Callable[[float], None] | None = None, stopped: Callable[[], bool] | None = None) -> None:
        """Fill the floor, once; see `Floor.lay`."""
        if self.needs_floor:
            self.laid(told, stopped)

    def laid(self, told: Callable[[float], None] | None = None, stopped: Callable[[], bool] | None = None) -> Floor:
        self.floor = self.floor or Floor(self.sight, self.place, 2**self.floor_level)
        self.floor.lay(told, stopped)
        return self.floor

    def tile(self, level: int, row: int, column: int, pool: str = "max", sink: bool = True) -> Tile:
        """Tile (row, column) of a level; level 0 has single weights, level `top` the whole map in tile (0, 0)."""
        rows, keys = self.window(level, row, column)
        if pool not in SHOWN:
            raise Misfit(f"pool must be one of {', '.join(SHOWN)}, but got {pool!r}; max keeps single weights visible")
        if level >= self.floor_level:
            found = self.laid().window(rows, keys, pool, sink)
            values = cells(found, 2 ** (level - self.floor_level), pool)
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

    def afresh(self, side: int, rows: Span, keys: Span, pool: str, sink: bool) -> Tensor:
        """Cells of a fine level, from the weights; single ones are those that `Sight.weights` gives, to the bit."""
        if side > 1 and (sink or keys[0] > 0) and by_engine(self.sight, self.place, rows):
            highest, sums = looking.mapped(self.sight.problem, self.sight.lse, self.place, (rows, keys), (side, side))
            return highest if pool == "max" else sums
        found = []
        with torch.no_grad():
            for span in chunks(rows, side, max(side, BAND_NUMBERS // (keys[1] - keys[0]) // side * side)):
                weights = self.weights(span, keys, sink)
                found.append(cells(F.pad(weights, (0, keys[1] - keys[0] - weights.shape[1])), side, pool))
        return torch.cat(found)

    def weights(self, rows: Span, keys: Span, sink: bool) -> Float[Tensor, "rows columns"]:
        """Single weights of a window, without the keys at its end that a mask rules out by position."""
        found = window_weights(self.sight, self.place, rows, keys)
        if not sink and keys[0] == 0:
            found[:, :1] = 0.0
        return found

    def strongest(self, count: int, sink: bool = True) -> Arrows:
        """The strongest weights of the head.

        They lie in the `count` cells of the floor with the largest maxima: every other cell has smaller ones only.
        """
        with torch.no_grad():
            found = [
                Arrows.of(self.weights(rows, keys, sink), (rows[0], keys[0]), count)
                for rows, keys in self.likely_windows(count, sink)
            ]
        return Arrows.joined(found, count)

    def likely_windows(self, count: int, sink: bool) -> Iterator[tuple[Span, Span]]:
        """Where the strongest weights are: in cells of the floor; in all rows, a few at a time, where it has none."""
        rows, keys = self.sizes
        if not self.needs_floor:
            for span in chunks((0, rows), 1, max(1, BAND_NUMBERS // keys)):
                yield span, (0, keys)
            return
        side, maxima = 2**self.floor_level, self.laid().window((0, rows), (0, keys), "max", sink)
        for place in maxima.flatten().topk(min(count, maxima.numel())).indices.tolist():
            row, key = (side * at for at in divmod(place, maxima.shape[1]))
            yield (row, min(row + side, rows)), (key, min(key + side, keys))
