"""How far what a model gives moves without an edge or a head, at all its positions together."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transom.lens.asking.edge import Edge
from transom.lens.asking.knock_out import How
from transom.lens.asking.outcome import divergence, logits_of
from transom.lens.asking.trials import Call, Trials
from transom.names import Misfit

NATS, SHARE = "nats", "share"


class Shifts(NamedTuple):
    """For each edge how far what the model gives moves without it.

    In nats, KL(with ‖ without) summed over positions, where it gives logits; where it gives vectors, as a share of
    their length: ‖without − with‖ / ‖with‖.
    """

    values: list[float]
    unit: str


def shifts(
    model: nn.Module,
    inputs: object,
    edges: Sequence[Edge],
    tokens: int,
    how: How = "before",
    progress: Callable[[int, int], None] | None = None,
) -> Shifts | None:
    """What each edge is worth, each knocked out on its own; None where the model gives nothing that can be compared.

    `tokens` is the length of its longest attention.
    """
    call = Call.of(model, inputs)
    for read, unit, moved in ((said, NATS, surprise), (vectors, SHARE, share)):
        try:
            whole = read(call())
        except Misfit:
            continue
        trials = Trials(call, read, whole, how, tokens, progress)
        return Shifts([moved(*pair) for pair in trials.run(edges)], unit)
    return None


def said(result: Any) -> Tensor:
    """The logits of all positions."""
    return logits_of(result).detach().double()


def vectors(result: Any) -> Tensor:
    """The vectors of all positions that a model gives first."""
    found = result if isinstance(result, Tensor) else getattr(result, "last_hidden_state", None)
    if not isinstance(found, Tensor) or found.dim() < 2 or not found.is_floating_point():
        raise Misfit(f"the model gives no vectors to compare, but {type(result).__name__}; measure it with effect")
    return found.detach().double()


def surprise(whole: Tensor, without: Tensor) -> float:
    return float(divergence(whole, without).sum())


def share(whole: Tensor, without: Tensor) -> float:
    return float((without - whole).norm() / whole.norm().clamp_min(torch.finfo(whole.dtype).tiny))
