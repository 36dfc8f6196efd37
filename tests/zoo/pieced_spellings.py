"""Spellings in pieces: heads, rows, chunks, windows, blocks, edges."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from zoo.spellings import BATCH, HEADS, TOKENS, causal_weights, scores, spelling


@spelling("exact")
def head_by_head(Q, K, V):
    return torch.stack([scores(Q[:, h], K[:, h]).softmax(-1) @ V[:, h] for h in range(HEADS)], 1)


@spelling("exact")
def row_by_row(Q, K, V):
    return torch.cat([scores(Q[:, :, i : i + 1], K).softmax(-1) @ V for i in range(TOKENS)], 2)


@spelling("exact")
def chunks_of_queries(Q, K, V):
    return torch.cat([scores(part, K).softmax(-1) @ V for part in Q.split(3, 2)], 2)


@spelling("exact")
def chunks_of_queries_into_one_tensor(Q, K, V):
    out = torch.zeros_like(Q)
    for first in range(0, TOKENS, 3):
        out[:, :, first : first + 3] = scores(Q[:, :, first : first + 3], K).softmax(-1) @ V
    return out


@spelling("exact", causal_weights)
def growing_rows(Q, K, V):
    rows = [scores(Q[:, :, i : i + 1], K[:, :, : i + 1]).softmax(-1) @ V[:, :, : i + 1] for i in range(TOKENS)]
    return torch.cat(rows, 2)


@spelling("raises")
def online_softmax_in_chunks_of_keys(Q, K, V):
    top, total, out = torch.full((*Q.shape[:3], 1), -math.inf), 0.0, 0.0
    for k, v in zip(K.split(3, 2), V.split(3, 2), strict=True):
        s = scores(Q, k)
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        e, scale = torch.exp(s - new), torch.exp(top - new)
        top, total, out = new, total * scale + e.sum(-1, keepdim=True), out * scale + e @ v
    return out / total


@spelling("listed")
def chunks_of_keys_after_a_first_pass(Q, K, V):
    lse = torch.stack([scores(Q, k).logsumexp(-1) for k in K.split(3, 2)]).logsumexp(0)[..., None]
    return sum((scores(Q, k) - lse).exp() @ v for k, v in zip(K.split(3, 2), V.split(3, 2), strict=True))


def near(Q: Tensor, K: Tensor) -> Tensor:
    distance = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    return scores(Q.double(), K.double()).masked_fill(distance.abs() > 1, -math.inf).softmax(-1)


@spelling("windows", near)
def sliding_window_by_unfolding(Q, K, V):
    k, v = (F.pad(x, (0, 0, 1, 1)).unfold(2, 3, 1) for x in (K, V))
    inside = F.pad(torch.ones(TOKENS), (1, 1)).unfold(0, 3, 1).bool()
    s = torch.einsum("bhid,bhidw->bhiw", Q, k) / 2.0
    return torch.einsum("bhiw,bhidw->bhid", s.masked_fill(~inside, -math.inf).softmax(-1), v)


def in_blocks(Q: Tensor, K: Tensor) -> Tensor:
    block = torch.arange(TOKENS) // 4
    return scores(Q.double(), K.double()).masked_fill(block[:, None] != block, -math.inf).softmax(-1)


@spelling("raises", in_blocks)
def blocks_of_four(Q, K, V):
    q, k, v = (F.pad(x, (0, 0, 0, 1)).unflatten(2, (2, 4)) for x in (Q, K, V))
    real = (torch.arange(8) < TOKENS).view(2, 1, 4)
    return (scores(q, k).masked_fill(~real, -math.inf).softmax(-1) @ v).flatten(2, 3)[:, :, :TOKENS]


@spelling("raises")
def sparse_softmax(Q, K, V):
    heads = zip(Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1), strict=True)
    rows = [torch.sparse.mm(torch.sparse.softmax(scores(q, k).to_sparse(), -1), v) for q, k, v in heads]
    return torch.stack(rows).unflatten(0, (BATCH, HEADS))


@spelling("raises")
def edges_of_a_graph(Q, K, V):
    """Scores along a list of edges, normalised by scattered sums, as libraries for graphs do it."""
    query, key = torch.ones(TOKENS, TOKENS).nonzero().T
    e = ((Q[:, :, query] * K[:, :, key]).sum(-1) / 2.0).exp()
    total = torch.zeros(BATCH, HEADS, TOKENS).index_add(2, query, e)
    return torch.zeros_like(V).index_add(2, query, (e / total[:, :, query])[..., None] * V[:, :, key])
