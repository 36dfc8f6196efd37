"""Scaled dot-product attention, step by step (Vaswani et al. 2017, section 3.2.1, equation 1).

Scores are before the softmax, weights after it. These functions hold the whole matrix in memory and are written to be
read; `transom.attend` gives the same result without it.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def scores(Q: Float[Tensor, "... queries d_head"], K: Float[Tensor, "... keys d_head"]) -> Tensor:
    """How well each query matches each key: Q Kᵀ."""
    return Q @ K.mT


def scaled(scores: Float[Tensor, "... queries keys"], d_head: int) -> Float[Tensor, "... queries keys"]:
    """Scores divided by √d_head: a dot product of d_head unit-variance terms has variance d_head."""
    return scores / math.sqrt(d_head)


def capped(scores: Float[Tensor, "... queries keys"], softcap: float) -> Float[Tensor, "... queries keys"]:
    """Scores bent smoothly into (−softcap, softcap): softcap · tanh(scores / softcap)."""
    return softcap * torch.tanh(scores / softcap)


def masked(
    scores: Float[Tensor, "... queries keys"], allowed: Bool[Tensor, "..."]
) -> Float[Tensor, "... queries keys"]:
    """Scores with −∞ wherever a row may not look (`allowed` is True where it may)."""
    return scores.masked_fill(~allowed, -torch.inf)


def softmax(scores: Float[Tensor, "... queries keys"]) -> Float[Tensor, "... queries keys"]:
    """Each row of scores as weights that sum to 1 over the keys; a row that may look nowhere gets exactly 0."""
    if scores.shape[-1] == 0:
        return scores
    highest = scores.detach().amax(dim=-1, keepdim=True)
    grown = torch.exp(scores - highest.masked_fill(highest == -torch.inf, 0.0))
    total = grown.sum(dim=-1, keepdim=True)
    return grown / total.masked_fill(total == 0.0, 1.0)


def log_sum_exp(scores: Float[Tensor, "... queries keys"]) -> Float[Tensor, "... queries"]:
    """L with weight = exp(score − L): one number per row from which every weight follows; −∞ for an empty row."""
    if scores.shape[-1] == 0:
        return scores.new_full(scores.shape[:-1], -torch.inf)
    return torch.logsumexp(scores, dim=-1)


def context(
    weights: Float[Tensor, "... queries keys"], V: Float[Tensor, "... keys d_value"]
) -> Float[Tensor, "... queries d_value"]:
    """The weighted sum of the values."""
    return weights @ V


def attention(
    Q: Float[Tensor, "... queries d_head"],
    K: Float[Tensor, "... keys d_head"],
    V: Float[Tensor, "... keys d_value"],
    allowed: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "... queries d_value"]:
    """softmax(Q Kᵀ / √d_head) V, with the mask before the softmax: the whole equation."""
    s = scaled(scores(Q, K), Q.shape[-1])
    if allowed is not None:
        s = masked(s, allowed)
    return context(softmax(s), V)


def soft_lookup(
    query: Float[Tensor, " d_head"],
    keys: Float[Tensor, "keys d_head"],
    values: Float[Tensor, "keys d_value"],
    temperature: float = 1.0,
) -> Float[Tensor, " d_value"]:
    """A hash table that matches softly: attention of one query, without the 1/√d_head.

    As the temperature falls to 0 the best match takes all and the lookup is the ordinary hard one; as it rises, the
    answer becomes the mean of all values.
    """
    return context(softmax(scores(query[None], keys) / temperature), values)[0]
