"""Which keys a query may attend to: masks as small objects that combine with & and |, computed region by region.

True means "may attend". Positions count along the keys; the queries are the last of them, so a mask is also right when
keys come from a cache. No queries × keys mask is made unless one is passed in.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from transom.equations.region import FullShape, Region
from transom.names import Misfit, format_shape, integer_or_none

Span = tuple[int, int]
Allowed = Bool[Tensor, "#batch #heads #rows #columns"]
FARTHEST = 2**40  # a position beyond every key; sums of positions up to here cannot overflow

# Some models write "masked" as a large negative number instead of −∞. Three questions depend on where that begins, and
# each has its own threshold: one value for all would change results.
#
# Is this key of a fixed-size cache still unwritten? A wrong yes would join a step to the wrong history, so only a bias
# that no model adds for another reason counts.
UNWRITTEN_BIAS = -1e9
# May this query attend to this key? The question is asked of complete scores, where Q Kᵀ may raise the −1e9 a little;
# `masked_threshold` also covers half precision.
MASKED_SCORE = -1e8
# Does this key have a weight above 0? exp(−1e4) is 0 in every dtype, and some models mask with exactly −1e4.
NO_WEIGHT = -1e4


def masked_threshold(dtype: torch.dtype) -> float:
    """The score at or below which a key counts as masked: MASKED_SCORE, or half the lowest number of float16."""
    return max(MASKED_SCORE, torch.finfo(dtype).min / 2.0)


class Mask:
    """Says for any region which keys its queries may attend to."""

    @property
    def by_row(self) -> bool:
        """Whether rows differ."""
        return True

    def materialize(self, region: Region) -> Allowed:
        """True where a row of the region may attend to a column; axes that do not matter have size 1."""
        raise NotImplementedError

    def key_range(self, rows: Span, full_shape: FullShape) -> Span:
        """A range of keys outside which these rows attend to nothing, so that nothing there need be computed."""
        return (0, full_shape[3])

    def check(self, full_shape: FullShape, device: torch.device) -> None:
        """Raise an error if this mask does not fit an attention of that shape."""

    def conjuncts(self) -> Iterator["Mask"]:
        """The masks that must all allow an edge."""
        yield self

    def __and__(self, other: "Mask") -> "Mask":
        return AndMask(self, other) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: "Mask") -> "Mask":
        return OrMask(self, other) if isinstance(other, Mask) else NotImplemented


@dataclass(frozen=True, eq=False)
class MaskPair(Mask):
    """Two masks joined by & or |."""

    left: Mask
    right: Mask

    @property
    def by_row(self) -> bool:
        return self.left.by_row or self.right.by_row

    def check(self, full_shape: FullShape, device: torch.device) -> None:
        self.left.check(full_shape, device)
        self.right.check(full_shape, device)


class AndMask(MaskPair):
    """Allows what both masks allow."""

    def materialize(self, region: Region) -> Allowed:
        return self.left.materialize(region) & self.right.materialize(region)

    def key_range(self, rows: Span, full_shape: FullShape) -> Span:
        left, right = self.left.key_range(rows, full_shape), self.right.key_range(rows, full_shape)
        first = max(left[0], right[0])
        return (first, max(first, min(left[1], right[1])))

    def conjuncts(self) -> Iterator[Mask]:
        yield from self.left.conjuncts()
        yield from self.right.conjuncts()


class OrMask(MaskPair):
    """Allows what at least one mask allows."""

    def materialize(self, region: Region) -> Allowed:
        return self.left.materialize(region) | self.right.materialize(region)

    def key_range(self, rows: Span, full_shape: FullShape) -> Span:
        left, right = self.left.key_range(rows, full_shape), self.right.key_range(rows, full_shape)
        return (min(left[0], right[0]), max(left[1], right[1]))


@dataclass(frozen=True)
class Causal(Mask):
    """No later positions. `start` is the position of the first query; by default the queries are the last positions."""

    start: int | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            object.__setattr__(self, "start", check_position("the start of a causal mask", self.start, -FARTHEST))

    def materialize(self, region: Region) -> Allowed:
        return (region.key_positions() <= region.query_positions(self.start))[None, None]

    def key_range(self, rows: Span, full_shape: FullShape) -> Span:
        first = full_shape[3] - full_shape[2] if self.start is None else self.start
        return (0, min(full_shape[3], max(0, rows[1] + first)))


@dataclass(frozen=True)
class SlidingWindow(Mask):
    """Only positions at most `width` − 1 away."""

    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", check_position("the width of sliding_window", self.width, 1))

    def materialize(self, region: Region) -> Allowed:
        return ((region.key_positions() - region.query_positions()).abs() < self.width)[None, None]

    def key_range(self, rows: Span, full_shape: FullShape) -> Span:
        first = full_shape[3] - full_shape[2]
        lowest = min(full_shape[3], max(0, rows[0] + first - self.width + 1))
        return (lowest, max(lowest, min(full_shape[3], rows[1] + first + self.width - 1)))


@dataclass(frozen=True, eq=False)
class SameDocument(Mask):
    """Only the query's own document, among several packed into one sequence."""

    ids: Shaped[Tensor, "#batch keys"]

    def __post_init__(self) -> None:
        if self.ids.is_floating_point() and bool(self.ids.isnan().any()):
            raise Misfit(
                "same_document(ids) takes a number for each token, but some are NaN; number the documents from 0"
            )

    def materialize(self, region: Region) -> Allowed:
        queries, keys = region.full_shape[2:]
        key_ids = region.crop(self.ids[:, None, None, :])
        row_ids = region.crop(self.ids[:, None, keys - queries :, None])
        return row_ids == key_ids

    def key_range(self, rows: Span, full_shape: FullShape) -> Span:
        # Only for a batch of one: otherwise the documents of one entry would decide how another is split into blocks.
        if len(self.ids) > 1:
            return (0, full_shape[3])
        ids, first = self.ids[0], full_shape[3] - full_shape[2]
        row_ids = ids[rows[0] + first : rows[1] + first]
        near = ((ids >= row_ids.min()) & (ids <= row_ids.max())).nonzero()
        return (int(near[0]), int(near[-1]) + 1)

    def check(self, full_shape: FullShape, device: torch.device) -> None:
        check_batch_keys("same_document(ids)", self.ids, full_shape, device)
        if full_shape[2] > full_shape[3]:
            raise Misfit(
                f"same_document takes the queries as the last of the keys, but there are queries={full_shape[2]} and"
                f" keys={full_shape[3]}; give a bool tensor as allowed instead"
            )


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Only real tokens, no padding."""

    real: Bool[Tensor, "#batch keys"]

    def materialize(self, region: Region) -> Allowed:
        return region.crop(self.real[:, None, None, :])

    @property
    def by_row(self) -> bool:
        return False

    def check(self, full_shape: FullShape, device: torch.device) -> None:
        check_batch_keys("padding(real)", self.real, full_shape, device)


@dataclass(frozen=True, eq=False)
class TensorMask(Mask):
    """A bool tensor with the axes (batch, heads, queries, keys)."""

    allowed: Bool[Tensor, "#batch #heads #queries #keys"]

    def materialize(self, region: Region) -> Allowed:
        return region.crop(self.allowed)

    @property
    def by_row(self) -> bool:
        return self.allowed.shape[2] != 1


def causal() -> Mask:
    """A row sees its own position and those before it."""
    return Causal()


def sliding_window(width: int) -> Mask:
    """A row sees only positions less than `width` away; with `causal()`, itself and the width − 1 before it."""
    return SlidingWindow(width)


def same_document(ids: Tensor) -> Mask:
    """A row sees only its own document; `ids` is (keys) or (batch, keys), equal where the document is the same."""
    return SameDocument(as_batch_keys("same_document(ids)", ids))


def padding(real: Tensor) -> Mask:
    """No row sees padding; `real` is bool, (keys) or (batch, keys), True for real tokens."""
    if not isinstance(real, Tensor):
        raise Misfit(
            f"padding(real) takes a bool tensor, True for real tokens, but got {type(real).__name__}; use torch.tensor"
        )
    if real.dtype != torch.bool:
        raise Misfit(
            f"padding(real) takes a bool tensor, True for real tokens, but got {real.dtype};"
            " for numbers 0 and 1 use real.bool()"
        )
    return Padding(as_batch_keys("padding(real)", real))


def check_position(what: str, value: object, least: int) -> int:
    """`value` as an int; it must be a whole number, no bool, and so small that sums of positions cannot overflow."""
    number = integer_or_none(value)
    if number is None or not least <= number <= FARTHEST:
        raise Misfit(
            f"{what} must be a whole number from {least} to {FARTHEST}, but got {value!r:.60};"
            " no key is farther away, so leave the mask out to see all of them"
        )
    return number


def as_batch_keys(what: str, tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise Misfit(
            f"{what} takes a tensor of (keys) or (batch, keys), but got {type(tensor).__name__}; use torch.tensor"
        )
    if tensor.dim() not in (1, 2):
        raise Misfit(
            f"{what} takes (keys) or (batch, keys), but got {format_shape(tensor, '')}; flatten it to one row per batch"
        )
    return tensor if tensor.dim() == 2 else tensor[None]


def check_batch_keys(what: str, tensor: Tensor, full_shape: FullShape, device: torch.device) -> None:
    """Raise an error unless a (batch, keys) tensor fits an attention of that shape and device."""
    batch, keys = full_shape[0], full_shape[3]
    if tensor.shape[0] not in (1, batch) or tensor.shape[1] != keys:
        raise Misfit(
            f"{what} is {format_shape(tensor, 'batch keys')}, but the attention has batch={batch} and keys={keys};"
            " give one entry per key, cached ones included"
        )
    if tensor.device != device:
        raise Misfit(f"{what} is on {tensor.device}, but Q is on {device}; move it with .to(Q.device)")
