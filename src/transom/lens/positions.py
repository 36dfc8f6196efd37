"""Where queries and keys stand on one line: what distance, previous tokens and repeated tokens go by."""

import torch
from jaxtyping import Bool
from torch import Tensor

from transom.equations.biases import GivenBias
from transom.equations.masks import Causal, Given, Mask, Padding
from transom.kernels.problem import Problem
from transom.names import Misfit

NEVER = -1e4  # a score or log-weight below which nothing is seen: how some models write "may not look"


def first_position(problem: Problem) -> int | None:
    """The place among the keys of the first query; None where nothing tells.

    A causal mask tells it. Without one, the queries are taken for the last of the keys, as in self-attention with and
    without a cache; more queries than keys can only look at another sequence.
    """
    queries, keys = problem.whole[2:]
    for mask in conjuncts(problem):
        if isinstance(mask, Causal):
            return keys - queries if mask.start is None else mask.start
    return keys - queries if queries <= keys or not keys else None


def conjuncts(problem: Problem) -> list[Mask]:
    return [] if problem.mask is None else list(problem.mask.conjuncts())


def check_distance(distance: Tensor, keys: int) -> None:
    """Complain where there was no distance to measure."""
    queries = distance.shape[2]
    if queries > keys and bool(distance.isnan().all()):
        raise Misfit(
            f"distance is between positions of one sequence, but there are queries={queries} and keys={keys}, and no"
            " causal mask tells where the queries stand; cross-attention has none"
        )


def seen_keys(problem: Problem) -> Bool[Tensor, "#batch keys"] | None:
    """Which keys some row may look at, as far as mask and bias are plain to see; None for all. The rest is padding."""
    keys, found = problem.whole[3], None
    for mask in conjuncts(problem):
        part = None
        if isinstance(mask, Padding):
            part = mask.real
        elif isinstance(mask, Given) and mask.allowed.shape[3] == keys:
            part = mask.allowed.any(dim=2).any(dim=1)
        if part is not None:
            found = part if found is None else found & part
    if isinstance(problem.bias, GivenBias) and problem.bias.source.shape[3] == keys:
        part = (problem.bias.source > NEVER).any(dim=2).any(dim=1)
        found = part if found is None else found & part
    return None if found is None or bool(torch.all(found)) else found
