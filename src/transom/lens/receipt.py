"""The receipt: proof that the weights shown are those that made the output."""

from dataclasses import dataclass

import torch

from transom.kernels.tiles import bands, safe_context
from transom.lens.kept import Kept


@dataclass(frozen=True)
class Receipt:
    """The largest |Σⱼ weight · value − output| over all rows, and what it is held to."""

    difference: float
    tolerance: float

    @property
    def holds(self) -> bool:
        return self.difference <= self.tolerance

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FAILS'}: {self.difference:.1e} of {self.tolerance:.1e}"


def checked(kept: Kept) -> Receipt:
    """Every row of the output computed again from the weights that would be shown."""
    problem, worst = kept.problem, 0.0
    for band in bands(problem):
        weights, scaled = kept.block_weights(band), problem.dropout_factors(band)
        again = safe_context(weights if scaled is None else weights * scaled, problem.values_of(band))
        real = kept.output[band.batch, band.heads, band.rows].detach().to(again.dtype)
        same = (again == real) | (again.isnan() & real.isnan())
        apart = torch.where(same, 0.0, (again - real).abs())
        worst = max(worst, float(torch.nan_to_num(apart, nan=torch.inf).max()))
    return Receipt(worst, tolerance(kept))


def tolerance(kept: Kept) -> float:
    """What rounding may do: a few last places of the output's dtype, and of the scores behind the weights.

    A score as large as L is known only to L · ε, and a weight inherits that as a relative error.
    """
    problem = kept.problem
    values = problem.V.detach().abs()
    largest = float(values[values.isfinite()].max()) if values.isfinite().any() else 0.0
    reach = kept.lse[kept.lse.isfinite()].abs()
    scores = max(1.0, float(reach.max()) / 16.0) if len(reach) else 1.0
    grain = 2.0 * torch.finfo(problem.Q.dtype).eps + 64.0 * torch.finfo(problem.accurate).eps * scores
    return largest * grain / (1.0 - problem.dropout)
