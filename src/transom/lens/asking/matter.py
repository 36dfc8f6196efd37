"""Which head's arrows matter most: the one whose loss changes what the model says most."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transom.lens.asking.edge import Edge
from transom.lens.asking.outcome import divergence, logits_of
from transom.lens.asking.trials import Call, Trials
from transom.lens.trace import Trace
from transom.names import Misfit

TOKENS_TRIED = 2**17  # heads × tokens that are run again to find the head; beyond it, norms decide


def most_telling(
    model: nn.Module, inputs: object, trace: Trace, progress: Callable[[int, int], None] | None = None
) -> tuple[str, int]:
    """The layer and head of a watched run whose arrows matter most.

    Each head is knocked out, many in one run, and what the model says at all positions is compared (mean KL). Where it
    gives no logits, or that would take too long, the head whose arrows carry most decides: Σ weight · ‖value‖ per row.
    """
    heads = [(name, head) for name in trace.names for head in range(trace.all(name)[0].problem.whole[1])]
    if not heads:
        raise Misfit("no attention is in the trace, so no head of it can matter; watch the model while it runs")
    lost = losses(model, inputs, trace, heads, progress)
    found = carried(trace) if lost is None else dict(zip(heads, lost, strict=True))
    return max(found, key=lambda place: found[place])


def losses(
    model: nn.Module,
    inputs: object,
    trace: Trace,
    heads: list[tuple[str, int]],
    progress: Callable[[int, int], None] | None,
) -> list[float] | None:
    """What the model says without each head: how far it is from what it says, in nats; None where that is not known."""
    tokens = max(max(sight.problem.whole[2:]) for sight in trace)
    if len(heads) * tokens > TOKENS_TRIED:
        return None
    call = Call.of(model, inputs)
    try:
        whole = said(call())
    except Misfit:
        return None
    trials = Trials(call, said, whole, "after", tokens, progress)
    pairs = trials.run([Edge(name, head) for name, head in heads])
    return [float(divergence(*pair).mean()) for pair in pairs]


def said(result: Any) -> Tensor:
    """The logits of all positions."""
    return logits_of(result).detach().double()


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
