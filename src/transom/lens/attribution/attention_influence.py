"""`found[name]`: what every edge of one attention was worth, as tiles, maps, sums and sets of keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.equations.influence import NEAR_ONE
from transom.kernels import influence_stats, weight_stats
from transom.lens.attention.indexing import AxisIndex
from transom.lens.attention.pooled_map import PooledMap
from transom.lens.attention.sight import Sight
from transom.lens.attribution.edge_changes import EdgeChanges
from transom.lens.attribution.influence_map import pool_changes
from transom.lens.attribution.key_sets import KeySet, set_members
from transom.names import Misfit, integer_or_none


@dataclass(frozen=True, eq=False)
class TopChanges:
    """The keys of each row whose edges change the number most, the largest first; −1 and 0 if there are fewer."""

    changes: Float[Tensor, "batch heads queries any"]
    keys: Int[Tensor, "batch heads queries any"]


@dataclass(frozen=True, eq=False)
class ChangeSums:
    """The changes of single edges, summed over the rows and over the keys."""

    per_key: Float[Tensor, "batch heads keys"]
    per_row: Float[Tensor, "batch heads queries"]


class AttentionInfluence:
    """What the number would change by without each edge of one attention, to first order: negative if the edge helped.

    `sight` is the attention itself, `gradient` that of the number by its output. Nothing of size queries × keys is made
    unless all edges are asked for.
    """

    def __init__(self, sight: Sight, gradient: Float[Tensor, "batch heads queries d_value"], how: str) -> None:
        self.sight, self.gradient, self.how = sight, gradient, how
        self.changes = EdgeChanges(sight, gradient, how)

    def edges(
        self, batch: AxisIndex = None, head: AxisIndex = None, rows: AxisIndex = None, keys: AxisIndex = None
    ) -> Tensor:
        """The change without each selected edge alone; each axis by an index (which drops it), a slice or a list."""
        return self.sight.select(self.changes.region_changes, batch, head, rows, keys)

    def top(self, k: int = 8) -> TopChanges:
        """The k keys of each row whose edges change the number most, in either direction."""
        number = integer_or_none(k)
        if number is None or number < 1:
            raise Misfit(f"top needs k of 1 or more, but got {k}; top(8) lists eight keys of each row")
        number = min(number, self.sight.shape[3])
        if self.changes.native is not None and number <= weight_stats.MAX_TOP_K:
            native = influence_stats.compute_influence(self.sight.problem, self.changes.native, number)
            self.sums = ChangeSums(native.per_key, native.per_row)
            return TopChanges(native.top_changes, native.top_keys)
        return top_changes(self.changes, number)

    def map(
        self,
        head: int,
        cells: int = 256,
        pool: Literal["max", "mean", "sum"] = "max",
        rows: slice | None = None,
        keys: slice | None = None,
        batch: int = 0,
    ) -> PooledMap:
        """A head's changes over a window, pooled into at most cells × cells; max is the largest size, with its sign."""
        with torch.no_grad():
            return pool_changes(self.changes, head, cells, pool, (rows, keys), batch)

    @cached_property
    def sums(self) -> ChangeSums:
        """Both sums, from one pass over the edges, in float64 until the end."""
        if self.changes.native is not None:
            native = influence_stats.compute_influence(self.sight.problem, self.changes.native, 0)
            return ChangeSums(native.per_key, native.per_row)
        batch, heads, queries, keys = self.sight.shape
        like = self.changes.GO
        per_key = like.new_zeros((batch, heads, keys), dtype=torch.float64)
        per_row = like.new_zeros((batch, heads, queries), dtype=torch.float64)
        for block, values in self.changes.blocks():
            values = values.double()
            per_key[block.batch, block.heads, block.columns] += values.sum(dim=-2)
            per_row[block.batch, block.heads, block.rows] = values.sum(dim=-1)
        return ChangeSums(per_key.to(like.dtype), per_row.to(like.dtype))

    def per_key(self) -> Float[Tensor, "batch heads keys"]:
        """The change if no row could attend to this key: the sum of its edges over the rows."""
        return self.sums.per_key

    def per_row(self) -> Float[Tensor, "batch heads queries"]:
        """The sum of the changes of a row's edges, each knocked out alone."""
        return self.sums.per_row

    def per_head(self) -> Float[Tensor, "batch heads"]:
        """The change without the whole head, which then gives zeros: −Σ gradient · output."""
        return -self.changes.GO.double().sum(dim=-1).to(self.changes.GO.dtype)

    def spans(self, spans: Sequence[KeySet]) -> Float[Tensor, "batch heads queries any"]:
        """For each row, the change if it loses a set of keys at once: A_S / (1 − A_S) · (g·o − g·v̄_S).

        A set is (first, one past the last), a range, a slice or a list of positions. After the softmax it is the sum
        of its edges.
        """
        members = set_members(spans, self.sight.shape[3], self.gradient.device)
        changes = self.changes.GO.new_zeros((*self.sight.shape[:3], len(members)))
        for block, values, _ in self.changes.span_blocks(members):
            changes[block.batch, block.heads, block.rows] = values.to(changes.dtype)
        return changes

    @cached_property
    def near_one(self) -> int:
        """How many edges have more than 0.9 of a row's weight and reach the number.

        Without one of them the output of its head is another one: beyond what a first order promises.
        """
        reaches = (self.gradient != 0.0).any(dim=-1)
        return int((reaches & (self.sight.peak() > NEAR_ONE)).sum())

    def __repr__(self) -> str:
        return f"AttentionInfluence({self.sight!r}, knocked out {self.how} the softmax)"


def top_changes(changes: EdgeChanges, k: int) -> TopChanges:
    """The k largest changes of each row, block by block."""
    values = changes.GO.new_zeros((*changes.sight.shape[:3], k))
    keys = torch.full(values.shape, -1, dtype=torch.long, device=values.device)
    for block, of_block in changes.blocks():
        count = min(k, block.shape[3])
        rows = (block.batch, block.heads, block.rows, slice(0, count))
        columns = of_block.abs().topk(count, dim=-1).indices
        values[rows] = of_block.gather(-1, columns)
        keys[rows] = columns + block.key_positions()[0, 0]
    return TopChanges(values, keys.masked_fill(values == 0.0, -1))
