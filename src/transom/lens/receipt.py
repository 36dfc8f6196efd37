"""The receipt: proof that the weights shown reproduce the output that the model used.

Each number of the output is held to a bound of its own. It follows from the keys which that row may see, their values
in that head and the dtype's rounding: a large number behind a mask, in another head or another row widens nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.blocks import Block
from transom.equations.heads import joined
from transom.kernels.tiles import bands, safe_context
from transom.lens.kept import Joined, Kept

EVERY_ROW = 2**24  # weights of a head up to which all its rows are tried by default
SOME_ROWS = 64  # of each head, beyond that
FLUSHED = 1024.0  # of the smallest normal number: below that some kernels count a product as 0, and others do not
# The relative error of a weight, in units of the dtype's eps, that its score does not explain: fast exponentials are
# good to 20 units in the last place, on the model's side and on ours, and both divide by a sum of such.
EXPONENTIALS = 64.0
# A bias of −1e9 swallows the score beneath it, on both sides alike: no score explains a larger error of its weight.
MOST_FROM_SCORES = 2.0**-6
PROVES_NOTHING = "its output is not finite, which proves nothing"


@dataclass(frozen=True)
class Receipt:
    """The difference |Σⱼ weight · value − output| that comes closest to its bound, and that bound.

    `unproved` says why, where the output cannot be computed again; such a receipt neither holds nor fails. `part` says
    how many rows were tried, where it was not all of them. `where` says which row this is.
    """

    difference: float
    tolerance: float
    unproved: str = ""
    part: str = ""
    where: str = field(default="", compare=False)

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
        where = f" in {self.where}" if self.fails and self.where else ""
        return f"{'holds' if self.holds else 'FAILS'}: {self.difference:.1e} of {self.tolerance:.1e}{where}{tried}"


class Comparison:
    """Compares outputs part by part, and remembers the number that comes closest to its bound, or exceeds it most."""

    def __init__(self) -> None:
        self.worst = (0.0, 0.0, 0.0)  # difference ÷ bound, difference, bound
        self.where = ""
        self.rows = self.rows_tried = 0

    def add(self, again: Tensor, real: Tensor, bound: Tensor, block: Block | None = None) -> None:
        """Compare one part; (…, rows, width) each. Two equal numbers that are not finite prove nothing."""
        same = (again == real) | (again.isnan() & real.isnan())
        finite = again.isfinite() & real.isfinite()
        tried = torch.where(finite, bound.isfinite(), ~same)
        bound = torch.where(bound.isfinite(), bound, 0.0)  # finite against not finite is never within a bound
        if real.shape[-1] == 0 or real.numel() == 0:
            return
        self.rows += real[..., 0].numel()
        self.rows_tried += int(tried.any(dim=-1).sum())
        difference = torch.where(same, 0.0, (again - real).abs()).nan_to_num(nan=torch.inf)
        ratio = torch.where(difference > 0, difference / bound, 0.0)
        place = int(torch.where(tried, ratio, -1.0).argmax())
        found = tuple(float(x.flatten()[place]) for x in (ratio, difference, bound))
        if bool(tried.flatten()[place]) and (found[0] > self.worst[0] or not self.where):
            self.worst, self.where = found, describe_place(place, ratio.shape, block)

    def receipt(self, part: str = "") -> Receipt:
        if self.rows and not self.rows_tried:
            return Receipt(torch.nan, torch.nan, PROVES_NOTHING)
        if self.rows_tried < self.rows:
            left = f"{self.rows - self.rows_tried} of {self.rows} rows are not finite, which proves nothing of them"
            part = f"{part}; {left}" if part else left
        return Receipt(self.worst[1], self.worst[2], part=part, where=self.where)


def describe_place(place: int, shape: torch.Size, block: Block | None) -> str:
    """Which row an entry of a compared part is in, by its numbers in the whole."""
    axes = torch.unravel_index(torch.tensor(place), shape)
    if block is None:
        return f"batch {int(axes[0])}, row {int(axes[1])}"
    indices = zip(("batch", "head", "row"), (block.batch, block.heads, block.rows), axes, strict=False)
    return ", ".join(f"{word} {number_in(index, int(at))}" for word, index, at in indices)


def number_in(index: slice | Tensor, at: int) -> int:
    return (index.start or 0) + at if isinstance(index, slice) else int(index[at])


def checked(kept: Kept) -> Receipt:
    """Every row of the output computed again from the weights that would be shown."""
    if kept.unproved:
        return Receipt(torch.nan, torch.nan, kept.unproved)
    if kept.joined is not None:
        return joined_checked(kept, kept.joined)
    return compare_heads(kept, bands(kept.problem)).receipt()


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
    return compare_heads(kept, blocks).receipt(part=f"{rows} of {queries} rows tried")


def rows_tried(whole: tuple[int, int, int, int]) -> int | None:
    """How many rows prove an attention of these sizes by default: all (None), unless its weights are many."""
    return SOME_ROWS if whole[2] * whole[3] > EVERY_ROW else None


def compare_heads(kept: Kept, blocks: Iterable[Block]) -> Comparison:
    """The output of each head against what the weights make, over these blocks."""
    comparison = Comparison()
    for block in blocks:
        place = (block.batch, block.heads, block.rows)
        real = kept.output[place].detach().to(kept.problem.accurate)
        again, bound = output_and_bound(kept, block, of_scores=False)
        if not bool(((again - real).abs() <= bound).all()):  # rare: then what the scores explain is worked out too
            again, bound = output_and_bound(kept, block)
        comparison.add(as_undefined(again, real, kept.lse[place]), real, bound, block)
    return comparison


def joined_checked(kept: Kept, used: Joined) -> Receipt:
    """The same for heads that are known only through W_O."""
    problem = kept.problem
    sizes = (*problem.whole[:3], problem.V.shape[3])
    again, bound = (torch.zeros(sizes, dtype=problem.accurate, device=problem.Q.device) for _ in range(2))
    for band in bands(problem):
        place = (band.batch, band.heads, band.rows)
        again[place], bound[place] = output_and_bound(kept, band)
    W_O, real = used.W_O.mT.to(again.dtype), used.output.to(again.dtype)
    made, bound = joined(again, W_O), joined(bound + rounding(problem.accurate) * again.abs(), W_O.abs())
    if used.bias is not None:
        made = made + used.bias.to(again.dtype)
        bound = bound + torch.finfo(again.dtype).eps * used.bias.abs().to(again.dtype)
    bound = bound + 2.0 * torch.finfo(used.output.dtype).eps * made.abs()
    made = as_undefined(made, real, kept.lse.amin(dim=1))
    if used.real is not None:
        made, real, bound = (x.where(used.real[..., None], 0.0) for x in (made, real, bound))
    comparison = Comparison()
    comparison.add(made, real, bound)
    return comparison.receipt()


def rounding(dtype: torch.dtype) -> float:
    """The relative error of a weighted sum in that dtype, the weights' scores aside."""
    return EXPONENTIALS * torch.finfo(dtype).eps


def output_and_bound(kept: Kept, block: Block, of_scores: bool = True) -> tuple[Tensor, Tensor]:
    """A block of the output from the weights that would be shown, and how far rounding may take each number of it.

    With weights A, a score's error of ε · scale · ‖q‖‖k‖ (a dot product's) is a relative error of its weight, and the
    sum of all weights shares in all of them: |error| ≤ ε Σⱼ Aⱼ (c + scale ‖q‖ (‖kⱼ‖ + Σ A‖k‖)) |vⱼ|. In half precision
    the model rounds its weights and its output besides. Without `of_scores` the bound is smaller: c alone.
    """
    problem, V = kept.problem, kept.problem.values_of(block)
    weights, scaled = kept.block_weights(block), problem.dropout_factors(block)
    used = weights if scaled is None else weights * scaled
    again, absolute = safe_context(used, torch.cat([V, V.abs()], dim=-1)).chunk(2, dim=-1)
    constant = EXPONENTIALS + block.shape[3] ** 0.5 + 2.0 * (problem.softcap or 0.0)
    bound = torch.finfo(problem.accurate).eps * constant * absolute
    bound = bound + half_precision_bound(problem.Q.dtype, used, V, again, absolute)
    bound = bound + score_bound(kept, block, weights, used, absolute) if of_scores else bound
    return again, bound.clamp_min(FLUSHED * torch.finfo(problem.accurate).tiny)


def score_bound(kept: Kept, block: Block, weights: Tensor, used: Tensor, absolute: Tensor) -> Tensor:
    """What the rounding of scores and of their log-sum-exp explains; `used` are the weights after dropout."""
    problem = kept.problem
    lengths = problem.keys_of(block).norm(dim=-1, keepdim=True)  # of the keys
    of_query = abs(problem.scale) * problem.queries_of(block).norm(dim=-1, keepdim=True)
    level = block.part(kept.lse[..., None]).abs().nan_to_num(posinf=0.0).to(used.dtype)
    by_key = safe_context(used, lengths * problem.values_of(block).abs())
    found = (level + of_query * safe_context(weights, lengths)) * absolute + of_query * by_key
    return torch.minimum(torch.finfo(problem.accurate).eps * found, 2.0 * MOST_FROM_SCORES * absolute)


def half_precision_bound(
    dtype: torch.dtype,
    used: Float[Tensor, "batch heads rows columns"],
    V: Float[Tensor, "batch kv_heads columns d_value"],
    again: Float[Tensor, "batch heads rows d_value"],
    absolute: Float[Tensor, "batch heads rows d_value"],
) -> Tensor | float:
    """What rounding weights and output to half precision adds: relative, and for float16 where it underflows."""
    if dtype not in (torch.float16, torch.bfloat16):
        return 0.0
    info = torch.finfo(dtype)
    bound = info.eps * (absolute + again.abs())
    if dtype == torch.float16:
        visible = (used > 0).to(V.dtype)
        bound = bound + info.smallest_normal * info.eps * (1.0 + safe_context(visible, V.abs()))
    return bound


def as_undefined(again: Tensor, real: Tensor, lse: Float[Tensor, "*any rows"]) -> Tensor:
    """NaN where a row is fully masked and the model made NaN of it, as a plain softmax does of nothing."""
    nowhere = (lse == -torch.inf)[..., None]
    return torch.where(nowhere & real.isnan(), torch.nan, again)
