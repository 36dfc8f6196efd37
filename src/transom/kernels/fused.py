"""PyTorch's own fused attention for CPUs, called where it is right, with the log-sum-exp it computes anyway.

It is called directly, because `F.scaled_dot_product_attention` throws the log-sum-exp away. Called so, it lacks the
guards around it: it dies on zero keys, misreads tensors whose last axis is not dense or whose batch is expanded, and
reports 0 as the log-sum-exp of a row that may look nowhere. Everything here exists to keep those away.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from transom.equations.blocks import Block, picked
from transom.equations.masks import Both, Causal, Mask
from transom.kernels.problem import Problem
from transom.kernels.tiles import bands

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SMALLEST_SCALE = torch.finfo(torch.float32).tiny  # below it the kernel's own number may be 0
MASK_NUMBERS = 2**22  # of a float mask held at once: 16 MB in float32


def applies(problem: Problem) -> bool:
    """Whether PyTorch's fused kernel computes this attention exactly."""
    return (
        problem.Q.device.type == "cpu"
        and problem.Q.dtype in DTYPES
        and problem.softcap is None
        and problem.dropout == 0.0
        and not (problem.bias is not None and problem.bias.source.requires_grad)
        and 0 not in (*problem.whole, problem.Q.shape[3], problem.V.shape[3])
    )


def dense(x: Tensor) -> Tensor:
    """x as the kernel can read it: last axis dense, nothing expanded."""
    expanded = any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True))
    return x.contiguous() if expanded or x.stride(-1) != 1 else x


def call(problem: Problem, band: Block, is_causal: bool, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """One call of the kernel for a band of rows; a narrow Q, K or V is filled up with zeros, which change nothing."""
    d_value = problem.V.shape[3]
    width = max(problem.Q.shape[3], d_value)
    parts = ((problem.Q, band.rows), (problem.K, band.columns), (problem.V, band.columns))
    Q, K, V = (dense(widened(picked(x, 2, places), width)) for x, places in parts)
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        Q, K, V, 0.0, is_causal, attn_mask=mask, scale=problem.scale
    )
    return output[..., :d_value], lse


def widened(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp. Rows that may look nowhere have output 0 and log-sum-exp −∞."""
    return solve_and_find_empty_rows(problem)[:2]


def solve_and_find_empty_rows(problem: Problem) -> tuple[Tensor, Tensor, bool]:
    """The same, and whether there may be rows that look nowhere."""
    is_causal, rest = split_causal(problem)
    left = replace(problem, mask=rest)
    found = [call(problem, band, is_causal, float_mask(left, band)) for band in row_bands(left)]
    output, lse = found[0] if len(found) == 1 else (torch.cat(parts, dim=2) for parts in zip(*found, strict=True))
    corrected = with_empty_rows(problem, lse)
    return output, corrected, corrected is not lse


def split_causal(problem: Problem) -> tuple[bool, Mask | None]:
    """Whether the kernel's own causal flag can serve, and what is left of the mask then.

    Its flag counts queries from the first key, so it is right only where queries and keys are the same positions and
    all rows go in one call; a single query that is the last position sees everything and needs no flag. It also puts −∞
    into the products before it scales them, which a scale of 0 or below turns into NaN or into the best match.
    """
    if problem.mask is None:
        return False, None
    queries, keys = problem.whole[2:]
    parts = list(problem.mask.conjuncts())
    others = [part for part in parts if part != Causal()]
    rest = reduce(Both, others) if others else None
    if len(others) == len(parts) or queries not in (1, keys):
        return False, problem.mask
    if queries == 1:
        return False, rest
    if problem.scale < SMALLEST_SCALE:
        return False, problem.mask
    return (False, problem.mask) if differs_by_row(replace(problem, mask=rest)) else (True, rest)


def differs_by_row(problem: Problem) -> bool:
    """Whether mask or bias tell one row from another."""
    return any(part is not None and part.by_row for part in (problem.mask, problem.bias))


def row_bands(problem: Problem) -> Iterator[Block]:
    """Bands of rows whose float mask stays small; one band where it is the same for all rows, or absent."""
    queries, keys = problem.whole[2:]
    block = problem.block()
    if not differs_by_row(problem):
        yield block
        return
    one_row = float_mask(problem, block.narrowed(rows=slice(0, 1)))
    rows = max(1, MASK_NUMBERS // (keys if one_row is None else one_row.numel()))
    for first in range(0, queries, rows):
        last = min(first + rows, queries)
        span = (0, keys) if problem.mask is None else problem.mask.span((first, last), problem.whole)
        # Where none of the rows may look anywhere, the kernel still needs one (masked) key to run on.
        first_key = min(span[0], keys - 1)
        yield block.narrowed(rows=slice(first, last), columns=slice(first_key, max(span[1], first_key + 1)))


def float_mask(problem: Problem, band: Block) -> Tensor | None:
    """What the kernel is to add to the band's scores: the bias, and −∞ where a row may not look."""
    seen = problem.seen(band)
    if problem.bias is None:
        if seen is None:
            return None
        return torch.zeros(seen.shape, dtype=problem.Q.dtype).masked_fill(~seen, -torch.inf)
    # In the dtype of the scores: half precision would move a bias of 40 by a tenth, and make 1e5 infinite.
    bias = problem.bias.added(band).to(problem.accurate)
    return bias.contiguous() if seen is None else bias.masked_fill(~seen, -torch.inf)


def with_empty_rows(problem: Problem, lse: Tensor) -> Tensor:
    """The log-sum-exp with −∞ for rows that may look nowhere, for which the kernel says 0."""
    if problem.mask is None and problem.bias is None:
        return lse
    zero = lse == 0
    if not zero.any():
        return lse
    for band in bands(problem):
        place = (band.batch, band.heads, band.rows)
        if zero[place].any():
            zero[place] &= ~looks_somewhere(problem, band)
    return lse.masked_fill(zero, -torch.inf)


def looks_somewhere(problem: Problem, band: Block) -> Tensor:
    """Whether each row of the band has a key that neither mask nor bias rules out."""
    seen = torch.ones((), dtype=torch.bool) if problem.mask is None else problem.mask.seen(band)
    if problem.bias is not None:
        seen = seen & (problem.bias.added(band) > -torch.inf)
    return seen.expand(band.shape).any(dim=-1)
