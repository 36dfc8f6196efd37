"""Finds attention along the edges of a graph: exponentials added up in segments, and weighted values with them.

Its weights are one number for each edge, not a matrix of queries by keys, so it is named and not shown.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from transom.lens.capture.call_state import CAPTURE, is_concrete
from transom.lens.capture.kernel_overrides import Override
from transom.lens.capture.weight_products import SegmentSum
from transom.lens.unseen_attention import Evidence

OVER_EDGES = "exponentials and weighted values were summed over the same {} segments in it, as over edges of a graph"


def add_segment_sum(result: Tensor, size: int, axes: Sequence[int]) -> Tensor:
    """Note that so many numbers were added up along these axes of the result, which is returned."""
    if CAPTURE.listeners and CAPTURE.attention is None and result.dim() and is_concrete(result):
        hand = CAPTURE.hand
        segments = frozenset(result.shape[axis] for axis in axes if result.shape[axis] > 1)
        hand.segment_sums = [*hand.segment_sums[-99:], SegmentSum(CAPTURE.modules, size, segments)]
    return result


def capture_scattered(run: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """`index_add`, `scatter_add` and `scatter_reduce`: numbers are added to the rows that an index names."""
    return add_segment_sum(run(*args, **kwargs), args[3].numel(), [args[1]])


def capture_index_put(run: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    result = run(*args, **kwargs)
    if len(args) < 4 or not args[3]:  # nothing is added
        return result
    axes = [axis for axis, index in enumerate(args[1]) if index is not None]
    return add_segment_sum(result, args[2].numel(), axes)


def capture_segment_reduce(run: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return add_segment_sum(run(x, *args, **kwargs), x.numel(), [kwargs.get("axis", 0)])


def capture_sparse_product(run: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """A sparse matrix times a dense one: a sum over the edges that its entries are."""
    result = run(*args, **kwargs)
    left, right = args[-2:]
    return add_segment_sum(result, left._nnz() * right.shape[1], [0]) if left.is_sparse else result


def judge_segment_sums(module: nn.Module, x: Tensor | None) -> tuple[str, Evidence] | None:
    """Why a module that took x, and ends now, summed over edges, and how surely; None if it did not.

    Pooling of a graph sums over segments too, but not over one for each token of its input.
    """
    hand = CAPTURE.hand
    own = [one for one in hand.segment_sums if module in one.modules]
    for weights in (one for one in own if one.size in hand.exp_sizes):
        for values in (one for one in own if one.size > weights.size and one.size % weights.size == 0):
            segments = weights.segments & values.segments
            if segments:
                hand.segment_sums = [one for one in hand.segment_sums if one not in own]
                over_tokens = x is not None and bool(segments & set(x.shape[:-1]))
                return OVER_EDGES.format(max(segments)), "strong" if over_tokens else "weak"
    return None


# Captured from the first exp on.
SEGMENT_OPERATORS: list[Override] = [
    ("index_add", "CPU", capture_scattered),
    ("index_add_", "CPU", capture_scattered),
    ("scatter_add", "CPU", capture_scattered),
    ("scatter_add_", "CPU", capture_scattered),
    ("scatter_reduce.two", "CPU", capture_scattered),
    ("scatter_reduce_.two", "CPU", capture_scattered),
    ("_index_put_impl_", "CPU", capture_index_put),
    ("segment_reduce", "CPU", capture_segment_reduce),
    ("mm", "SparseCPU", capture_sparse_product),
    ("addmm", "SparseCPU", capture_sparse_product),
]
