"""Spellings with other scores and with other weights than a softmax of scaled products."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from zoo.spellings import BATCH, BIAS, D_HEAD, HEADS, LOWER, TOKENS, biased_weights, scores, spelling


def cosine_weights(Q: Tensor, K: Tensor) -> Tensor:
    return (10 * F.normalize(Q.double(), dim=-1) @ F.normalize(K.double(), dim=-1).mT).softmax(-1)


@spelling("exact", cosine_weights)
def cosine(Q, K, V):
    return (10 * F.normalize(Q, dim=-1) @ F.normalize(K, dim=-1).mT).softmax(-1) @ V


def capped_weights(Q: Tensor, K: Tensor) -> Tensor:
    return (2 * torch.tanh(scores(Q.double(), K.double()) / 2)).softmax(-1)


@spelling("exact", capped_weights)
def soft_capped(Q, K, V):
    return (2 * torch.tanh(scores(Q, K) / 2)).softmax(-1) @ V


@spelling("exact", biased_weights)
def relative_bias(Q, K, V):
    return (scores(Q, K) + BIAS).softmax(-1) @ V


def additive_scores(Q: Tensor, K: Tensor) -> Tensor:
    direction = torch.arange(1, D_HEAD + 1, dtype=Q.dtype)
    return torch.tanh(Q[:, :, :, None] + K[:, :, None]) @ direction


@spelling("exact", lambda Q, K: additive_scores(Q.double(), K.double()).softmax(-1))
def additive(Q, K, V):
    return additive_scores(Q, K).softmax(-1) @ V


MAP = torch.linspace(-1, 1, D_HEAD * D_HEAD).view(D_HEAD, D_HEAD)


@spelling("exact", lambda Q, K: (Q.double() @ MAP.double() @ K.double().mT).softmax(-1))
def bilinear(Q, K, V):
    return (Q @ MAP @ K.mT).softmax(-1) @ V


@spelling("exact", lambda Q, K: (-torch.cdist(Q.double(), K.double()).square() / 2).softmax(-1))
def squared_distance(Q, K, V):
    return (-torch.cdist(Q, K).square() / 2).softmax(-1) @ V


@spelling("exact", lambda Q, K: F.softmin(torch.cdist(Q.double(), K.double(), p=1), -1))
def softmin_of_a_distance(Q, K, V):
    return F.softmin(torch.cdist(Q, K, p=1), -1) @ V


def one_more_in_the_sum(Q: Tensor, K: Tensor) -> Tensor:
    e = scores(Q.double(), K.double()).exp()
    return e / (1 + e.sum(-1, keepdim=True))


@spelling("raises", one_more_in_the_sum)
def softmax_plus_one(Q, K, V):
    e = scores(Q, K).exp()
    return e / (1 + e.sum(-1, keepdim=True)) @ V


@spelling("listed", one_more_in_the_sum)
def sink_column(Q, K, V):
    s = torch.cat([scores(Q, K), torch.zeros(BATCH, HEADS, TOKENS, 1)], -1)
    return s.softmax(-1)[..., :-1] @ V


def top_scores(s: Tensor) -> Tensor:
    return s.masked_fill(s < s.topk(3, -1).values[..., -1:], -math.inf)


@spelling("exact", lambda Q, K: top_scores(scores(Q.double(), K.double())).softmax(-1))
def top_three(Q, K, V):
    return top_scores(scores(Q, K)).softmax(-1) @ V


MIX = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]])


def mixed_weights(Q: Tensor, K: Tensor) -> Tensor:
    return torch.einsum("bhij,gh->bgij", scores(Q.double(), K.double()).softmax(-1), MIX.double())


@spelling("exact", mixed_weights)
def talking_heads(Q, K, V):
    return torch.einsum("bhij,gh->bgij", scores(Q, K).softmax(-1), MIX) @ V


@spelling("listed")
def relu_attention(Q, K, V):
    return scores(Q, K).relu() / TOKENS @ V


@spelling("listed")
def squared_relu_attention(Q, K, V):
    return scores(Q, K).relu().square() @ V


@spelling("listed")
def sigmoid_attention(Q, K, V):
    return torch.sigmoid(scores(Q, K) - math.log(TOKENS)) @ V


def sparsemax(s: Tensor) -> Tensor:
    """The nearest point of the simplex (Martins and Astudillo 2016, algorithm 1)."""
    z = s.sort(-1, descending=True).values
    sums, count = z.cumsum(-1), torch.arange(1, s.shape[-1] + 1)
    size = (1 + count * z > sums).sum(-1, keepdim=True)
    return (s - (sums.gather(-1, size - 1) - 1) / size).clamp(min=0)


@spelling("exact", lambda Q, K: sparsemax(scores(Q.double(), K.double())))
def sparsemax_attention(Q, K, V):
    return sparsemax(scores(Q, K)) @ V


@spelling("listed")
def scores_without_a_softmax(Q, K, V):
    return (scores(Q, K) * LOWER) @ V


@spelling("listed")
def linear_attention(Q, K, V):
    q, k = F.elu(Q) + 1, F.elu(K) + 1
    return q @ (k.mT @ V) / (q @ k.sum(-2)[..., None])


@spelling("raises")
def low_rank_by_landmarks(Q, K, V):
    q, k = Q[:, :, :3], K[:, :, :3]
    left, middle, right = scores(Q, k).softmax(-1), scores(q, k).softmax(-1), scores(q, K).softmax(-1)
    return left @ torch.linalg.pinv(middle) @ (right @ V)
