"""The receipt: proof that the weights shown reproduce the output that the model used.

Each number of the output has its own bound. It follows from the keys that its row may see, their values in that head
and the rounding of the dtype: a large number behind a mask, in another head or in another row changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.heads import project_heads
from transom.equations.region import Region, index_to_tensor
from transom.kernels import row_blocks, safe_context
from transom.lens.attention.record import AttentionRecord, JoinedOutput

EVERY_ROW = 2**24  # weights of a head up to which all its rows are checked by default
SOME_ROWS = 64  # of each head, beyond that
FLUSHED = 1024.0  # times the smallest normal number: below that some kernels count a product as 0, and others do not
# The relative error of a weight, in units of the dtype's eps, that its score does not explain: fast exponentials are
# good to 20 units in the last place, on the model's side and on ours, and both divide by a sum of such.
EXPONENTIALS = 64.0
# A bias of −1e9 swallows the score beneath it, on both sides alike: no score explains a larger error of its weight.
MOST_FROM_SCORES = 2.0**-6
PROVES_NOTHING = "its output is not finite, which proves nothing"


@dataclass(frozen=True)
class Receipt:
    """The difference |Σⱼ weight · value − output| that comes closest to its bound, and that bound.

    unproved   why the output cannot be recomputed; such a receipt neither holds nor fails
    part       how many rows were checked, if not all
    where      which row this is
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
        part = f" ({self.part})" if self.part else ""
        where = f" in {self.where}" if self.fails and self.where else ""
        return f"{'holds' if self.holds else 'FAILS'}: {self.difference:.1e} of {self.tolerance:.1e}{where}{part}"


class OutputComparison:
    """Compares outputs part by part, and remembers the number that comes closest to its bound, or exceeds it most."""

    def __init__(self) -> None:
        self.worst = (0.0, 0.0, 0.0)  # difference ÷ bound, difference, bound
        self.where = ""
        self.rows = self.rows_checked = 0

    def add(self, recomputed: Tensor, output: Tensor, bound: Tensor, block: Region | None = None) -> None:
        """Compare one part; (…, rows, width) each. Two equal numbers that are not finite prove nothing."""
        if output.numel() == 0:
            return
        same = (recomputed == output) | (recomputed.isnan() & output.isnan())
        finite = recomputed.isfinite() & output.isfinite()
        checked = torch.where(finite, bound.isfinite(), ~same)
        bound = torch.where(bound.isfinite(), bound, 0.0)  # finite against not finite is never within a bound
        self.rows += output[..., 0].numel()
        self.rows_checked += int(checked.any(dim=-1).sum())
        difference = torch.where(same, 0.0, (recomputed - output).abs()).nan_to_num(nan=torch.inf)
        ratio = torch.where(difference > 0, difference / bound, 0.0)
        index = int(torch.where(checked, ratio, -1.0).argmax())
        worst = tuple(float(x.flatten()[index]) for x in (ratio, difference, bound))
        if bool(checked.flatten()[index]) and (worst[0] > self.worst[0] or not self.where):
            self.worst, self.where = worst, describe_row(index, ratio.shape, block)

    def receipt(self, part: str = "") -> Receipt:
        if self.rows and not self.rows_checked:
            return Receipt(torch.nan, torch.nan, PROVES_NOTHING)
        left = self.rows - self.rows_checked
        notes = [part, f"{left} of {self.rows} rows are not finite, which proves nothing of them" if left else ""]
        return Receipt(self.worst[1], self.worst[2], part="; ".join(filter(None, notes)), where=self.where)


def describe_row(index: int, shape: torch.Size, block: Region | None) -> str:
    """The row of the entry with that flat index, by its numbers in the whole attention."""
    position = [int(x) for x in torch.unravel_index(torch.tensor(index), shape)]
    if block is None:
        return f"batch {position[0]}, row {position[1]}"
    axes = zip(("batch", "head", "row"), block.indices, block.full_shape, position, strict=False)
    return ", ".join(
        f"{axis} {int(index_to_tensor(indices, size, block.device)[at])}" for axis, indices, size, at in axes
    )


def check_receipt(record: AttentionRecord, rows: int | None = None) -> Receipt:
    """The output recomputed from the weights that would be shown: every row, or `rows` evenly spread ones.

    At great lengths, all rows would cost as much as the attention itself.
    """
    problem = record.problem
    batch, heads, queries, _ = problem.shape
    if record.unproved:
        return Receipt(torch.nan, torch.nan, record.unproved)
    if record.joined_output is not None:
        return check_joined(record, record.joined_output)
    if rows is None or queries <= rows:
        return compare_heads(record, row_blocks(problem)).receipt()
    spread = torch.linspace(0, queries - 1, rows, device=problem.Q.device).round().long()
    blocks = (
        problem.region().narrow(rows=spread, batch=slice(entry, entry + 1), heads=slice(head, head + 1))
        for entry, head in product(range(batch), range(heads))
    )
    return compare_heads(record, blocks).receipt(part=f"{rows} of {queries} rows tried")


def default_row_count(shape: tuple[int, int, int, int]) -> int | None:
    """How many rows to check by default: all (None), unless there are very many weights."""
    return SOME_ROWS if shape[2] * shape[3] > EVERY_ROW else None


def compare_heads(record: AttentionRecord, blocks: Iterable[Region]) -> OutputComparison:
    """The output of each head against what the weights make, over these blocks."""
    comparison = OutputComparison()
    for block in blocks:
        rows = (block.batch, block.heads, block.rows)
        output = record.output[rows].detach().to(record.problem.compute_dtype)
        recomputed, bound = output_and_bound(record, block, of_scores=False)
        if not bool(((recomputed - output).abs() <= bound).all()):  # rare: then the rounding of scores counts too
            recomputed, bound = output_and_bound(record, block)
        comparison.add(match_nan(recomputed, output, record.lse[rows]), output, bound, block)
    return comparison


def check_joined(record: AttentionRecord, joined: JoinedOutput) -> Receipt:
    """The same for heads that are known only through W_O."""
    problem = record.problem
    sizes, dtype = (*problem.shape[:3], problem.V.shape[3]), problem.compute_dtype
    heads, bound = (torch.zeros(sizes, dtype=dtype, device=problem.Q.device) for _ in range(2))
    for block in row_blocks(problem):
        rows = (block.batch, block.heads, block.rows)
        heads[rows], bound[rows] = output_and_bound(record, block)
    W_O, output = joined.W_O.mT.to(dtype), joined.output.to(dtype)
    recomputed = project_heads(heads, W_O)
    bound = project_heads(bound + EXPONENTIALS * torch.finfo(dtype).eps * heads.abs(), W_O.abs())
    if joined.bias is not None:
        recomputed = recomputed + joined.bias.to(dtype)
        bound = bound + torch.finfo(dtype).eps * joined.bias.abs().to(dtype)
    bound = bound + 2.0 * torch.finfo(joined.output.dtype).eps * recomputed.abs()
    recomputed = match_nan(recomputed, output, record.lse.amin(dim=1))
    if joined.real is not None:
        recomputed, output, bound = (x.where(joined.real[..., None], 0.0) for x in (recomputed, output, bound))
    comparison = OutputComparison()
    comparison.add(recomputed, output, bound)
    return comparison.receipt()


def output_and_bound(record: AttentionRecord, block: Region, of_scores: bool = True) -> tuple[Tensor, Tensor]:
    """A block of the output from the weights that would be shown, and how far rounding may take each number of it.

    With weights A, a score's error of ε · scale · ‖q‖‖k‖ (a dot product's) is a relative error of its weight, and the
    sum of all weights shares in all of them: |error| ≤ ε Σⱼ Aⱼ (c + scale ‖q‖ (‖kⱼ‖ + Σ A‖k‖)) |vⱼ|. In half precision
    the model also rounds its weights and its output. Without `of_scores` the bound is smaller: c alone.
    """
    problem, V = record.problem, record.problem.values_in(block)
    weights, factors = record.region_weights(block), problem.dropout_factors(block)
    used = weights if factors is None else weights * factors
    output, absolute = safe_context(used, torch.cat([V, V.abs()], dim=-1)).chunk(2, dim=-1)
    constant = EXPONENTIALS + block.shape[3] ** 0.5 + 2.0 * (problem.softcap or 0.0)
    bound = torch.finfo(problem.compute_dtype).eps * constant * absolute
    bound = bound + half_precision_bound(problem.Q.dtype, used, V, output, absolute)
    bound = bound + score_bound(record, block, weights, used, absolute) if of_scores else bound
    return output, bound.clamp_min(FLUSHED * torch.finfo(problem.compute_dtype).tiny)


def score_bound(record: AttentionRecord, block: Region, weights: Tensor, used: Tensor, absolute: Tensor) -> Tensor:
    """What the rounding of scores and of their log-sum-exp explains; `used` are the weights after dropout."""
    problem = record.problem
    key_norms = problem.keys_in(block).norm(dim=-1, keepdim=True)
    query_norms = abs(problem.scale) * problem.queries_in(block).norm(dim=-1, keepdim=True)
    level = block.crop(record.lse[..., None]).abs().nan_to_num(posinf=0.0).to(used.dtype)
    by_key = safe_context(used, key_norms * problem.values_in(block).abs())
    bound = (level + query_norms * safe_context(weights, key_norms)) * absolute + query_norms * by_key
    return torch.minimum(torch.finfo(problem.compute_dtype).eps * bound, 2.0 * MOST_FROM_SCORES * absolute)


def half_precision_bound(
    dtype: torch.dtype,
    used: Float[Tensor, "batch heads rows columns"],
    V: Float[Tensor, "batch kv_heads columns d_value"],
    output: Float[Tensor, "batch heads rows d_value"],
    absolute: Float[Tensor, "batch heads rows d_value"],
) -> Tensor | float:
    """What rounding weights and output to half precision adds: relative, and for float16 where it underflows."""
    if dtype not in (torch.float16, torch.bfloat16):
        return 0.0
    info = torch.finfo(dtype)
    bound = info.eps * (absolute + output.abs())
    if dtype == torch.float16:
        visible = (used > 0).to(V.dtype)
        bound = bound + info.smallest_normal * info.eps * (1.0 + safe_context(visible, V.abs()))
    return bound


def match_nan(recomputed: Tensor, output: Tensor, lse: Float[Tensor, "*any rows"]) -> Tensor:
    """NaN where a row is fully masked and the model made NaN of it, as a plain softmax does of nothing."""
    masked = (lse == -torch.inf)[..., None]
    return torch.where(masked & output.isnan(), torch.nan, recomputed)
