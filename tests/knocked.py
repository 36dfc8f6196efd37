"""Attention without some edges, once more: loops over whole matrices in float64, to hold knocking out against."""

import contextlib
import math

import torch
from torch.nn import functional as F


def gone(whole, edges):
    """True at the edges (batch, head, query, key) of an attention of that size; None is all of an axis."""
    found = torch.zeros(whole, dtype=torch.bool)
    for edge in edges:
        found[tuple(slice(None) if place is None else place for place in edge)] = True
    return found


def without(scores, cut, how):
    """Weights of scores (float64, −∞ where masked) without the edges; a row with no key left has no weight."""
    kept = scores.masked_fill(cut, -math.inf) if how == "before" else scores
    weights = torch.nan_to_num(torch.softmax(kept, dim=-1), nan=0.0)
    return weights.masked_fill(cut, 0.0)


def by_hand(Q, K, V, edges, how, allowed=None):
    """The output of an attention without the edges."""
    Q, K, V = (x.detach().double() for x in (Q, K, V))
    K, V = (x.repeat_interleave(Q.shape[1] // x.shape[1], dim=1) for x in (K, V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return without(scores, gone(scores.shape, edges), how) @ V


@contextlib.contextmanager
def softmax_without(calls, edges, how):
    """While it lasts, the softmaxes of attention with these numbers go without the edges, in whatever model."""
    own, count = F.softmax, 0

    def changed(scores, dim=-1, dtype=None, **named):
        nonlocal count
        count += scores.dim() == 4
        if scores.dim() != 4 or count - 1 not in calls:
            return own(scores, dim=dim, dtype=dtype, **named)
        cut = gone(scores.shape, edges)
        kept = scores.masked_fill(cut, -math.inf) if how == "before" else scores
        # Models write "may not look" as a large negative number: a row left with nothing else looks nowhere.
        empty = (kept.amax(-1, keepdim=True) < -1e8) & (scores.amax(-1, keepdim=True) > -1e8)
        return own(kept, dim=dim, dtype=dtype, **named).masked_fill(cut | empty, 0.0)

    F.softmax = torch.nn.functional.softmax = changed
    try:
        yield
    finally:
        F.softmax = torch.nn.functional.softmax = own
    assert count > max(calls)
