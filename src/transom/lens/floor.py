"""The floor of a head's map: the largest weight and the sum of every cell, from one pass over all weights."""

from collections.abc import Callable
from math import ceil

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from transom.kernels import looking
from transom.kernels.tiles import BAND_NUMBERS
from transom.lens.pooled import Span, chunks, window_weights
from transom.lens.sight import Sight

ROWS_AT_ONCE = 512  # of a block of the floor; its keys fill up the second-level cache


class Stopped(Exception):
    """Nobody waits for the floor any more."""


class Floor:
    """Cells of side × side weights. A pass that is stopped goes on later where it was."""

    def __init__(self, sight: Sight, place: Span, side: int) -> None:
        self.sight, self.place, self.side = sight, place, side
        self.rows, self.keys = sight.problem.whole[2:]
        shape = (ceil(self.rows / side), ceil(self.keys / side))
        self.highest, self.total = (sight.lse.new_zeros(shape) for _ in range(2))
        # The first column of cells again, without the first key.
        self.bare_highest, self.bare_total = (sight.lse.new_zeros(shape[0]) for _ in range(2))
        self.laid = 0  # rows

    @property
    def ready(self) -> bool:
        return self.laid == self.rows

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return 2 * self.highest.numel()

    def lay(self, told: Callable[[float], None] | None = None, stopped: Callable[[], bool] | None = None) -> None:
        """Fill it; `told` hears the share that is done and may raise, `stopped` may end it with `Stopped`."""
        whole_cells = max(self.side, ROWS_AT_ONCE // self.side * self.side)
        while not self.ready:
            if stopped is not None and stopped():
                raise Stopped
            rows = (self.laid, min(self.laid + whole_cells, self.rows))
            with torch.no_grad():
                (self.by_engine if by_engine(self.sight, self.place, rows) else self.by_blocks)(rows)
                self.without_first(rows)
            self.laid = rows[1]
            if told is not None:
                told(self.laid / self.rows)

    def part(self, rows: Span) -> slice:
        return slice(rows[0] // self.side, ceil(rows[1] / self.side))

    def by_engine(self, rows: Span) -> None:
        part, cell = self.part(rows), (self.side, self.side)
        window = (rows, (0, self.keys))
        self.highest[part], self.total[part] = looking.mapped(
            self.sight.problem, self.sight.lse, self.place, window, cell
        )

    def by_blocks(self, rows: Span) -> None:
        highest, total = self.highest[self.part(rows)], self.total[self.part(rows)]
        for keys in chunks((0, self.keys), self.side, max(self.side, BAND_NUMBERS // ROWS_AT_ONCE)):
            weights = window_weights(self.sight, self.place, rows, keys)
            if 0 in weights.shape:  # all of it is ruled out by position
                continue
            sums = cells(weights, self.side, "mean")
            across = slice(keys[0] // self.side, keys[0] // self.side + sums.shape[1])
            highest[:, across], total[:, across] = cells(weights, self.side, "max"), sums

    def without_first(self, rows: Span) -> None:
        weights = window_weights(self.sight, self.place, rows, (0, min(self.side, self.keys)))[:, 1:]
        weights = F.pad(weights, (0, 1))  # at least one column, and none that is the first
        part = self.part(rows)
        self.bare_highest[part] = cells(weights, self.side, "max")[:, 0]
        self.bare_total[part] = cells(weights, self.side, "mean")[:, 0]

    def window(self, rows: Span, keys: Span, pool: str, sink: bool) -> Float[Tensor, "rows columns"]:
        """The maxima (or the sums) of the cells of a window that begins and ends with whole cells."""
        part = (self.highest if pool == "max" else self.total)[self.part(rows), self.part(keys)]
        if sink or keys[0] > 0:
            return part
        bare = (self.bare_highest if pool == "max" else self.bare_total)[self.part(rows)]
        return torch.cat([bare[:, None], part[:, 1:]], dim=1)


def by_engine(sight: Sight, place: Span, rows: Span) -> bool:
    """Whether the native engine can tell these rows of a head; the others do not matter."""
    return sight.zeroed is None and looking.looks(sight.problem, sight.lse[place][slice(*rows)])


def cells(values: Tensor, side: int, pool: str) -> Float[Tensor, "rows columns"]:
    """side × side numbers into one: their maximum, or their sum, which a mean is made of."""
    if side == 1:
        return values
    down, across = (ceil(size / side) for size in values.shape)
    values = F.pad(values, (0, across * side - values.shape[1], 0, down * side - values.shape[0]))
    values = values.view(down, side, across, side)
    return values.amax(dim=(1, 3)) if pool == "max" else values.sum(dim=(1, 3))
