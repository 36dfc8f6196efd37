"""Attention as people spell it: some sixty ways to compute it from Q, K and V, and what `watch` makes of each.

Every spelling takes Q, K and V of (batch, heads, tokens, d_head) and returns an output of that shape. `weights` is
the same attention in plain words. What is expected of `watch`:

exact    the weights are in the trace, under the module's name
noted    the same, and `trace.unseen` has a note on something else that the module multiplied
windows  each window is in the trace as an attention of its own: rows and columns are positions in the window
listed   the module is in `trace.unseen`, and nothing is raised by default
raises   `watch` raises an error by default that names the module; if that is allowed, `trace.unseen` lists it
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH, HEADS, TOKENS, D_HEAD = 2, 3, 7, 4
Compute = Callable[[Tensor, Tensor, Tensor], Tensor]
BIAS = torch.linspace(-2, 2, TOKENS * TOKENS).view(TOKENS, TOKENS).sin()
LOWER = torch.ones(TOKENS, TOKENS).tril().bool()


def scores(Q: Tensor, K: Tensor) -> Tensor:
    return Q @ K.mT / math.sqrt(Q.shape[-1])


def softmax_weights(Q: Tensor, K: Tensor) -> Tensor:
    return scores(Q.double(), K.double()).softmax(-1)


def biased_weights(Q: Tensor, K: Tensor) -> Tensor:
    return (scores(Q.double(), K.double()) + BIAS).softmax(-1)


def causal_weights(Q: Tensor, K: Tensor) -> Tensor:
    return scores(Q.double(), K.double()).masked_fill(~LOWER, -math.inf).softmax(-1)


@dataclass
class Spelling:
    """One way to compute attention."""

    compute: Compute
    expected: str
    weights: Callable[[Tensor, Tensor], Tensor]


SPELLINGS: dict[str, Spelling] = {}


def spelling(
    expected: str, weights: Callable[[Tensor, Tensor], Tensor] = softmax_weights
) -> Callable[[Compute], Compute]:
    """Put a function into the table, under its own name in words."""

    def add(compute: Compute) -> Compute:
        SPELLINGS[compute.__name__.replace("_", " ")] = Spelling(compute, expected, weights)
        return compute

    return add


class Layer(nn.Module):
    """A layer whose names say nothing: only what it computes tells that it is attention."""

    def __init__(self, compute: Compute) -> None:
        super().__init__()
        self.compute = compute
        self.map = nn.Linear(HEADS * D_HEAD, 3 * HEADS * D_HEAD)

    def project(self, x: Tensor) -> list[Tensor]:
        return [part.unflatten(-1, (HEADS, D_HEAD)).transpose(1, 2) for part in self.map(x).chunk(3, -1)]

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(*self.project(x)).transpose(1, 2).flatten(2)


class Fused(Layer):
    """A layer that everybody can see."""

    def __init__(self) -> None:
        super().__init__(F.scaled_dot_product_attention)
