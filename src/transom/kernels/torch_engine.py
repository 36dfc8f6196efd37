"""The torch engine: PyTorch's fused kernel where it is right, exact tiles everywhere else."""

import math
from dataclasses import replace

import torch
from jaxtyping import Bool
from torch import Tensor

from transom.kernels import fused, tiles
from transom.kernels.problem import Problem


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not; −∞ for rows that may look nowhere)."""
    if not fused.applies(problem):
        return tiles.attention_in_tiles(problem)
    output, lse, empty_rows = fused.solve_and_find_empty_rows(problem)
    # 0 · NaN is NaN: only in a masked attention can a number reach a row that may not look at it.
    if problem.mask is not None and not (tiles.is_finite(output.detach()) and gradients_fit(problem, empty_rows)):
        return kept_apart(problem)
    return output, lse


def gradients_fit(problem: Problem, empty_rows: bool) -> bool:
    """Whether nothing that is masked can overflow on the way back, where the kernel multiplies it by a weight of 0.

    Of keys and queries the output tells, unless a row looks nowhere: the kernel gives 0 for it whatever the numbers.
    """
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in (problem.Q, problem.K, problem.V))):
        return True
    if problem.V.dtype != torch.float16 and not largest(problem.V) <= most_value(problem):
        return False
    return not empty_rows or largest(problem.K) <= most_key(problem, largest(problem.Q))


def largest(x: Tensor) -> float:
    """The largest number regardless of sign; NaN, which is within no bound, if there is one."""
    return float(torch.linalg.vector_norm(x.detach(), torch.inf))


def most_key(problem: Problem, Q: float) -> float:
    """How large a key may be: no score overflows with queries as large as that."""
    # The kernel scales the product, not Q, so a scale below 1 does not help.
    return torch.finfo(problem.accurate).max / (4.0 * problem.Q.shape[3] * max(1.0, Q * max(1.0, abs(problem.scale))))


def most_value(problem: Problem) -> float:
    """How large a value may be: the product with a gradient no larger than itself does not overflow."""
    return math.sqrt(torch.finfo(problem.accurate).max / (4.0 * problem.V.shape[3]))


def kept_apart(problem: Problem) -> tuple[Tensor, Tensor]:
    """Attention over numbers that cannot be used as they are: rows that may not look at them keep their very bits."""
    lost = ~problem.Q.detach().isfinite().all(dim=-1, keepdim=True)
    wild, out_of_range = unusable(problem), ~(problem.V.detach().to(problem.accurate).abs() <= most_value(problem))
    clean = replace(
        problem,
        Q=tiles.finite(problem.Q),  # laid out as it came: the kernel's bits depend on the strides of Q
        K=problem.K.masked_fill(wild, 0.0),
        V=problem.V.masked_fill(out_of_range, 0.0),
    )
    output, lse = fused.solve(clean)
    reached = lost[..., 0] | rows_reached(problem, (wild | out_of_range.any(dim=-1, keepdim=True))[..., 0])
    if reached.any():
        exact, exact_lse = tiles.attention_in_tiles(problem)
        output, lse = torch.where(reached[..., None], exact, output), torch.where(reached, exact_lse, lse)
    return output, lse


def unusable(problem: Problem) -> Bool[Tensor, "batch kv_heads keys 1"]:
    """Keys that hold NaN or infinity, or numbers so large that a score with them might overflow."""
    # Compared in the dtype that scores are summed in: in half precision the bound itself would be infinite.
    bound = most_key(problem, float(tiles.finite(problem.Q.detach()).abs().max()))
    return ~(problem.K.detach().to(problem.accurate).abs() <= bound).all(dim=-1, keepdim=True)


def rows_reached(problem: Problem, bad: Bool[Tensor, "batch kv_heads keys"]) -> Bool[Tensor, "batch heads queries"]:
    """Rows that may look at one of the bad keys."""
    bad = bad.repeat_interleave(problem.group, dim=1)[:, :, None, :]
    reached = torch.zeros(problem.whole[:3], dtype=torch.bool, device=problem.Q.device)
    for band in tiles.bands(problem):
        seen = problem.seen(band)
        here = band.part(bad).expand(band.shape) if seen is None else band.part(bad) & seen
        reached[band.batch, band.heads, band.rows] = here.any(dim=-1)
    return reached
