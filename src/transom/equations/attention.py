"""Scaled dot-product attention, step by step (Vaswani et al. 2017, section 3.2.1, equation 1).

Scores are before the softmax, weights after it. These functions make the whole queries × keys matrix and are written to
be read; `transom.attend` gives the same result without the matrix.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def scores(
    Q: Float[Tensor, "... queries d_head"], K: Float[Tensor, "... keys d_head"]
) -> Float[Tensor, "... queries keys"]:
    """How well each query matches each key: Q Kᵀ. It grows with the lengths of both and with their cosine."""
    return Q @ K.mT


def cosine(
    Q: Float[Tensor, "... queries d_head"], K: Float[Tensor, "... keys d_head"], eps: float = 1e-12
) -> Float[Tensor, "... queries keys"]:
    """Scores by direction only, always within [−1, 1]: q · k / (‖q‖ ‖k‖)."""
    lengths = Q.norm(dim=-1)[..., :, None] * K.norm(dim=-1)[..., None, :]
    return Q @ K.mT / lengths.clamp_min(eps)


def additive(
    Q: Float[Tensor, "... queries any"],
    K: Float[Tensor, "... keys any2"],
    W_Q: Float[Tensor, "any d_hidden"],
    W_K: Float[Tensor, "any2 d_hidden"],
    w: Float[Tensor, " d_hidden"],
) -> Float[Tensor, "... queries keys"]:
    """Scores by a small network, w · tanh(q W_Q + k W_K) (Bahdanau et al. 2015, section A.1.2)."""
    return torch.tanh((Q @ W_Q)[..., :, None, :] + (K @ W_K)[..., None, :, :]) @ w


def default_scale(d_head: int) -> float:
    """1/√d_head, by which scores are multiplied unless a scale is given; 1 for heads of width 0.

    PyTorch computes its default in this form too; d_head**−0.5 differs in the last bit in float64, for example at 32.
    """
    return 1.0 / math.sqrt(max(1, d_head))


def scale_scores(scores: Float[Tensor, "... queries keys"], d_head: int) -> Float[Tensor, "... queries keys"]:
    """Scores divided by √d_head: a dot product of d_head unit-variance terms has variance d_head."""
    return scores / math.sqrt(d_head)


def softcap_scores(scores: Float[Tensor, "... queries keys"], softcap: float) -> Float[Tensor, "... queries keys"]:
    """Scores bent smoothly into (−softcap, softcap): softcap · tanh(scores / softcap)."""
    return softcap * torch.tanh(scores / softcap)


def mask_scores(
    scores: Float[Tensor, "... queries keys"], allowed: Bool[Tensor, "..."]
) -> Float[Tensor, "... queries keys"]:
    """Scores with −∞ where they are masked (`allowed` is True where a row may attend)."""
    return scores.masked_fill(~allowed, -torch.inf)


def softmax(scores: Float[Tensor, "... queries keys"]) -> Float[Tensor, "... queries keys"]:
    """Each row of scores as weights that sum to 1 over the keys; a fully masked row gets exactly 0."""
    if scores.shape[-1] == 0:
        return scores
    highest = scores.detach().amax(dim=-1, keepdim=True)
    exponentials = torch.exp(scores - highest.masked_fill(highest == -torch.inf, 0.0))
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / total.masked_fill(total == 0.0, 1.0)


def log_sum_exp(scores: Float[Tensor, "... queries keys"]) -> Float[Tensor, "... queries"]:
    """L with weight = exp(score − L): one number per row that gives every weight; −∞ for a fully masked row."""
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
    """The whole equation, softmax(Q Kᵀ / √d_head) V, with the mask before the softmax."""
    s = scale_scores(scores(Q, K), Q.shape[-1])
    if allowed is not None:
        s = mask_scores(s, allowed)
    return context(softmax(s), V)


def soft_lookup(
    query: Float[Tensor, " d_head"],
    keys: Float[Tensor, "keys d_head"],
    values: Float[Tensor, "keys d_value"],
    temperature: float = 1.0,
) -> Float[Tensor, " d_value"]:
    """A hash table that matches softly: attention of one query, without the 1/√d_head.

    As the temperature falls to 0, the lookup becomes the ordinary one; as it rises, the result becomes the mean of all
    values.
    """
    return context(softmax(scores(query[None], keys) / temperature), values)[0]
