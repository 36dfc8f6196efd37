"""Exact attention in blocks of rows: any mask, bias, cap, dropout, device and dtype, in memory linear in length.

A block is a run of query rows with all the keys they may attend to, small enough to stay in the cache. The backward
pass computes each block's weights again from its scores and log-sum-exp (Dao et al. 2022), so nothing n × n is kept.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations import attention
from transom.equations.heads import grouped_matmul, sum_groups
from transom.equations.region import Region
from transom.kernels.problem import Problem

BLOCK_SCORES = 2**19  # scores held at once: 2 MB in float32, the second-level cache of one core
FEWEST_ROWS = 64  # below this a matrix product no longer pays for loading the keys


def row_blocks(problem: Problem) -> Iterator[Region]:
    """The attention in blocks of about BLOCK_SCORES scores, without keys that a mask rules out by position."""
    batch, heads, queries, keys = problem.shape
    group = problem.group
    if 0 in (batch, heads, queries):
        return
    rows = min(queries, max(-(-FEWEST_ROWS // group), BLOCK_SCORES // max(1, keys * group)))
    kv_at_once = max(1, min(heads // group, BLOCK_SCORES // max(1, rows * keys * group)))
    batch_at_once = 1
    if kv_at_once * group == heads:
        batch_at_once = max(1, min(batch, BLOCK_SCORES // max(1, rows * keys * heads)))
    for row in range(0, queries, rows):
        last = min(row + rows, queries)
        block = problem.region().narrow(rows=slice(row, last), columns=slice(*problem.key_range((row, last))))
        for entry in range(0, batch, batch_at_once):
            for head in range(0, heads, kv_at_once * group):
                yield block.narrow(
                    batch=slice(entry, min(entry + batch_at_once, batch)),
                    heads=slice(head, min(head + kv_at_once * group, heads)),
                )


def zero_nonfinite(x: Tensor) -> Tensor:
    """x with 0 for every NaN and infinity."""
    return torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)


def is_finite(x: Tensor) -> bool:
    """Whether x holds no NaN and no infinity; one sum usually tells, because it would be NaN or infinite."""
    # A sum of large finite numbers may overflow; only then is every number checked.
    return math.isfinite(x.sum().item()) or bool(x.isfinite().all())


def safe_context(
    weights: Float[Tensor, "batch heads rows columns"], V: Float[Tensor, "batch kv_heads columns d_value"]
) -> Float[Tensor, "batch heads rows d_value"]:
    """The weighted sum of the values; a NaN or infinite value counts only for rows that give it weight.

    0 · NaN is NaN in a matrix product, so without this a masked value would spoil every row.
    """
    if is_finite(V):
        return grouped_matmul(weights, V)
    nonzero = (weights != 0).to(V.dtype)
    nonfinite = (V.isnan(), V.isposinf(), V.isneginf())
    nan, above, below = (grouped_matmul(nonzero, kind.to(V.dtype)) > 0 for kind in nonfinite)
    return mark_nonfinite(grouped_matmul(weights, zero_nonfinite(V)), nan, above, below)


def mark_nonfinite(output: Tensor, nan: Tensor, above: Tensor, below: Tensor) -> Tensor:
    """The output of finite values, with what NaN, ∞ and −∞ among the values make of it."""
    output = output.masked_fill(above, torch.inf).masked_fill(below, -torch.inf)
    return output.masked_fill(nan | (above & below), torch.nan)


def solve_tiled(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp, block by block."""
    batch, heads, queries, _ = problem.shape
    output = problem.Q.new_zeros((batch, heads, queries, problem.V.shape[3]))
    lse = problem.Q.new_full((batch, heads, queries), -torch.inf, dtype=problem.compute_dtype)
    for block in row_blocks(problem):
        rows = block.indices[:3]
        scores = problem.scores(block)
        lse[rows] = attention.log_sum_exp(scores)
        weights, factors = attention.softmax(scores), problem.dropout_factors(block)
        weights = weights if factors is None else weights * factors
        output[rows] = safe_context(weights, problem.values_in(block)).to(output.dtype)
    return output, lse


def weights_from_lse(
    scores: Float[Tensor, "batch heads rows columns"], lse: Float[Tensor, "batch heads rows"]
) -> Float[Tensor, "batch heads rows columns"]:
    """exp(score − lse): exactly 0 where the score is −∞, also in rows whose log-sum-exp is −∞."""
    return torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])


class TiledAttention(torch.autograd.Function):
    """`solve_tiled` with its gradient: Q, K, V, output and log-sum-exp are saved, weights are computed again."""

    @staticmethod
    def forward(
        ctx: Any, Q: Tensor, K: Tensor, V: Tensor, bias_source: Tensor | None, problem: Problem
    ) -> tuple[Tensor, Tensor]:
        output, lse = solve_tiled(problem)
        ctx.problem = problem
        ctx.save_for_backward(Q, K, V, output, lse)
        ctx.mark_non_differentiable(lse)
        return output, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        Q, K, V, output, lse = ctx.saved_tensors
        problem = replace(ctx.problem, Q=Q, K=K, V=V)
        dQ, dK, dV = (x.new_zeros(x.shape, dtype=problem.compute_dtype) for x in (Q, K, V))
        bias = problem.bias if ctx.needs_input_grad[3] else None
        grad_bias = None if bias is None else bias.source.new_zeros(bias.source.shape, dtype=problem.compute_dtype)
        for block in row_blocks(problem):
            rows, kv_rows = block.indices[:3], (block.batch, problem.kv_heads_of(block.heads), block.columns)
            grad_output = grads[0][rows].to(problem.compute_dtype)
            weights, grad_scores = block_gradients(problem, block, output[rows], lse[rows], grad_output)
            if bias is not None and grad_bias is not None:
                bias.add_gradient(grad_bias, block, grad_scores)
            if problem.softcap is not None:
                slope = 1.0 - (problem.capped_scores(block) / problem.softcap).square()
                grad_scores = grad_scores * zero_nonfinite(slope)
            # A NaN in a masked key must not come back as 0 · NaN.
            block_Q, block_K = zero_nonfinite(problem.queries_in(block)), zero_nonfinite(problem.keys_in(block))
            dQ[rows] += grouped_matmul(grad_scores, block_K) * problem.scale
            dK[kv_rows] += sum_groups(grad_scores.mT @ block_Q, block_K.shape[1]) * problem.scale
            dV[kv_rows] += sum_groups(weights.mT @ grad_output, block_K.shape[1])
        grad_bias = None if bias is None or grad_bias is None else grad_bias.to(bias.source.dtype)
        return (*(x.to(Q.dtype) for x in (dQ, dK, dV)), grad_bias, None)


def block_gradients(
    problem: Problem, block: Region, output: Tensor, lse: Tensor, grad_output: Float[Tensor, "batch heads rows d_value"]
) -> tuple[Float[Tensor, "batch heads rows columns"], Float[Tensor, "batch heads rows columns"]]:
    """The weights of a block after dropout, and the gradient of its scores."""
    weights, factors = weights_from_lse(problem.scores(block), lse), problem.dropout_factors(block)
    grad_weights = grouped_matmul(grad_output, problem.values_in(block).mT)
    if factors is not None:
        grad_weights = grad_weights * factors
    # Σⱼ weight · its gradient, which the softmax subtracts.
    delta = (grad_output * output.to(problem.compute_dtype)).sum(dim=-1, keepdim=True)
    grad_scores = weights * (grad_weights - delta)
    allowed = problem.allowed_mask(block)
    if allowed is not None:
        grad_scores = grad_scores.masked_fill(~allowed, 0.0)
    return weights if factors is None else weights * factors, grad_scores


def tiled_attention(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not)."""
    bias_source = None if problem.bias is None else problem.bias.source
    return TiledAttention.apply(problem.Q, problem.K, problem.V, bias_source, problem.detach())  # pyright: ignore[reportReturnType]
