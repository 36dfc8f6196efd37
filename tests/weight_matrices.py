"""Attentions of many kinds, and all their weights in float64."""

import torch

import transom
from transom.kernels.problem import build_problem

RANDOM = torch.Generator().manual_seed(3)
ALLOWED = torch.rand(2, 6, 101, 131, generator=RANDOM) < 0.6
ALLOWED[1, 2, 3] = False  # a row that may look nowhere
ALLOWED[0, 1, :, 7] = False  # a key that nobody may look at

SETTINGS = {
    "plain": {},
    "causal": {"causal": True},
    "causal window": {"causal": True, "allowed": transom.sliding_window(5)},
    "padding": {"allowed": transom.padding(ALLOWED[:, 0, 0])},
    "documents": {"allowed": transom.same_document(torch.arange(131) // 29)},
    "given": {"allowed": ALLOWED},
    "a window and sinks": {"causal": True, "allowed": transom.sliding_window(5) | transom.padding(ALLOWED[:, 0, 0])},
    "capped and biased": {"softcap": 2.0, "bias": torch.randn(6, 101, 131, generator=RANDOM)},
}


def tensors(queries=101, keys=131, d_head=19, sharp=2.0):
    random = torch.Generator().manual_seed(5)
    sizes = ((6, queries, d_head), (3, keys, d_head), (3, keys, 23))
    Q, K, V = (torch.randn(2, *size, generator=random) for size in sizes)
    return Q * sharp, K, V


def exact(Q, K, V, **settings):
    """All weights, in float64, and what they are."""
    bias = settings.get("bias")
    settings = {**settings, "bias": bias.double()} if bias is not None else settings
    problem = build_problem(Q.double(), K.double(), V.double(), **settings)
    scores = problem.scores(problem.region())
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    queries, keys = scores.shape[-2:]
    away = (torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)).abs()
    return weights, {
        "entropy": torch.special.entr(weights).sum(-1),
        "peak": weights.amax(-1),
        "distance": (weights * away).sum(-1),
        "received": weights.sum(-2),
    }
