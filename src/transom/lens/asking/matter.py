"""Which head to look at first: the one whose loss changes what the model gives most."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from transom.lens.asking.edge import Edge
from transom.lens.asking.shifts import shifts
from transom.lens.labels import is_cross
from transom.lens.trace import Trace
from transom.names import Misfit

TOKENS_TRIED = 2**17  # heads × tokens that are run again to find the head; beyond it, norms decide
MATTERS = "without it, what the model gives would change most"
CARRIES = "its arrows carry most, by weight · ‖value‖"


class Telling(NamedTuple):
    """A head, why it was chosen, and among how many."""

    layer: str
    head: int
    why: str
    compared: int


def most_telling(
    model: nn.Module | None, inputs: object, trace: Trace, progress: Callable[[int, int], None] | None = None
) -> Telling:
    """The head of a watched run whose arrows matter most.

    Each head is knocked out, many in one run, and what the model gives at all positions is compared (see `shifts`).
    Where there is no model, nothing that can be compared, or that would take too long, the head whose arrows carry most
    decides: Σ weight · ‖value‖ per row.
    """
    heads = [(name, head) for name in trace.names for head in range(trace.all(name)[0].problem.whole[1])]
    if not heads:
        raise Misfit("no attention is in the trace, so no head of it can matter; watch the model while it runs")
    tokens, found = max(max(sight.problem.whole[2:]) for sight in trace), None
    if model is not None and len(heads) * tokens <= TOKENS_TRIED:
        found = shifts(model, inputs, [Edge(*place) for place in heads], tokens, "after", progress)
    if found is None:
        amounts = carried(trace)
        return Telling(*max(amounts, key=lambda place: amounts[place]), CARRIES, len(heads))
    return Telling(*max(zip(found.values, heads, strict=True))[1], MATTERS, len(heads))


def told_first(trace: Trace) -> Trace:
    """The attentions among which a head is sought where none is named: those that look from a target at its source,
    which can be followed word by word; all of them where there are none."""
    crossing = [(name, sight) for name, sight in trace.seen if is_cross(name)]
    found = Trace(trace.tokens, trace.targets)
    found.seen = crossing or trace.seen
    return found


def carried(trace: Trace) -> dict[tuple[str, int], float]:
    """How much the arrows of each head carry: Σ weight · ‖value‖ per row; weights alone where values are unknown."""
    found: dict[tuple[str, int], float] = {}
    for name, sight in trace.items():
        received = sight.received().double()
        lengths = sight.V.detach().double().norm(dim=-1).repeat_interleave(sight.problem.group, dim=1)
        moved = received * (lengths if sight.V.shape[3] else torch.ones_like(received))
        for head, amount in enumerate((moved.sum(dim=(0, 2)) / sight.problem.whole[2]).tolist()):
            found[name, head] = found.get((name, head), 0.0) + amount
    return found
