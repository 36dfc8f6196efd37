"""Exact attention in bands of rows: any mask, bias, cap, dropout, device and dtype, in memory linear in length.

A band is a run of query rows with all the keys they may look at, small enough to stay in the cache. The backward pass
computes each band's weights again from its scores and log-sum-exp (Dao et al. 2022), so nothing n × n is kept.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations import attention
from transom.equations.blocks import Block
from transom.equations.heads import shared_product, shared_sum
from transom.kernels.problem import Problem

BAND_NUMBERS = 2**19  # scores held at once: 2 MB in float32, the second-level cache of one core
FEWEST_ROWS = 64  # below this a matrix product no longer pays for loading the keys


def bands(problem: Problem) -> Iterator[Block]:
    """The whole attention in blocks of about BAND_NUMBERS scores, without keys that a mask rules out by position."""
    batch, heads, queries, keys = problem.whole
    group, held = problem.group, BAND_NUMBERS
    if 0 in (batch, heads, queries):
        return
    rows = min(queries, max(-(-FEWEST_ROWS // group), held // max(1, keys * group)))
    kv_at_once = max(1, min(heads // group, held // max(1, rows * keys * group)))
    batch_at_once = max(1, min(batch, held // max(1, rows * keys * heads))) if kv_at_once * group == heads else 1
    for row in range(0, queries, rows):
        last = min(row + rows, queries)
        first_key, last_key = (0, keys) if problem.mask is None else problem.mask.span((row, last), problem.whole)
        band = problem.block().narrowed(rows=slice(row, last), columns=slice(first_key, last_key))
        for entry in range(0, batch, batch_at_once):
            for head in range(0, heads, kv_at_once * group):
                yield band.narrowed(
                    batch=slice(entry, min(entry + batch_at_once, batch)),
                    heads=slice(head, min(head + kv_at_once * group, heads)),
                )


def finite(x: Tensor) -> Tensor:
    """x with 0 for every NaN and infinity."""
    return torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)


def is_finite(x: Tensor) -> bool:
    """Whether x holds no NaN and no infinity, read off one sum: a non-finite number never leaves a sum again."""
    # A sum of large finite numbers may overflow; only then is every number looked at.
    return math.isfinite(x.sum().item()) or bool(x.isfinite().all())


def safe_context(
    weights: Float[Tensor, "batch heads rows columns"], V: Float[Tensor, "batch kv_heads columns d_value"]
) -> Float[Tensor, "batch heads rows d_value"]:
    """The weighted sum of the values, where a NaN or infinite value counts only for rows that give it weight.

    0 · NaN is NaN in a matrix product, so a masked value would poison every row; here it stays out.
    """
    if is_finite(V):
        return shared_product(weights, V)
    looked = (weights != 0).to(V.dtype)
    bad = (V.isnan(), V.isposinf(), V.isneginf())
    nan, above, below = (shared_product(looked, kind.to(V.dtype)) > 0 for kind in bad)
    out = shared_product(weights, finite(V))
    out = out.masked_fill(above, torch.inf).masked_fill(below, -torch.inf)
    return out.masked_fill(nan | (above & below), torch.nan)


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp, band by band."""
    batch, heads, queries, _ = problem.whole
    output = problem.Q.new_zeros((batch, heads, queries, problem.V.shape[3]))
    lse = problem.Q.new_full((batch, heads, queries), -torch.inf, dtype=problem.accurate)
    for band in bands(problem):
        place = (band.batch, band.heads, band.rows)
        scores = problem.scores(band)
        weights = attention.softmax(scores)
        lse[place] = attention.log_sum_exp(scores)
        kept = problem.dropout_factors(band)
        output[place] = safe_context(weights if kept is None else weights * kept, problem.values_of(band)).to(
            output.dtype
        )
    return output, lse


def weights_from(scores: Tensor, lse: Float[Tensor, "batch heads rows"]) -> Float[Tensor, "batch heads rows columns"]:
    """exp(score − L): exactly 0 where the score is −∞, also in rows whose L is −∞."""
    return torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])


class TiledAttention(torch.autograd.Function):
    """`solve` with its gradient: Q, K, V, output and log-sum-exp are kept, weights are computed again."""

    @staticmethod
    def forward(
        ctx: Any, Q: Tensor, K: Tensor, V: Tensor, source: Tensor | None, problem: Problem
    ) -> tuple[Tensor, Tensor]:
        output, lse = solve(problem)
        ctx.problem = problem
        ctx.save_for_backward(Q, K, V, output, lse)
        ctx.mark_non_differentiable(lse)
        return output, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *of: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        Q, K, V, output, lse = ctx.saved_tensors
        problem = replace(ctx.problem, Q=Q, K=K, V=V)
        sent = Gradients.nothing_yet(problem, for_bias=ctx.needs_input_grad[3])
        for band in bands(problem):
            place = (band.batch, band.heads, band.rows)
            of_output, found = of[0][place].to(problem.accurate), output[place].to(problem.accurate)
            weights = weights_from(problem.scores(band), lse[place])
            send_back(problem, band, weights, of_output, (of_output * found).sum(dim=-1, keepdim=True), sent)
        of_source = None if sent.bias is None or problem.bias is None else sent.bias.to(problem.bias.source.dtype)
        return (*(x.to(Q.dtype) for x in (sent.Q, sent.K, sent.V)), of_source, None)


@dataclass
class Gradients:
    """What the bands send back, summed up as they go by; `bias` is for its source, where that wants one."""

    Q: Tensor
    K: Tensor
    V: Tensor
    bias: Tensor | None

    @classmethod
    def nothing_yet(cls, problem: Problem, for_bias: bool) -> "Gradients":
        def zeros(like: Tensor) -> Tensor:
            return torch.zeros(like.shape, dtype=problem.accurate, device=like.device)

        bias = zeros(problem.bias.source) if for_bias and problem.bias is not None else None
        return cls(zeros(problem.Q), zeros(problem.K), zeros(problem.V), bias)


def send_back(
    problem: Problem,
    band: Block,
    weights: Float[Tensor, "batch heads rows columns"],
    of_output: Float[Tensor, "batch heads rows d_value"],
    settled: Float[Tensor, "batch heads rows 1"],
    sent: Gradients,
) -> None:
    """Add one band's gradients to `sent`; `settled` is Σⱼ weight · its gradient, which the softmax takes off."""
    kept = problem.dropout_factors(band)
    used = weights if kept is None else weights * kept
    of_used = shared_product(of_output, problem.values_of(band).mT)
    of_weights = of_used if kept is None else of_used * kept
    of_scores = weights * (of_weights - settled)
    seen = problem.seen(band)
    if seen is not None:
        of_scores = of_scores.masked_fill(~seen, 0.0)
    if problem.bias is not None and sent.bias is not None:
        problem.bias.tell(sent.bias, band, of_scores)
    if problem.softcap is not None:
        of_scores = of_scores * finite(1.0 - (problem.capped_scores(band) / problem.softcap).square())
    # A NaN in a masked key must not come back through 0 · NaN.
    Q, K = finite(problem.queries_of(band)), finite(problem.keys_of(band))
    shared = (band.batch, problem.kv_heads_of(band.heads), band.columns)
    sent.Q[band.batch, band.heads, band.rows] += shared_product(of_scores, K) * problem.scale
    sent.K[shared] += shared_sum(of_scores.mT @ Q, K.shape[1]) * problem.scale
    sent.V[shared] += shared_sum(used.mT @ of_output, K.shape[1])


def attention_in_tiles(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not)."""
    source = None if problem.bias is None else problem.bias.source
    return TiledAttention.apply(problem.Q, problem.K, problem.V, source, problem.detached())  # pyright: ignore[reportReturnType]
