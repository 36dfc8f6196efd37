"""Who may look at whom: masks as small objects that combine with & and |, worked out one block at a time.

True means "may look". Positions count along the keys; the queries are the last positions, so that a mask stays right
when keys come from a cache. No mask of size queries × keys is ever made unless one is given.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from transom.equations.blocks import Block
from transom.names import Misfit, spelled, whole_number

Whole = tuple[int, int, int, int]
Span = tuple[int, int]
Seen = Bool[Tensor, "#batch #heads #rows #columns"]
FARTHEST = 2**40  # positions beyond which no key stands, and within which sums of positions cannot overflow


class Mask:
    """Says for any block who may look at whom; `by_row` is False where the answer is the same for all rows."""

    @property
    def by_row(self) -> bool:
        return True

    def seen(self, block: Block) -> Seen:
        """True where a row of the block may look at a column; axes that do not matter have size 1."""
        raise NotImplementedError

    def span(self, rows: Span, whole: Whole) -> Span:
        """A range of keys outside which none of these rows may look: what lies outside need not be computed."""
        return (0, whole[3])

    def check(self, whole: Whole, device: torch.device) -> None:
        """Complain if this mask does not fit an attention of that size."""

    def conjuncts(self) -> Iterator["Mask"]:
        """The masks that must all say yes."""
        yield self

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, other) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: "Mask") -> "Mask":
        return Either(self, other) if isinstance(other, Mask) else NotImplemented


@dataclass(frozen=True, eq=False)
class Both(Mask):
    """May look where both masks say so."""

    left: Mask
    right: Mask

    def seen(self, block: Block) -> Seen:
        return self.left.seen(block) & self.right.seen(block)

    def span(self, rows: Span, whole: Whole) -> Span:
        left, right = self.left.span(rows, whole), self.right.span(rows, whole)
        first = max(left[0], right[0])
        return (first, max(first, min(left[1], right[1])))

    def check(self, whole: Whole, device: torch.device) -> None:
        self.left.check(whole, device)
        self.right.check(whole, device)

    @property
    def by_row(self) -> bool:
        return self.left.by_row or self.right.by_row

    def conjuncts(self) -> Iterator[Mask]:
        yield from self.left.conjuncts()
        yield from self.right.conjuncts()


@dataclass(frozen=True, eq=False)
class Either(Mask):
    """May look where at least one mask says so."""

    left: Mask
    right: Mask

    def seen(self, block: Block) -> Seen:
        return self.left.seen(block) | self.right.seen(block)

    def span(self, rows: Span, whole: Whole) -> Span:
        left, right = self.left.span(rows, whole), self.right.span(rows, whole)
        return (min(left[0], right[0]), max(left[1], right[1]))

    @property
    def by_row(self) -> bool:
        return self.left.by_row or self.right.by_row

    def check(self, whole: Whole, device: torch.device) -> None:
        self.left.check(whole, device)
        self.right.check(whole, device)


@dataclass(frozen=True)
class Causal(Mask):
    """No looking ahead. `start` is the position of the first query; by default the queries are the last positions."""

    start: int | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            object.__setattr__(self, "start", position_number("the start of a causal mask", self.start, -FARTHEST))

    def seen(self, block: Block) -> Seen:
        return (block.key_positions() <= block.query_positions(self.start))[None, None]

    def span(self, rows: Span, whole: Whole) -> Span:
        first = whole[3] - whole[2] if self.start is None else self.start
        return (0, min(whole[3], max(0, rows[1] + first)))


@dataclass(frozen=True)
class SlidingWindow(Mask):
    """Only as far as `width` − 1 positions away: itself and its neighbours."""

    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", position_number("the width of sliding_window", self.width, 1))

    def seen(self, block: Block) -> Seen:
        return ((block.key_positions() - block.query_positions()).abs() < self.width)[None, None]

    def span(self, rows: Span, whole: Whole) -> Span:
        first = whole[3] - whole[2]
        lowest = min(whole[3], max(0, rows[0] + first - self.width + 1))
        return (lowest, max(lowest, min(whole[3], rows[1] + first + self.width - 1)))


@dataclass(frozen=True, eq=False)
class SameDocument(Mask):
    """Only within one's own document, for several packed into one sequence."""

    ids: Shaped[Tensor, "#batch keys"]

    def __post_init__(self) -> None:
        if self.ids.is_floating_point() and bool(self.ids.isnan().any()):
            raise Misfit(
                "same_document(ids) takes a number for each token, but some are NaN; number the documents from 0"
            )

    def seen(self, block: Block) -> Seen:
        queries, keys = block.whole[2:]
        of_keys = block.part(self.ids[:, None, None, :])
        of_rows = block.part(self.ids[:, None, keys - queries :, None])
        return of_rows == of_keys

    def span(self, rows: Span, whole: Whole) -> Span:
        # Only for one sequence: with more, one batch entry's documents would decide how another's are cut into blocks.
        if len(self.ids) > 1:
            return (0, whole[3])
        ids, first = self.ids[0], whole[3] - whole[2]
        own = ids[rows[0] + first : rows[1] + first]
        near = ((ids >= own.min()) & (ids <= own.max())).nonzero()
        return (int(near[0]), int(near[-1]) + 1)

    def check(self, whole: Whole, device: torch.device) -> None:
        fits("same_document(ids)", self.ids, whole, device)
        if whole[2] > whole[3]:
            raise Misfit(
                f"same_document takes the queries as the last of the keys, but there are queries={whole[2]} and"
                f" keys={whole[3]}; give a bool tensor as allowed instead"
            )


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """No looking at padding."""

    real: Bool[Tensor, "#batch keys"]

    def seen(self, block: Block) -> Seen:
        return block.part(self.real[:, None, None, :])

    @property
    def by_row(self) -> bool:
        return False

    def check(self, whole: Whole, device: torch.device) -> None:
        fits("padding(real)", self.real, whole, device)


@dataclass(frozen=True, eq=False)
class Given(Mask):
    """A bool tensor as it came, seen as (batch, heads, queries, keys)."""

    allowed: Bool[Tensor, "#batch #heads #queries #keys"]

    def seen(self, block: Block) -> Seen:
        return block.part(self.allowed)

    @property
    def by_row(self) -> bool:
        return self.allowed.shape[2] != 1


def causal() -> Mask:
    """No looking ahead: a row sees its own position and those before it."""
    return Causal()


def sliding_window(width: int) -> Mask:
    """A row sees only positions less than `width` away; with `causal()`, itself and the width − 1 before it."""
    return SlidingWindow(width)


def same_document(ids: Tensor) -> Mask:
    """A row sees only its own document; `ids` is (keys) or (batch, keys), equal where the document is the same."""
    return SameDocument(two_axes("same_document(ids)", ids))


def padding(real: Tensor) -> Mask:
    """Nobody sees padding; `real` is bool, (keys) or (batch, keys), True for real tokens."""
    if not isinstance(real, Tensor):
        raise Misfit(
            f"padding(real) takes a bool tensor, True for real tokens, but got {type(real).__name__}; use torch.tensor"
        )
    if real.dtype != torch.bool:
        raise Misfit(
            f"padding(real) takes a bool tensor, True for real tokens, but got {real.dtype};"
            " for numbers 0 and 1 use real.bool()"
        )
    return Padding(two_axes("padding(real)", real))


def position_number(what: str, value: object, least: int) -> int:
    """The one check of a number that positions are counted with: a whole one, no bool, and none that could overflow."""
    number = whole_number(value)
    if number is None or not least <= number <= FARTHEST:
        raise Misfit(
            f"{what} must be a whole number from {least} to {FARTHEST}, but got {value!r:.60};"
            " no key is farther away, so leave the mask out to see all of them"
        )
    return number


def two_axes(what: str, tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise Misfit(
            f"{what} takes a tensor of (keys) or (batch, keys), but got {type(tensor).__name__}; use torch.tensor"
        )
    if tensor.dim() not in (1, 2):
        raise Misfit(
            f"{what} takes (keys) or (batch, keys), but got {spelled(tensor, '')}; flatten it to one row per batch"
        )
    return tensor if tensor.dim() == 2 else tensor[None]


def fits(what: str, tensor: Tensor, whole: Whole, device: torch.device) -> None:
    """Complain unless a (batch, keys) tensor belongs to an attention of that size and device."""
    batch, keys = whole[0], whole[3]
    if tensor.shape[0] not in (1, batch) or tensor.shape[1] != keys:
        raise Misfit(
            f"{what} is {spelled(tensor, 'batch keys')}, but the attention has batch={batch} and keys={keys};"
            " give one entry per key, cached ones included"
        )
    if tensor.device != device:
        raise Misfit(f"{what} is on {tensor.device}, but Q is on {device}; move it with .to(Q.device)")
