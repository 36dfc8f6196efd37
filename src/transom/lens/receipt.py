"""The receipt: proof that the weights shown are those that made the output."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.blocks import Block
from transom.equations.heads import joined
from transom.kernels.tiles import bands, safe_context
from transom.lens.kept import Joined, Kept

EVERY_ROW = 2**24  # weights of a head up to which all its rows are tried where nobody says how many
SOME_ROWS = 64  # of each head, beyond that


@dataclass(frozen=True)
class Receipt:
    """The largest |Σⱼ weight · value − output| over all rows, and what it is held to.

    `unproved` says why, where the output cannot be made again; such a receipt neither holds nor fails. `part` says how
    many rows were tried, where it was not all of them.
    """

    difference: float
    tolerance: float
    unproved: str = ""
    part: str = ""

    @property
    def holds(self) -> bool:
        return not self.unproved and self.difference <= self.tolerance

    @property
    def fails(self) -> bool:
        return not self.unproved and not self.holds

    def __str__(self) -> str:
        if self.unproved:
            return f"not checkable: {self.unproved}"
        tried = f" ({self.part})" if self.part else ""
        return f"{'holds' if self.holds else 'FAILS'}: {self.difference:.1e} of {self.tolerance:.1e}{tried}"


def checked(kept: Kept) -> Receipt:
    """Every row of the output computed again from the weights that would be shown."""
    if kept.unproved:
        return Receipt(torch.nan, torch.nan, kept.unproved)
    if kept.joined is not None:
        return joined_checked(kept, kept.joined)
    return Receipt(farthest(kept, bands(kept.problem)), tolerance(kept))


def sampled(kept: Kept, rows: int) -> Receipt:
    """The same for some rows alone, spread evenly: at great lengths all of them would cost as much as the attention."""
    batch, heads, queries, _ = kept.problem.whole
    if kept.unproved or kept.joined is not None or queries <= rows:
        return checked(kept)
    places = torch.linspace(0, queries - 1, rows, device=kept.problem.Q.device).round().long()
    some = kept.problem.block().narrowed(rows=places)
    blocks = (
        some.narrowed(batch=slice(entry, entry + 1), heads=slice(head, head + 1))
        for entry, head in product(range(batch), range(heads))
    )
    return Receipt(farthest(kept, blocks), tolerance(kept), part=f"{rows} of {queries} rows tried")


def rows_tried(whole: tuple[int, int, int, int]) -> int | None:
    """How many rows prove an attention of these sizes, where nobody says: all (None), unless its weights are many."""
    return SOME_ROWS if whole[2] * whole[3] > EVERY_ROW else None


def farthest(kept: Kept, blocks: Iterable[Block]) -> float:
    """The largest difference between the output and what the weights make, over these blocks."""
    worst = 0.0
    for block in blocks:
        place = (block.batch, block.heads, block.rows)
        real = kept.output[place].detach()
        again = as_undefined(heads_again(kept, block), real, kept.lse[place])
        worst = max(worst, apart(again, real.to(again.dtype)))
    return worst


def joined_checked(kept: Kept, used: Joined) -> Receipt:
    """The same for heads that are known only through W_O."""
    problem = kept.problem
    again = torch.zeros((*problem.whole[:3], problem.V.shape[3]), dtype=problem.accurate, device=problem.Q.device)
    for band in bands(problem):
        again[band.batch, band.heads, band.rows] = heads_again(kept, band)
    made, real = joined(again, used.W_O.mT.to(again.dtype)), used.output.to(again.dtype)
    if used.bias is not None:
        made = made + used.bias.to(again.dtype)
    made = as_undefined(made, real, kept.lse.amin(dim=1))
    if used.real is not None:
        made, real = made[used.real], real[used.real]
    reach = float(used.W_O.abs().sum(dim=1).max())
    grain = (
        8.0 * torch.finfo(used.output.dtype).eps * float(torch.nan_to_num(real).abs().max()) if real.numel() else 0.0
    )
    return Receipt(apart(made, real), tolerance(kept) * max(1.0, reach) + grain)


def heads_again(kept: Kept, band: Block) -> Float[Tensor, "batch heads rows d_value"]:
    """A band of the output from the weights that would be shown."""
    weights, scaled = kept.block_weights(band), kept.problem.dropout_factors(band)
    return safe_context(weights if scaled is None else weights * scaled, kept.problem.values_of(band))


def as_undefined(again: Tensor, real: Tensor, lse: Float[Tensor, "*any rows"]) -> Tensor:
    """NaN where a row may look nowhere and the model made NaN of it, as a plain softmax does of nothing."""
    return torch.where((lse == -torch.inf)[..., None] & real.isnan(), torch.nan, again)


def apart(again: Tensor, real: Tensor) -> float:
    """The largest difference; two NaN are alike, one is as far as can be."""
    same = (again == real) | (again.isnan() & real.isnan())
    distance = torch.nan_to_num(torch.where(same, 0.0, (again - real).abs()), nan=torch.inf)
    return float(distance.max()) if distance.numel() else 0.0


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
