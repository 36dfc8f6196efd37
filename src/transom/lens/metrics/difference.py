"""Two runs over the same tokens subtracted: what a change of the model or of its input did to its weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.region import Region
from transom.files.html_table import DisplayedTable
from transom.lens.attention.indexing import AxisIndex
from transom.lens.attention.labels import is_cross
from transom.lens.attention.pooled_map import PooledMap
from transom.lens.attention.record import head_row_blocks
from transom.lens.attention.sight import AXES, Sight
from transom.lens.metrics.head_table import HeadRow, HeadTable
from transom.lens.trace import Trace, list_some
from transom.names import Misfit, format_shape

MOVED, LARGEST = "moved", "largest"


@dataclass(frozen=True)
class Change:
    """One weight before and after."""

    layer: str
    batch: int
    head: int
    row: int
    key: int
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, eq=False, repr=False)
class Difference(DisplayedTable):
    """The weights of a second run minus those of a first."""

    before: Trace
    after: Trace

    def __str__(self) -> str:
        return str(self.summary())

    def table_cells(self) -> tuple[list[str], list[list[str]]]:
        return self.summary().table_cells()

    @property
    def names(self) -> list[str]:
        return self.before.names

    def weights(
        self,
        name: str,
        head: AxisIndex = None,
        rows: AxisIndex = None,
        keys: AxisIndex = None,
        batch: AxisIndex = None,
    ) -> Tensor:
        """After minus before, selected as in `Sight.weights`."""
        after, before = (trace[name].weights(batch, head, rows, keys) for trace in (self.after, self.before))
        return after - before

    def map(
        self,
        name: str,
        head: int,
        cells: int = 256,
        pool: Literal["mean", "sum"] = "mean",
        rows: slice | None = None,
        keys: slice | None = None,
        batch: int = 0,
    ) -> PooledMap:
        """The signed difference pooled into at most cells × cells; only means and sums of differences are exact."""
        if pool not in ("mean", "sum"):
            raise Misfit(f"a signed map is pooled by mean or sum, but got {pool!r}; a maximum has no sign")
        before, after = (trace[name].map(head, cells, pool, rows, keys, batch) for trace in (self.before, self.after))
        return PooledMap(after.values - before.values, before.rows, before.keys, before.cell, pool)

    def summary(self) -> HeadTable:
        """Per head the attention that moved, ½ Σ |change| of a row on average, and the largest single change."""
        rows = []
        for name, before, after in self.pairs():
            count = before.shape[0] * before.shape[2]
            columns = (x.tolist() for x in measure_change(before, after))
            for head, (moved, largest) in enumerate(zip(*columns, strict=True)):
                values, counts = {MOVED: moved, LARGEST: largest}, {MOVED: count, LARGEST: count}
                rows.append(HeadRow(name, head, is_cross(name), values, counts))
        return HeadTable((MOVED, LARGEST), rows, {})

    def strongest(self, k: int = 10) -> list[Change]:
        """The k weights that changed most, the largest change first."""
        if k < 1:
            raise Misfit(f"strongest needs k of 1 or more, but got {k}; 10 is a good look")
        changes: list[Change] = []
        for name, before, after in self.pairs():
            for batch, block in comparable_blocks(before):
                changes += largest_changes(name, batch, before, after, block, k)
                changes = sorted(changes, key=lambda change: -abs(change.change))[:k]
        return changes

    def pairs(self) -> Iterator[tuple[str, Sight, Sight]]:
        """The name of each attention, and its Sight before and after."""
        for name in self.names:
            yield name, self.before[name].require_full(), self.after[name].require_full()


def diff(before: Trace, after: Trace) -> Difference:
    """The signed difference of two runs: the same attentions over the same tokens, in the same shapes."""
    if before.names != after.names or len(before) != len(after):
        raise Misfit(
            f"a difference is of two runs of one model, but the first saw {len(before)} attentions"
            f" ({list_some(before.names, 2)}) and the second {len(after)}"
            f" ({list_some(after.names, 2)}); watch both alike"
        )
    if len(before.names) != len(before):
        raise Misfit("a difference is of runs in which each module ran once, but some ran often; run without a cache")
    for labels in ("tokens", "targets"):
        first, second = getattr(before, labels), getattr(after, labels)
        if first is not None and second is not None and first != second:
            raise Misfit(f"a difference is of the same {labels}, but the two runs have others; give both the same text")
    for (name, first), (_, second) in zip(before.items(), after.items(), strict=True):
        if first.shape != second.shape:
            shapes = [format_shape(view.shape, " ".join(AXES)) for view in (first, second)]
            raise Misfit(
                f"{name!r} is {shapes[0]} in the first run and {shapes[1]} in the second; give both the same tokens"
            )
    return Difference(before, after)


def comparable_blocks(sight: Sight) -> Iterator[tuple[int, Region]]:
    """Blocks of rows of each sequence, with all keys: what one run may see may be masked in the other."""
    for batch in range(sight.shape[0]):
        for block in head_row_blocks(sight, batch, all_keys=True):
            yield batch, block


def measure_change(before: Sight, after: Sight) -> tuple[Float[Tensor, " heads"], Float[Tensor, " heads"]]:
    """Per head ½ Σ |change| of a row on average, and the largest change with its sign."""
    batch, heads, queries, keys = before.shape
    moved, largest = torch.zeros((2, heads), dtype=torch.float64)
    for _, block in comparable_blocks(before) if keys else ():
        change = (after.region_weights(block) - before.region_weights(block))[0].flatten(1).double().cpu()
        moved += change.abs().sum(dim=1) / 2
        best = change.gather(1, change.abs().argmax(dim=1, keepdim=True))[:, 0]
        largest = torch.where(best.abs() > largest.abs(), best, largest)
    return moved / max(1, batch * queries), largest


def largest_changes(name: str, batch: int, before: Sight, after: Sight, block: Region, k: int) -> list[Change]:
    """The k largest changes of one block."""
    first, second = (sight.region_weights(block)[0] for sight in (before, after))
    change = (second - first).abs().flatten()
    top = torch.unravel_index(change.topk(min(k, len(change))).indices, first.shape)
    first_row = int(block.query_positions(0)[0, 0])
    return [
        Change(name, batch, head, first_row + row, key, float(first[head, row, key]), float(second[head, row, key]))
        for head, row, key in zip(*(x.tolist() for x in top), strict=True)
    ]
