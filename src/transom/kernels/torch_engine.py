"""The torch engine: PyTorch's fused kernel where it is right, exact tiles everywhere else."""

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
    output, lse = fused.solve(problem)
    # 0 · NaN is NaN: only in a masked attention can a number reach a row that may not look at it.
    if problem.mask is not None and not tiles.is_finite(output.detach()):
        return kept_apart(problem)
    return output, lse


def kept_apart(problem: Problem) -> tuple[Tensor, Tensor]:
    """Attention over keys or values that are no usable numbers: rows that may not look at them keep their very bits."""
    wild = unusable(problem)
    clean = replace(problem, K=problem.K.masked_fill(wild, 0.0), V=tiles.finite(problem.V))
    output, lse = fused.solve(clean)
    reached = rows_reached(problem, (wild | ~problem.V.isfinite().all(dim=-1, keepdim=True))[..., 0])
    if reached.any():
        exact, exact_lse = tiles.attention_in_tiles(problem)
        output, lse = torch.where(reached[..., None], exact, output), torch.where(reached, exact_lse, lse)
    return output, lse


def unusable(problem: Problem) -> Bool[Tensor, "batch kv_heads keys 1"]:
    """Keys that hold NaN or infinity, or numbers so large that a score with them might overflow."""
    largest = tiles.finite(problem.Q.detach()).abs().max().to(problem.accurate) * abs(problem.scale)
    bound = torch.finfo(problem.accurate).max / (4.0 * problem.Q.shape[3] * largest.clamp_min(1.0))
    return ~(problem.K.detach().abs() <= bound).all(dim=-1, keepdim=True)


def rows_reached(problem: Problem, bad: Bool[Tensor, "batch kv_heads keys"]) -> Bool[Tensor, "batch heads queries"]:
    """Rows that may look at one of the bad keys."""
    bad = bad.repeat_interleave(problem.group, dim=1)[:, :, None, :]
    reached = torch.zeros(problem.whole[:3], dtype=torch.bool, device=problem.Q.device)
    for band in tiles.bands(problem):
        seen = problem.seen(band)
        here = band.part(bad).expand(band.shape) if seen is None else band.part(bad) & seen
        reached[band.batch, band.heads, band.rows] = here.any(dim=-1)
    return reached
