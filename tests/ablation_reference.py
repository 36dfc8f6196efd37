"""Attention without some edges, once more: whole matrices in float64, to compare knock-outs with."""

import contextlib
import math

import torch
from torch.nn import functional as F


def edge_mask(shape, edges):
    """True at the edges (batch, head, query, key) of an attention of that size; None is all of an axis."""
    mask = torch.zeros(shape, dtype=torch.bool)
    for edge in edges:
        mask[tuple(slice(None) if index is None else index for index in edge)] = True
    return mask


def weights_without(scores, removed, how):
    """Weights of scores (float64, −∞ where masked) without the edges; a row with no key left has no weight."""
    scores_left = scores.masked_fill(removed, -math.inf) if how == "before" else scores
    weights = torch.nan_to_num(torch.softmax(scores_left, dim=-1), nan=0.0)
    return weights.masked_fill(removed, 0.0)


def output_without(Q, K, V, edges, how, allowed=None):
    """The output of an attention without the edges."""
    Q, K, V = (x.detach().double() for x in (Q, K, V))
    K, V = (x.repeat_interleave(Q.shape[1] // x.shape[1], dim=1) for x in (K, V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return weights_without(scores, edge_mask(scores.shape, edges), how) @ V


@contextlib.contextmanager
def softmax_without(calls, edges, how):
    """While the block runs, the softmaxes of attention with these numbers go without the edges, in any model."""
    softmax, count = F.softmax, 0

    def softmax_cut(scores, dim=-1, dtype=None, **kwargs):
        nonlocal count
        count += scores.dim() == 4
        if scores.dim() != 4 or count - 1 not in calls:
            return softmax(scores, dim=dim, dtype=dtype, **kwargs)
        removed = edge_mask(scores.shape, edges)
        scores_left = scores.masked_fill(removed, -math.inf) if how == "before" else scores
        # Models mask with a large negative number: a row that has nothing else left is fully masked.
        empty = (scores_left.amax(-1, keepdim=True) < -1e8) & (scores.amax(-1, keepdim=True) > -1e8)
        return softmax(scores_left, dim=dim, dtype=dtype, **kwargs).masked_fill(removed | empty, 0.0)

    F.softmax = torch.nn.functional.softmax = softmax_cut
    try:
        yield
    finally:
        F.softmax = torch.nn.functional.softmax = softmax
    assert count > max(calls)
