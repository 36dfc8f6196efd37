"""Statistics of the weights by the native engine: with the output in one pass, or later from Q, K and log-sum-exp."""

from ctypes import byref
from dataclasses import dataclass
from math import inf

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels import dispatch, native_engine, native_library
from transom.kernels.native_args import to_native_args, why_unsupported
from transom.kernels.native_engine import References
from transom.kernels.native_library import AttentionParams, ForwardResult, MapWindow
from transom.kernels.problem import Problem

MAX_TOP_K = 32  # the largest k of the k strongest keys
IN_ONE_PASS = 2**15  # keys up to which the weights of a block of rows stay in the cache until their columns are summed
LARGEST_LSE = 4e-6 / torch.finfo(torch.float32).eps  # a larger one is too coarse to compute weights from
Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class WeightStats:
    """Statistics of all weights, and the k strongest keys of each row."""

    entropy: Float[Tensor, "batch heads queries"]
    peak: Float[Tensor, "batch heads queries"]
    distance: Float[Tensor, "batch heads queries"]
    received: Float[Tensor, "batch heads keys"]
    top_weights: Float[Tensor, "batch heads queries any"]
    top_keys: Int[Tensor, "batch heads queries any"]

    @classmethod
    def allocate(cls, problem: Problem, k: int) -> "WeightStats":
        batch, heads, queries, keys = problem.shape
        rows = (batch, heads, queries)
        return cls(
            entropy=torch.empty(rows),
            peak=torch.empty(rows),
            distance=torch.empty(rows),
            received=torch.empty(batch, heads, keys),
            top_weights=torch.empty(*rows, k),
            top_keys=torch.empty(*rows, k, dtype=torch.long),
        )


def native_supports(problem: Problem, lse: Tensor | None = None) -> bool:
    """Whether the native engine computes the statistics of this attention."""
    name = dispatch.requested_engine()
    if name == "torch" or isinstance(native_library.library_or_reason(), str) or why_unsupported(problem) is not None:
        return False
    return lse is None or (lse.dtype == torch.float32 and bool((lse.abs() < LARGEST_LSE).logical_or(lse == -inf).all()))


def attend_with_stats(problem: Problem, k: int, start: int | None) -> tuple[Tensor, Tensor, WeightStats]:
    """Output, log-sum-exp and all statistics in one pass; nothing of it is differentiable."""
    problem = problem.detach()
    if problem.shape[3] > IN_ONE_PASS:
        output, lse = native_engine.solve(problem)
        return output, lse, compute_stats(problem, lse, k, start)
    output, lse = native_engine.empty_output(problem.Q, problem.V), torch.empty(problem.shape[:3])
    nonfinite = torch.zeros((), dtype=torch.int32)
    result = ForwardResult(output.data_ptr(), native_library.strides(output), lse.data_ptr(), k=k)
    result.nonfinite = nonfinite.data_ptr()
    stats = run_pass("forward", problem, result, start)
    if nonfinite:
        output, lse = native_engine.solve(problem)
    return output.to(problem.Q.dtype), lse, stats


def compute_stats(
    problem: Problem, lse: Float[Tensor, "batch heads queries"], k: int, start: int | None
) -> WeightStats:
    """All statistics of an attention whose log-sum-exp is known; `start` is the position of the first query."""
    lse = lse.contiguous()
    return run_pass("weight_stats", problem.detach(), ForwardResult(lse=lse.data_ptr(), k=k), start)


def stats_params(problem: Problem, V: Tensor | None, start: int | None) -> tuple[AttentionParams, References]:
    """The problem as the library reads it, and the tensors that must live as long; V is None if it is not needed."""
    K = native_engine.adjacent_rows(problem.K)
    params, references = native_engine.to_params(problem.Q, K, K if V is None else V, to_native_args(problem))
    params.start = 0 if start is None else start
    return params, references


def run_pass(name: str, problem: Problem, result: ForwardResult, start: int | None) -> WeightStats:
    """The statistics by a pass that also sums up columns, for which each chunk of rows has its own memory."""
    native, with_values = native_library.require_library().native, name == "forward"
    params, references = stats_params(problem, problem.V if with_values else None, start)
    stats = WeightStats.allocate(problem, result.k)
    for field, tensor in vars(stats).items():
        setattr(result, field, tensor.data_ptr())
    function, units, chunks = (getattr(native, f"transom_{name}{part}") for part in ("", "_units", "_chunks"))
    structs = byref(params), byref(result)
    partial = torch.empty(params.batch * params.heads, chunks(*structs), params.keys)
    result.partial = partial.data_ptr()
    products = native_engine.count_products(params, params.d_head + with_values * params.d_value)
    native_library.call_in_chunks(function, units(*structs), products, *structs)
    del references
    if start is None:  # without a position of the queries among the keys, there is no distance
        stats.distance.fill_(torch.nan)
    return stats


def pool_window(
    problem: Problem, lse: Tensor, head: tuple[int, int], window: tuple[Span, Span], cell: tuple[int, int]
) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, "rows columns"]]:
    """The largest weight and the sum of the weights in each cell of a window; `head` is (batch, head)."""
    problem = problem.detach()
    params, references = stats_params(problem, None, 0)
    (first_row, last_row), (first_key, last_key) = window
    maxima, sums = torch.zeros(2, -(-(last_row - first_row) // cell[0]), -(-(last_key - first_key) // cell[1]))
    map_window = MapWindow(*head, *window[0], *window[1], *cell, sums.data_ptr(), maxima.data_ptr())
    native, lse = native_library.require_library().native, lse.contiguous()
    units = native.transom_pooled_map_units(byref(params), byref(map_window))
    products = (last_row - first_row) * (last_key - first_key) * problem.Q.shape[3]
    native_library.call_in_chunks(native.transom_pooled_map, units, products, params, lse.data_ptr(), map_window)
    del references
    return maxima, sums
