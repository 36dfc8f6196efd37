"""Influence of edges by the native engine: sums, the largest changes of each row, pooled cells, in one pass each."""

from ctypes import byref
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels import native_engine, native_library, weight_stats
from transom.kernels.native_library import AttentionParams, InfluenceParams, MapWindow
from transom.kernels.problem import Problem
from transom.kernels.tiled_attention import is_finite
from transom.kernels.weight_stats import Span


@dataclass(frozen=True, eq=False)
class OutputGradient:
    """The gradient of a number by an attention's output, and how its edges are knocked out: all that influence needs.

    GO is gradient · output of each row.
    """

    lse: Float[Tensor, "batch heads queries"]
    GO: Float[Tensor, "batch heads queries"]
    gradient: Float[Tensor, "batch heads queries d_value"]
    after: bool

    def to_params(self) -> tuple[InfluenceParams, list[Tensor]]:
        """The numbers as the library reads them, and the tensors that must live as long."""
        tensors = [x.contiguous() for x in (self.lse, self.GO, self.gradient)]
        return InfluenceParams(*(x.data_ptr() for x in tensors), int(self.after)), tensors


@dataclass(frozen=True, eq=False)
class InfluenceStats:
    """The changes of all edges, summed, and the k largest of each row; key −1 if there are fewer."""

    per_row: Float[Tensor, "batch heads queries"]
    per_key: Float[Tensor, "batch heads keys"]
    top_changes: Float[Tensor, "batch heads queries any"]
    top_keys: Int[Tensor, "batch heads queries any"]


def native_supports(problem: Problem, gradient: OutputGradient) -> bool:
    """Whether the native engine computes the influence of this attention."""
    tensors = (gradient.GO, gradient.gradient)
    fits = all(x.dtype == torch.float32 and x.device.type == "cpu" for x in tensors)
    # 0 · NaN is NaN: a masked value that is not finite would spoil every row.
    return fits and weight_stats.native_supports(problem, gradient.lse) and all(map(is_finite, (*tensors, problem.V)))


def compute_influence(problem: Problem, gradient: OutputGradient, k: int) -> InfluenceStats:
    """Sums over rows and keys, and the k largest changes of each row, from one pass over the keys."""
    native, (batch, heads, queries, keys) = native_library.require_library().native, problem.shape
    params, references = attention_params(problem)
    influence, kept = gradient.to_params()
    stats = InfluenceStats(
        per_row=torch.empty(batch, heads, queries),
        per_key=torch.empty(batch, heads, keys),
        top_changes=torch.empty(batch, heads, queries, k),
        top_keys=torch.empty(batch, heads, queries, k, dtype=torch.long),
    )
    for field, tensor in vars(stats).items():
        setattr(influence, field, tensor.data_ptr())
    influence.k = k
    structs = byref(params), byref(influence)
    partial = torch.empty(batch * heads, native.transom_influence_stats_chunks(*structs), keys)
    influence.partial = partial.data_ptr()
    products = native_engine.count_products(params, params.d_head + params.d_value)
    units = native.transom_influence_stats_units(*structs)
    native_library.call_in_chunks(native.transom_influence_stats, units, products, *structs)
    del references, kept
    return stats


def pool_window(
    problem: Problem, gradient: OutputGradient, head: tuple[int, int], window: tuple[Span, Span], cell: tuple[int, int]
) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, "rows columns"]]:
    """The largest change by size, with its sign, and the sum of the changes in each cell; `head` is (batch, head)."""
    native = native_library.require_library().native
    params, references = attention_params(problem)
    influence, kept = gradient.to_params()
    (first_row, last_row), (first_key, last_key) = window
    maxima, sums = torch.zeros(2, -(-(last_row - first_row) // cell[0]), -(-(last_key - first_key) // cell[1]))
    map_window = MapWindow(*head, *window[0], *window[1], *cell, sums.data_ptr(), maxima.data_ptr())
    structs = byref(params), byref(influence), byref(map_window)
    products = (last_row - first_row) * (last_key - first_key) * (params.d_head + params.d_value)
    units = native.transom_influence_map_units(*structs)
    native_library.call_in_chunks(native.transom_influence_map, units, products, *structs)
    del references, kept
    return maxima, sums


def attention_params(problem: Problem) -> tuple[AttentionParams, list[Tensor]]:
    problem = problem.detach()
    return weight_stats.stats_params(problem, problem.V, 0)
