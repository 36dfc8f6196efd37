"""Spellings of softmax attention: its products, its softmax, its axes."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo.spellings import (
    BATCH,
    BIAS,
    HEADS,
    LOWER,
    TOKENS,
    biased_weights,
    causal_weights,
    scores,
    softmax_weights,
    spelling,
)


@spelling("exact")
def matmul(Q, K, V):
    return scores(Q, K).softmax(-1) @ V


@spelling("exact")
def einsum(Q, K, V):
    weights = torch.einsum("bhid,bhjd->bhij", Q, K).div(2.0).softmax(-1)
    return torch.einsum("bhij,bhjd->bhid", weights, V)


@spelling("exact")
def einsum_with_heads_in_the_middle(Q, K, V):
    q, k, v = (x.transpose(1, 2) for x in (Q, K, V))
    weights = torch.einsum("bihd,bjhd->bhij", q, k).div(2.0).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", weights, v).transpose(1, 2)


@spelling("exact")
def bmm_with_batch_and_heads_in_one_axis(Q, K, V):
    q, k, v = (x.flatten(0, 1) for x in (Q, K, V))
    weights = torch.bmm(q, k.mT).div(2.0).softmax(-1)
    return torch.bmm(weights, v).unflatten(0, (BATCH, HEADS))


@spelling("exact", biased_weights)
def baddbmm_with_a_bias(Q, K, V):
    q, k, v = (x.flatten(0, 1) for x in (Q, K, V))
    weights = torch.baddbmm(BIAS.expand(len(q), -1, -1), q, k.mT, alpha=0.5).softmax(-1)
    return torch.bmm(weights, v).unflatten(0, (BATCH, HEADS))


@spelling("exact")
def tensordot_head_by_head(Q, K, V):
    rows = [
        [
            torch.tensordot(torch.tensordot(q, k, ([1], [1])).div(2.0).softmax(-1), v, 1)
            for q, k, v in zip(*one, strict=True)
        ]
        for one in zip(Q, K, V, strict=True)
    ]
    return torch.stack([torch.stack(heads) for heads in rows])


@spelling("exact")
def product_by_elements_and_a_sum(Q, K, V):
    weights = scores(Q, K).softmax(-1)
    return (weights[..., None] * V[:, :, None]).sum(-2)


@spelling("exact")
def scores_by_elements_and_a_sum(Q, K, V):
    return ((Q[:, :, :, None] * K[:, :, None]).sum(-1) / 2.0).softmax(-1) @ V


@spelling("exact")
def exp_and_sum(Q, K, V):
    e = scores(Q, K).exp()
    return e / e.sum(-1, keepdim=True) @ V


@spelling("exact")
def exp_and_sum_less_the_largest(Q, K, V):
    s = scores(Q, K)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) @ V


@spelling("raises")
def exp_and_division_after_the_values(Q, K, V):
    s = scores(Q, K)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e @ V) / e.sum(-1, keepdim=True)


@spelling("exact")
def exp_in_place(Q, K, V):
    s = scores(Q, K)
    e = s.sub_(s.amax(-1, keepdim=True)).exp_()
    return e.div_(e.sum(-1, keepdim=True)) @ V


@spelling("exact")
def exp2(Q, K, V):
    e = torch.exp2(scores(Q, K) * math.log2(math.e))
    return e / e.sum(-1, keepdim=True) @ V


@spelling("exact")
def logsumexp(Q, K, V):
    s = scores(Q, K)
    return (s - s.logsumexp(-1, keepdim=True)).exp() @ V


@spelling("exact")
def log_softmax(Q, K, V):
    return scores(Q, K).log_softmax(-1).exp() @ V


@spelling("exact")
def softmax_into_a_tensor(Q, K, V):
    weights = torch.empty(BATCH, HEADS, TOKENS, TOKENS)
    with torch.no_grad():
        torch.softmax(scores(Q, K), -1, out=weights)
    return weights @ V


@spelling("exact")
def softmax_in_another_dtype(Q, K, V):
    return F.softmax(scores(Q, K), -1, dtype=torch.float64).to(V.dtype) @ V


@spelling("exact")
def softmax_as_a_module(Q, K, V):
    return nn.Softmax(dim=-1)(scores(Q, K)) @ V


@spelling("exact", causal_weights)
def masked_fill(Q, K, V):
    return scores(Q, K).masked_fill(~LOWER, -math.inf).softmax(-1) @ V


@spelling("exact", causal_weights)
def masked_softmax(Q, K, V):
    mask = (~LOWER).expand(BATCH, HEADS, -1, -1)
    return torch._masked_softmax(scores(Q, K), mask, 3, 2) @ V


@spelling("exact", causal_weights)
def where(Q, K, V):
    return torch.where(LOWER, scores(Q, K), torch.finfo(Q.dtype).min).softmax(-1) @ V


@spelling("exact", causal_weights)
def weights_masked_after_the_exponential(Q, K, V):
    e = scores(Q, K).exp() * LOWER
    return e / e.sum(-1, keepdim=True) @ V


@spelling("exact")
def softmax_over_the_rows_of_a_transposed_product(Q, K, V):
    weights = (K @ Q.mT / 2.0).softmax(-2)
    return weights.mT @ V


@spelling("exact")
def heads_last(Q, K, V):
    weights = torch.einsum("bhid,bhjd->bijh", Q, K).div(2.0).softmax(2)
    return torch.einsum("bijh,bhjd->bhid", weights, V)


@spelling("exact")
def keys_first(Q, K, V):
    weights = torch.einsum("bhid,bhjd->jbhi", Q, K).div(2.0).softmax(0)
    return torch.einsum("jbhi,bhjd->bhid", weights, V)


@spelling("exact")
def five_axes(Q, K, V):
    q, k, v = (x[:, :, None] for x in (Q, K, V))
    return (scores(q, k).softmax(-1) @ v)[:, :, 0]


@spelling("exact")
def two_axes_for_each_head(Q, K, V):
    out = torch.empty_like(Q)
    for b in range(BATCH):
        for h in range(HEADS):
            out[b, h] = scores(Q[b, h], K[b, h]).softmax(-1) @ V[b, h]
    return out


def first_key_head(Q: Tensor, K: Tensor) -> Tensor:
    return softmax_weights(Q, K[:, :1].expand_as(K))


@spelling("exact", first_key_head)
def one_key_head_for_all(Q, K, V):
    k, v = K[:, 0], V[:, 0]
    weights = torch.einsum("bhid,bjd->bhij", Q, k).div(2.0).softmax(-1)
    return torch.einsum("bhij,bjd->bhid", weights, v)
