"""`attend`, and what the rooms above it need of its parts: `lens` imports nothing else from here.

attend                                   the one function that every attention of Transom starts in
dispatch                                 `solve` a Problem with the chosen engine; `listener` intercepts each call
influence_stats                          sums, tops and pooled cells of the influence of edges by the native engine
weight_stats                             statistics and pooled cells of the weights by the native engine
Problem, build_problem                   one attention, checked to fit together
check_tensors, check_sizes, check_numbers, to_four_axes   the single checks, for problems that come from a file
row_blocks, BLOCK_SCORES                 a problem a few rows at a time
solve_tiled, safe_context                exact attention in such blocks
mark_empty_rows                          −∞ as the log-sum-exp of fully masked rows
"""

from transom.kernels import dispatch
from transom.kernels.dispatch import attend
from transom.kernels.problem import Problem, build_problem, check_numbers, check_sizes, check_tensors, to_four_axes
from transom.kernels.tiled_attention import BLOCK_SCORES, row_blocks, safe_context, solve_tiled
from transom.kernels.torch_engine import mark_empty_rows

# `weight_stats` and `influence_stats` are loaded when first imported: they need the native engine, `attend` may not.
__all__ = [
    "BLOCK_SCORES",
    "Problem",
    "attend",
    "build_problem",
    "check_numbers",
    "check_sizes",
    "check_tensors",
    "dispatch",
    "influence_stats",  # pyright: ignore[reportUnsupportedDunderAll]
    "mark_empty_rows",
    "row_blocks",
    "safe_context",
    "solve_tiled",
    "to_four_axes",
    "weight_stats",  # pyright: ignore[reportUnsupportedDunderAll]
]
