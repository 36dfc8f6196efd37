"""Attention number by number: plain loops over Python floats (float64), written without a line of Transom."""

import math

from torch import Tensor


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    allowed: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[list, list, list]:
    """Output, weights and scores as nested lists; `allowed` and `bias` are dense, (batch, heads, queries, keys)."""
    scale = 1 / math.sqrt(Q.shape[3]) if scale is None else scale
    outputs, weights, scores = [], [], []
    for b in range(Q.shape[0]):
        rows = [
            [row(Q, K, V, (b, h, i), allowed, bias, scale, softcap) for i in range(Q.shape[2])]
            for h in range(Q.shape[1])
        ]
        for found, place in ((outputs, 0), (weights, 1), (scores, 2)):
            found.append([[one[place] for one in head] for head in rows])
    return outputs, weights, scores


def row(Q, K, V, place, allowed, bias, scale, softcap):
    b, h, i = place
    g = h // (Q.shape[1] // K.shape[1])
    query, keys, values = Q[b, h, i].tolist(), K[b, g].tolist(), V[b, g].tolist()
    scores = []
    for j, key in enumerate(keys):
        if allowed is not None and not bool(allowed[b, h, i, j]):
            scores.append(-math.inf)
            continue
        s = sum(x * y for x, y in zip(query, key, strict=True)) * scale
        if softcap is not None:
            s = softcap * math.tanh(s / softcap)
        scores.append(s + (0.0 if bias is None else float(bias[b, h, i, j])))
    highest = max(scores, default=-math.inf)
    grown = [0.0 if s == -math.inf else math.exp(s - highest) for s in scores]
    total = sum(grown)
    weights = [g / total if total else 0.0 for g in grown]
    output = [0.0] * V.shape[3]
    for weight, value in zip(weights, values, strict=True):
        if weight:
            output = [o + weight * v for o, v in zip(output, value, strict=True)]
    return output, weights, scores
