"""Sight: one attention with its Q, K and V. StatsOnlySight: its statistics alone. AttentionView: what both share."""

from collections.abc import Callable
from functools import cached_property
from typing import Literal, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.region import Region
from transom.kernels import build_problem, dispatch, weight_stats
from transom.lens.attention.indexing import AxisIndex, first_position, is_single_index, resolve_index
from transom.lens.attention.kv_history import KVSlice
from transom.lens.attention.labels import RunLabels
from transom.lens.attention.pooled_map import PooledMap, pool_map
from transom.lens.attention.receipt import Receipt, check_receipt, default_row_count
from transom.lens.attention.record import AttentionRecord
from transom.lens.attention.statistics import Statistics, TopKeys, compute_statistics, top_keys
from transom.names import Drawable, Misfit, format_shape, integer_or_none

STATISTICS_ONLY = (
    "this needs Q, K and V, but only statistics of the attention were kept; watch with keep='qkv' to have them"
)
AXES = ("batch", "heads", "queries", "keys")
TOP = 8  # keys that top() lists by default
RECORD_ATTRIBUTES = {"problem", "joined_output", "unproved", "weight_mask"}  # set on each Sight, not on its class


class AttentionView(Drawable):
    """What every attention of a trace has, however much of it was kept: shape, statistics, receipt, labels."""

    trace_labels: tuple[str, RunLabels] | None = None  # its name and labels in the last trace it was added to
    kv_slice: KVSlice | None = None  # which keys of a growing cache this step used

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, queries, keys)."""
        raise NotImplementedError

    @cached_property
    def lse(self) -> Float[Tensor, "batch heads queries"]:
        """The log-sum-exp of each row."""
        raise NotImplementedError

    @cached_property
    def statistics(self) -> Statistics:
        """Entropy, peak, distance and received, from one pass over the weights."""
        raise NotImplementedError

    @property
    def full(self) -> "Sight | None":
        """The same attention with Q, K and V; None if only statistics were kept."""
        raise NotImplementedError

    def receipt(self, rows: int | None = None) -> Receipt:
        """How far Σ weight · value is from the output, and the tolerance for it; over `rows` rows, or all."""
        raise NotImplementedError

    def require_full(self) -> "Sight":
        """The same attention with Q, K and V, or an error that says how to keep them."""
        if self.full is None:
            raise Misfit(STATISTICS_ONLY)
        return self.full

    @property
    def first_key(self) -> int:
        """The position of its first key among those of all steps."""
        return 0 if self.kv_slice is None else self.kv_slice.first

    def entropy(self) -> Float[Tensor, "batch heads queries"]:
        """How spread out each row is, in nats: 0 if one key has all the weight, log n if n keys share it equally."""
        return self.statistics.entropy

    def peak(self) -> Float[Tensor, "batch heads queries"]:
        """The largest weight of each row."""
        return self.statistics.peak

    def distance(self) -> Float[Tensor, "batch heads queries"]:
        """The mean distance from each query to its keys: Σⱼ weight · |position − position of j|.

        The queries are the last of the keys, unless a causal mask says otherwise. To another sequence there is none.
        """
        distance, (_, _, queries, keys) = self.statistics.distance, self.shape
        if queries > keys and bool(distance.isnan().all()):
            raise Misfit(
                f"distance is between positions of one sequence, but there are queries={queries} and keys={keys}, and"
                " no causal mask says where the queries are; cross-attention has none"
            )
        return distance

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """The attention that each key received, summed over all rows."""
        return self.statistics.received

    def __repr__(self) -> str:
        return f"{type(self).__name__}{format_shape(self.shape, ' '.join(AXES))}"


class Sight(AttentionRecord, AttentionView):
    """Q, K, V, the output and one log-sum-exp per row: every score and weight follows from these, exactly.

    Weights are those before dropout. No tensor of size queries × keys is made unless you ask for it.
    """

    top_eight: TopKeys | None = None  # if they were computed together with the output

    @property
    def Q(self) -> Float[Tensor, "batch heads queries d_head"]:
        return self.problem.Q

    @property
    def K(self) -> Float[Tensor, "batch kv_heads keys d_head"]:
        return self.problem.K

    @property
    def V(self) -> Float[Tensor, "batch kv_heads keys d_value"]:
        return self.problem.V

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.problem.shape

    @property
    def full(self) -> "Sight":
        return self

    @cached_property
    def statistics(self) -> Statistics:
        with torch.no_grad():
            return compute_statistics(self)

    def weights(
        self, batch: AxisIndex = None, head: AxisIndex = None, rows: AxisIndex = None, keys: AxisIndex = None
    ) -> Tensor:
        """The selected weights: each axis by an index (which drops it), a slice or a list; all by default."""
        return self.select(self.region_weights, batch, head, rows, keys)

    def scores(
        self, batch: AxisIndex = None, head: AxisIndex = None, rows: AxisIndex = None, keys: AxisIndex = None
    ) -> Tensor:
        """The selected scores: scaled, capped and biased, before the softmax; −∞ where masked."""
        return self.select(self.problem.scores, batch, head, rows, keys)

    def select(self, compute: Callable[[Region], Tensor], *axes: AxisIndex) -> Tensor:
        """What a function computes of the selected region, without the axes that are selected by a single index."""
        batch, heads, rows, columns = (
            resolve_index(index, axis, size, self.Q.device)
            for index, axis, size in zip(axes, AXES, self.shape, strict=True)
        )
        with torch.no_grad():
            values = compute(self.problem.region().narrow(batch=batch, heads=heads, rows=rows, columns=columns))
        return values[tuple(0 if is_single_index(index) else slice(None) for index in axes)]

    def top(self, k: int = TOP) -> TopKeys:
        """The k keys with the largest weights in each row: `.weights`, `.keys`, and the `.mass` they cover."""
        number = integer_or_none(k)
        if number is None or number < 1:
            raise Misfit(f"top needs k of 1 or more, but got {k}; top(8) lists the eight strongest keys of each row")
        if self.top_eight is not None and number <= TOP:
            number = min(number, self.K.shape[2])
            return TopKeys(self.top_eight.weights[..., :number], self.top_eight.keys[..., :number])
        with torch.no_grad():
            return top_keys(self, number)

    def map(
        self,
        head: int,
        cells: int = 256,
        pool: Literal["max", "mean", "sum"] = "max",
        rows: slice | None = None,
        keys: slice | None = None,
        batch: int = 0,
    ) -> PooledMap:
        """A head's attention over a window, pooled exactly into at most cells × cells."""
        with torch.no_grad():
            return pool_map(self, head, cells, pool, (rows, keys), batch)

    def receipt(self, rows: int | None = None) -> Receipt:
        number = None if rows is None else integer_or_none(rows)
        if rows is not None and (number is None or number < 1):
            raise Misfit(f"a receipt tries 1 row or more, but got rows={rows}; leave it out to try all of them")
        with torch.no_grad():
            return check_receipt(self, number)


class StatsOnlySight(AttentionView):
    """The log-sum-exp, the statistics and the receipt of an attention, computed while the model ran."""

    def __init__(self, sight: Sight, device: torch.device | None = None) -> None:
        stats = sight.statistics
        parts = (stats.entropy, stats.peak, stats.distance, stats.received)
        self.sizes, self.saved_receipt = sight.shape, sight.receipt(default_row_count(sight.shape))
        self.lse = sight.lse.to(device, copy=True)  # never a tensor of the model itself
        self.statistics = Statistics(*(x.to(device) for x in parts))

    @classmethod
    def from_values(
        cls, shape: tuple[int, int, int, int], lse: Tensor, statistics: Statistics, receipt: Receipt
    ) -> "StatsOnlySight":
        """One with these numbers, as read from a file."""
        view = cls.__new__(cls)
        view.sizes, view.lse, view.statistics, view.saved_receipt = shape, lse, statistics, receipt
        return view

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.sizes

    @property
    def full(self) -> None:
        return None

    def receipt(self, rows: int | None = None) -> Receipt:
        """The receipt as it was when the model ran."""
        return self.saved_receipt

    def __getattr__(self, name: str) -> NoReturn:
        """Explain why it has no weights, scores and so on, and how to have them."""
        if name in RECORD_ATTRIBUTES or hasattr(Sight, name):
            raise NotKept(STATISTICS_ONLY)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class NotKept(Misfit, AttributeError):
    """Something that needs Q, K and V was asked of an attention of which only statistics were kept."""


AnySight = Sight | StatsOnlySight


def sight(Q: Tensor, K: Tensor, V: Tensor, at_once: bool = False, **options: object) -> Sight:
    """The same attention as `attend(Q, K, V, …)`, kept for inspection; `sight.output` is what `attend` returns.

    at_once   compute entropy, peak, distance, received and the top eight keys together with the output: with the native
              engine that costs little more than the output alone. No gradient flows through the output then.
    """
    if not isinstance(at_once, bool):
        raise Misfit(
            f"at_once must be True or False, but got {type(at_once).__name__}; give masks and all else that attend"
            " takes by name: sight(Q, K, V, allowed=mask)"
        )
    problem = build_problem(Q, K, V, **options)  # pyright: ignore[reportArgumentType]
    if not at_once or not weight_stats.native_supports(problem):
        return Sight(problem, *dispatch.solve(problem))
    with torch.no_grad():
        output, lse, native = weight_stats.attend_with_stats(problem, TOP, first_position(problem))
    result = Sight(problem, output, lse)
    result.statistics = Statistics(native.entropy, native.peak, native.distance, native.received)
    result.top_eight = TopKeys(native.top_weights, native.top_keys)
    return result
