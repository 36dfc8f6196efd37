"""Two runs of the same tokens, one minus the other: what a change of the model or of its input did to its weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.blocks import Block, numbers
from transom.kernels.tiles import BAND_NUMBERS
from transom.lens.asked import Asked
from transom.lens.labels import is_cross, whole
from transom.lens.measuring.head_table import HeadRow, HeadTable
from transom.lens.pooled import Map
from transom.lens.sight import AXES, Sight
from transom.lens.trace import Trace, some
from transom.names import Misfit, spelled

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


@dataclass(frozen=True, eq=False)
class Difference:
    """Weights of a second run minus those of a first."""

    before: Trace
    after: Trace

    def __str__(self) -> str:
        return str(self.summary())

    @property
    def names(self) -> list[str]:
        return self.before.names

    def weights(
        self, name: str, head: Asked = None, rows: Asked = None, keys: Asked = None, batch: Asked = None
    ) -> Tensor:
        """After minus before, as `Sight.weights` gives them."""
        asked = {"batch": batch, "head": head, "rows": rows, "keys": keys}
        return self.after[name].weights(**asked) - self.before[name].weights(**asked)

    def map(
        self,
        name: str,
        head: int,
        cells: int = 256,
        pool: Literal["mean", "sum"] = "mean",
        rows: slice | None = None,
        keys: slice | None = None,
        batch: int = 0,
    ) -> Map:
        """The signed difference pooled into at most cells × cells; only means and sums of differences are exact."""
        if pool not in ("mean", "sum"):
            raise Misfit(f"a signed map is pooled by mean or sum, but got {pool!r}; a maximum has no sign")
        first, last = (trace[name].map(head, cells, pool, rows, keys, batch) for trace in (self.before, self.after))
        return Map(last.values - first.values, first.rows, first.keys, first.cell, pool)

    def summary(self) -> HeadTable:
        """Per head the attention that moved, ½ Σ |change| of a row on average, and the largest single change."""
        rows = []
        for name, first, second in self.pairs():
            moved, largest = changed(first, second)
            count = first.lse.shape[0] * first.lse.shape[2]
            rows += [
                HeadRow(name, head, is_cross(name), {MOVED: one, LARGEST: other}, {MOVED: count, LARGEST: count})
                for head, (one, other) in enumerate(zip(moved.tolist(), largest.tolist(), strict=True))
            ]
        return HeadTable((MOVED, LARGEST), rows, {})

    def strongest(self, k: int = 10) -> list[Change]:
        """The k weights that changed most, the largest change first."""
        if k < 1:
            raise Misfit(f"strongest needs k of 1 or more, but got {k}; 10 is a good look")
        found: list[Change] = []
        for name, first, second in self.pairs():
            for entry in range(first.problem.whole[0]):
                for band in full_rows(first, entry):
                    found += largest_of(name, first, second, band, k)
                    found = sorted(found, key=lambda one: -abs(one.change))[:k]
        return found

    def pairs(self) -> Iterator[tuple[str, Sight, Sight]]:
        for name in self.names:
            yield name, self.before[name], self.after[name]


def diff(before: Trace, after: Trace) -> Difference:
    """The signed difference of two runs: the same attentions over the same tokens, in shapes that are alike."""
    if before.names != after.names or len(before) != len(after):
        raise Misfit(
            f"a difference is of two runs of one model, but the first saw {len(before)} attentions"
            f" ({some(before.names, 2)}) and the second {len(after)} ({some(after.names, 2)}); watch both alike"
        )
    if len(before.names) != len(before):
        raise Misfit("a difference is of runs in which each module ran once, but some ran often; run without a cache")
    for words, (one, other) in {
        "tokens": (before.tokens, after.tokens),
        "targets": (before.targets, after.targets),
    }.items():
        if one is not None and other is not None and one != other:
            raise Misfit(f"a difference is of the same {words}, but the two runs have others; give both the same text")
    for (name, first), (_, second) in zip(before.items(), after.items(), strict=True):
        if whole(first) != whole(second):
            one, other = (spelled(whole(sight), " ".join(AXES)) for sight in (first, second))
            raise Misfit(f"{name!r} is {one} in the first run and {other} in the second; give both the same tokens")
    return Difference(before, after)


def full_rows(sight: Sight, batch: int) -> Iterator[Block]:
    """Runs of rows with all keys: what one run may look at may be masked in the other."""
    _, heads, queries, keys = sight.problem.whole
    at_once = max(1, BAND_NUMBERS // max(1, keys * heads))
    for first in range(0, queries, at_once):
        rows = slice(first, min(first + at_once, queries))
        yield sight.problem.block().narrowed(batch=slice(batch, batch + 1), rows=rows)


def changed(first: Sight, second: Sight) -> tuple[Float[Tensor, " heads"], Float[Tensor, " heads"]]:
    """Per head ½ Σ |change| of a row on average, and the largest change with its sign."""
    batch, heads, queries, keys = first.problem.whole
    moved, largest = torch.zeros((2, heads), dtype=torch.float64)
    for entry in range(batch if keys else 0):
        for band in full_rows(first, entry):
            change = (second.block_weights(band) - first.block_weights(band))[0].flatten(1).double().cpu()
            moved += change.abs().sum(dim=1) / 2
            best = change.gather(1, change.abs().argmax(dim=1, keepdim=True))[:, 0]
            largest = torch.where(best.abs() > largest.abs(), best, largest)
    return moved / max(1, batch * queries), largest


def largest_of(name: str, first: Sight, second: Sight, band: Block, k: int) -> list[Change]:
    """The k largest changes of one band."""
    before, after = (sight.block_weights(band)[0] for sight in (first, second))
    flat = (after - before).abs().flatten()
    strongest = flat.topk(min(k, len(flat))).indices
    batch, top = (
        int(numbers(index, size, flat.device)[0])
        for index, size in ((band.batch, band.whole[0]), (band.rows, band.whole[2]))
    )
    return [
        Change(name, batch, head, row + top, key, float(before[head, row, key]), float(after[head, row, key]))
        for head, row, key in zip(*(x.tolist() for x in torch.unravel_index(strongest, before.shape)), strict=True)
    ]
