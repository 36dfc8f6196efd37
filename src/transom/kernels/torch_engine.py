"""The torch engine: PyTorch's fused kernel if that gives the exact result, otherwise attention in tiles."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from transom.equations.masks import AndMask, Causal, Mask
from transom.equations.region import Region, index_axis
from transom.kernels.problem import Problem
from transom.kernels.tiled_attention import is_finite, row_blocks, tiled_attention, zero_nonfinite

SMALLEST_SCALE = torch.finfo(torch.float32).tiny  # a smaller one may be 0 in the kernel
MASK_NUMBERS = 2**22  # numbers of a float mask that are held at once: 16 MB in float32


def fused_applies(problem: Problem) -> bool:
    """Whether PyTorch's fused kernel computes this attention exactly."""
    return (
        problem.Q.device.type == "cpu"
        and problem.softcap is None
        and problem.dropout == 0.0
        and not (problem.bias is not None and problem.bias.source.requires_grad)
        and 0 not in (*problem.shape, problem.Q.shape[3], problem.V.shape[3])
    )


def to_dense(x: Tensor) -> Tensor:
    """x as the kernel can read it: last axis dense, nothing expanded."""
    expanded = any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True))
    return x.contiguous() if expanded or x.stride(-1) != 1 else x


def call_flash(problem: Problem, block: Region, is_causal: bool, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """One call of the kernel for a block of rows; narrower tensors are padded with zeros, which change nothing."""
    d_value = problem.V.shape[3]
    width = max(problem.Q.shape[3], d_value)
    parts = ((problem.Q, block.rows), (problem.K, block.columns), (problem.V, block.columns))
    Q, K, V = (to_dense(pad_width(index_axis(x, 2, index), width)) for x, index in parts)
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        Q, K, V, 0.0, is_causal, attn_mask=mask, scale=problem.scale
    )
    return output[..., :d_value], lse


def pad_width(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def solve_fused(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp. Fully masked rows have output 0 and log-sum-exp −∞."""
    is_causal, mask = split_causal(problem)
    remaining = replace(problem, mask=mask)
    results = [
        call_flash(problem, block, is_causal, float_mask(remaining, block)) for block in mask_row_blocks(remaining)
    ]
    output, lse = results[0] if len(results) == 1 else (torch.cat(parts, dim=2) for parts in zip(*results, strict=True))
    return output, mark_empty_rows(problem, lse)


def split_causal(problem: Problem) -> tuple[bool, Mask | None]:
    """Whether the kernel's own causal flag can be used, and the mask that remains.

    The flag counts queries from the first key, so it is right only if queries and keys are the same positions and all
    rows go in one call; a single query at the last position sees everything and needs no flag. The kernel also writes
    −∞ into the products before it scales them: a scale of 0 or less would turn that into NaN or into the best match.
    """
    if problem.mask is None:
        return False, None
    queries, keys = problem.shape[2:]
    masks = list(problem.mask.conjuncts())
    others = [mask for mask in masks if mask != Causal()]
    remaining = reduce(AndMask, others) if others else None
    if len(others) == len(masks) or queries not in (1, keys):
        return False, problem.mask
    if queries == 1:
        return False, remaining
    if problem.scale < SMALLEST_SCALE or differs_by_row(replace(problem, mask=remaining)):
        return False, problem.mask
    return True, remaining


def differs_by_row(problem: Problem) -> bool:
    """Whether mask or bias differ from row to row."""
    return any(part is not None and part.by_row for part in (problem.mask, problem.bias))


def mask_row_blocks(problem: Problem) -> Iterator[Region]:
    """Blocks of rows whose float mask stays small; a single block if no row differs."""
    queries, keys = problem.shape[2:]
    region = problem.region()
    if not differs_by_row(problem):
        yield region
        return
    one_row = float_mask(problem, region.narrow(rows=slice(0, 1)))
    rows = max(1, MASK_NUMBERS // (keys if one_row is None else one_row.numel()))
    for first in range(0, queries, rows):
        last = min(first + rows, queries)
        first_key, last_key = problem.key_range((first, last))
        # The kernel needs at least one key, also if all are masked.
        first_key = min(first_key, keys - 1)
        yield region.narrow(rows=slice(first, last), columns=slice(first_key, max(last_key, first_key + 1)))


def float_mask(problem: Problem, block: Region) -> Tensor | None:
    """What the kernel adds to the block's scores: the bias, and −∞ where masked."""
    allowed = problem.allowed_mask(block)
    if problem.bias is None:
        if allowed is None:
            return None
        return torch.zeros(allowed.shape, dtype=problem.Q.dtype).masked_fill(~allowed, -torch.inf)
    # In the dtype of the scores: half precision would change a bias of 40 by a tenth, and make 1e5 infinite.
    bias = problem.bias.materialize(block).to(problem.compute_dtype)
    return bias.contiguous() if allowed is None else bias.masked_fill(~allowed, -torch.inf)


def mark_empty_rows(problem: Problem, lse: Tensor) -> Tensor:
    """The log-sum-exp with −∞ for fully masked rows, for which the kernel gives 0."""
    mask = problem.mask
    sees_first_key = mask is None or (isinstance(mask, Causal) and mask.start == 0 and problem.shape[3] > 0)
    if sees_first_key and problem.bias is None:
        return lse
    zero = lse == 0
    if not zero.any():
        return lse
    for block in row_blocks(problem):
        rows = block.indices[:3]
        if zero[rows].any():
            zero[rows] &= ~has_visible_key(problem, block)
    return lse.masked_fill(zero, -torch.inf)


def has_visible_key(problem: Problem, block: Region) -> Tensor:
    """Whether each row of the block has a key that neither mask nor bias hides."""
    visible = torch.ones((), dtype=torch.bool) if problem.mask is None else problem.mask.materialize(block)
    if problem.bias is not None:
        visible = visible & (problem.bias.materialize(block) > -torch.inf)
    return visible.expand(block.shape).any(dim=-1)


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not; −∞ for fully masked rows)."""
    if not fused_applies(problem):
        return tiled_attention(problem)
    output, lse = solve_fused(problem)
    # 0 · NaN is NaN: only in a masked attention can a number reach a row that it is hidden from.
    if problem.mask is not None and not (is_finite(output.detach()) and gradients_stay_finite(problem, lse)):
        return solve_with_unusable_keys(problem)
    return output, lse


def gradients_stay_finite(problem: Problem, lse: Tensor) -> bool:
    """Whether nothing masked can overflow in the backward pass, where the kernel multiplies it by a weight of 0.

    The output shows it for keys and queries, except in a fully masked row, where the kernel always gives 0.
    """
    if not problem.needs_gradient:
        return True
    if problem.V.dtype != torch.float16 and not max_abs(problem.V) <= max_value(problem):
        return False
    has_empty_rows = bool((lse == -torch.inf).any())
    return not has_empty_rows or max_abs(problem.K) <= max_key(problem, max_abs(problem.Q))


def max_abs(x: Tensor) -> float:
    """The largest absolute value; NaN, which is within no bound, if there is one."""
    return float(torch.linalg.vector_norm(x.detach(), torch.inf))


def max_key(problem: Problem, max_query: float) -> float:
    """How large a key may be so that no score with queries up to `max_query` overflows."""
    # The kernel scales the product, not Q, so a scale below 1 does not help.
    largest_product = 4.0 * problem.Q.shape[3] * max(1.0, max_query * max(1.0, abs(problem.scale)))
    return torch.finfo(problem.compute_dtype).max / largest_product


def max_value(problem: Problem) -> float:
    """How large a value may be so that its product with a gradient no larger than itself does not overflow."""
    return math.sqrt(torch.finfo(problem.compute_dtype).max / (4.0 * problem.V.shape[3]))


def solve_with_unusable_keys(problem: Problem) -> tuple[Tensor, Tensor]:
    """Attention with queries, keys or values that the kernel cannot use; rows they are hidden from stay bit-identical.

    The unusable numbers are taken as 0, and the rows that they reach are computed by the tiles.
    """
    bad_queries = ~problem.Q.detach().isfinite().all(dim=-1)
    bad_keys = unusable_keys(problem)
    bad_values = ~(problem.V.detach().to(problem.compute_dtype).abs() <= max_value(problem))
    clean = replace(
        problem,
        Q=zero_nonfinite(problem.Q),  # keeps the strides of Q, on which the kernel's bits depend
        K=problem.K.masked_fill(bad_keys, 0.0),
        V=problem.V.masked_fill(bad_values, 0.0),
    )
    output, lse = solve_fused(clean)
    reached = bad_queries | rows_seeing(problem, bad_keys[..., 0] | bad_values.any(dim=-1))
    if reached.any():
        exact, exact_lse = tiled_attention(problem)
        output, lse = torch.where(reached[..., None], exact, output), torch.where(reached, exact_lse, lse)
    return output, lse


def unusable_keys(problem: Problem) -> Bool[Tensor, "batch kv_heads keys 1"]:
    """Keys that hold NaN or infinity, or numbers so large that a score with them might overflow."""
    # Compared in the dtype that scores are summed in: in half precision the bound itself would be infinite.
    bound = max_key(problem, float(zero_nonfinite(problem.Q.detach()).abs().max()))
    return ~(problem.K.detach().to(problem.compute_dtype).abs() <= bound).all(dim=-1, keepdim=True)


def rows_seeing(problem: Problem, bad: Bool[Tensor, "batch kv_heads keys"]) -> Bool[Tensor, "batch heads queries"]:
    """Rows that may attend to one of the bad keys."""
    bad = bad.repeat_interleave(problem.group, dim=1)[:, :, None, :]
    reached = torch.zeros(problem.shape[:3], dtype=torch.bool, device=problem.Q.device)
    for block in row_blocks(problem):
        allowed = problem.allowed_mask(block)
        visible = block.crop(bad).expand(block.shape) if allowed is None else block.crop(bad) & allowed
        reached[block.indices[:3]] = visible.any(dim=-1)
    return reached
