"""Attention by hand: weights, however a model normalised them, that a product multiplies with values.

A batched product whose left matrix is not negative and sums to 1 along the rows is `weights @ values`, if that matrix
has the size of an earlier product (the scores) or of a softmax. It gives weights, values and output at once.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from transom.lens.capture.captured_attention import CapturedAttention
from transom.lens.capture.eager_attention import HEADS, from_weights, looks_like_attention

ROW_SUM_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.01}
MOST_WAITING = 4096  # softmaxes that wait for their product; older ones are forgotten
CHANGED = "the model changed these weights between its softmax and its values"


@dataclass(eq=False)
class Normalisation:
    """A softmax, an exp or the like ran, and may have made the weights of an attention."""

    shape: tuple[int, ...]
    modules: list[nn.Module]  # that were running, outermost first
    of_product: bool  # whether a product of this size came before it
    weights: Tensor | None = None  # a copy, if it is a softmax over the last axis of three or four
    is_cut: bool = False  # whether edges were cut out of it already
    multiplied: bool = False  # whether something of its size was multiplied with something

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def module(self) -> nn.Module | None:
        return self.modules[-1] if self.modules else None

    @property
    def is_named(self) -> bool:
        """Whether it counts as attention without further evidence: a softmax in a class named after attention."""
        return self.weights is not None and self.module is not None and looks_like_attention(self.module)


@dataclass(eq=False)
class WeightedSum:
    """Weights (batch, heads, queries, keys), values and output of a product, all copies."""

    weights: Tensor
    V: Tensor
    output: Tensor
    modules: list[nn.Module]
    split_known: bool = True  # whether batch and heads are known, or all matrices count as heads
    unproved: str = ""
    tentative: bool = False  # whether it may as well be pooling: one query, or keys that no other attention has
    in_order: bool = False  # whether something that took the output proves that its rows are the queries in order
    refused: str = ""  # why it cannot be shown
    reported: bool = False
    pieces: int = 1
    axes: int = 4  # of its softmax

    def to_captured(self) -> CapturedAttention:
        return from_weights(self.weights, self.V, self.output, self.unproved)


@dataclass(frozen=True, eq=False)
class SegmentSum:
    """Numbers were added up in segments, as along the edges of a graph."""

    modules: list[nn.Module]  # that were running, outermost first
    size: int  # how many numbers
    segments: frozenset[int]  # how many, along each axis that may be the one


@dataclass(eq=False)
class HandAttention:
    """What one thread has seen of attention by hand, and not reported yet."""

    product_sizes: set[int] = field(default_factory=set)  # how many numbers earlier products had
    waiting: list[Normalisation] = field(default_factory=list)
    sums: list[WeightedSum] = field(default_factory=list)
    # Products of products without a softmax: the modules that ran, and the shape of the first product.
    unexplained: list[tuple[list[nn.Module], tuple[int, ...]]] = field(default_factory=list)

    exp_sizes: set[int] = field(default_factory=set)  # of how many numbers an exp was taken
    segment_sums: list[SegmentSum] = field(default_factory=list)
    # Attention that was seen in part: the modules that ran, and why the whole was not.
    refused: list[tuple[list[nn.Module], str]] = field(default_factory=list)

    def clear(self) -> None:
        self.unexplained.clear()
        self.exp_sizes.clear()
        self.segment_sums.clear()
        self.refused.clear()
        self.product_sizes.clear()
        self.waiting.clear()
        self.sums.clear()

    def add(self, event: Normalisation) -> None:
        self.waiting = [*self.waiting[1 - MOST_WAITING :], event]

    def latest(self, size: int) -> Normalisation | None:
        """The last normalisation of that many numbers."""
        return next((event for event in reversed(self.waiting) if event.size == size), None)

    def take_sums(self, module: nn.Module | None) -> list[WeightedSum]:
        """The sums of a module, or all if it is None; they are reported now."""
        taken = [one for one in self.sums if module is None or (one.modules and one.modules[-1] is module)]
        self.sums = [one for one in self.sums if one not in taken]
        return taken

    def take_named(self, module: nn.Module) -> list[Normalisation]:
        """The softmaxes of a module named after attention that no product took."""
        taken = [event for event in self.waiting if event.module is module and event.is_named]
        self.waiting = [event for event in self.waiting if event not in taken]
        return taken


@dataclass(frozen=True, eq=False)
class WeightsMatch:
    """One factor of a product as weights (batch · heads, queries, keys)."""

    event: Normalisation | None
    weights: Tensor
    sizes: tuple[int, int]  # batch and heads
    split_known: bool
    modules: list[nn.Module]
    unproved: str
    tentative: bool


def match_weights(
    state: HandAttention, left: Tensor, modules: list[nn.Module], key_counts: set[int]
) -> WeightsMatch | None:
    """The left matrix of a batched product as weights, if it is that."""
    event, of_product = state.latest(left.numel()), left.numel() in state.product_sizes
    if event is None and not of_product:
        return None
    queries, keys = left.shape[-2:]
    weights, unproved = left, ""
    sure = of_product or (event is not None and event.is_named)
    if event is not None:
        event.multiplied = True
        if event.is_named and event.shape[-2:] != (queries, keys):
            return None  # heads among the queries, say: its weights alone are reported
    if not is_row_stochastic(left, one_key=event is not None):
        if event is None or event.weights is None or event.shape[-2:] != (queries, keys) or not sure:
            return None
        weights, unproved = event.weights.reshape(left.shape), CHANGED
    # Without an earlier product it may be pooling, which has one query, or routing, which has no keys.
    tentative = not sure and (queries == 1 or keys not in {queries, *key_counts})
    running = modules if event is None else shared_modules(modules, event.modules)
    sizes, known = split_batch(left.shape[0], event, left.shape[-2:], running[-1] if running else None)
    return WeightsMatch(event, weights, sizes, known, running, unproved, tentative)


def is_row_stochastic(x: Tensor, one_key: bool = False) -> bool:
    """Whether rows sum to 1 and no number is negative; fully masked rows may be 0 or NaN. One key only if allowed."""
    if (x.shape[-1] < 2 and not one_key) or not x.is_floating_point() or not x.numel():
        return False
    sums = x.sum(dim=-1, dtype=torch.float32 if x.dtype != torch.float64 else None)
    fits = ((sums - 1).abs() <= ROW_SUM_TOLERANCE.get(x.dtype, 1e-4)) | (sums == 0) | sums.isnan()
    return bool(fits.all()) and bool((sums > 0).any()) and not bool((x < 0).any())


def split_batch(
    count: int, event: Normalisation | None, matrix: torch.Size, module: nn.Module | None
) -> tuple[tuple[int, int], bool]:
    """Batch and heads of a batched product of `count` matrices (queries, keys), and whether anything says so."""
    if event is not None and len(event.shape) >= 4:
        leading = list(reversed(event.shape))
        for size in reversed(matrix):
            if size in leading:
                leading.remove(size)
        if len(leading) >= 2 and math.prod(leading) == count:
            return (math.prod(leading[1:]), leading[0]), len(event.shape) == 4
    counts = (getattr(module, name, None) for name in HEADS)
    heads = next((number for number in counts if isinstance(number, int) and number > 0), None)
    return ((count // heads, heads), True) if heads is not None and count % heads == 0 else ((1, count), False)


def shared_modules(first: list[nn.Module], second: list[nn.Module]) -> list[nn.Module]:
    """The modules that were running both times."""
    pairs = zip(first, second, strict=False)
    count = next(
        (number for number, (one, other) in enumerate(pairs) if one is not other), min(len(first), len(second))
    )
    return first[:count]


def add_sum(state: HandAttention, match: WeightsMatch, right: Tensor, output: Tensor) -> None:
    """Keep copies of weights, values and output; values that the sum before had too are kept once."""
    used = match.event
    if used is not None:  # with the other steps of the same softmax: a log-softmax and its exp, say
        state.waiting = [
            one for one in state.waiting if one is not used and (one.weights is not None or one.size != used.size)
        ]
    V = right.detach().unflatten(0, match.sizes)
    before = state.sums[-1].V if state.sums else None
    shared = before is not None and before.shape == V.shape and torch.equal(before, V)
    weights, output = (x.detach().clone().unflatten(0, match.sizes) for x in (match.weights, output))
    V = before if shared and before is not None else V.clone()
    kept = WeightedSum(weights, V, output, match.modules, match.split_known, match.unproved, match.tentative)
    kept.axes = 4 if used is None else len(used.shape)
    state.sums.append(kept)
