"""Which head to look at first: the one without which the model's output changes most."""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from transom.lens.ablation.ablated_runs import measure_changes
from transom.lens.ablation.edge import Edge
from transom.lens.attention.labels import is_cross
from transom.lens.trace import Trace
from transom.names import Misfit

MAX_TOKENS_RERUN = 2**17  # heads × tokens that are run again to find the head; beyond it, norms decide
MATTERS = "without it, what the model gives would change most"
CARRIES = "its arrows carry most, by weight · ‖value‖"


class RankedHead(NamedTuple):
    """A head, why it was chosen, and among how many."""

    layer: str
    head: int
    why: str
    compared: int


def rank_first_head(
    model: nn.Module | None, inputs: object, trace: Trace, progress: Callable[[int, int], None] | None = None
) -> RankedHead:
    """The head of a watched run that matters most.

    Each head is knocked out, many in one run, and the output at all positions is compared (see `measure_changes`). If
    there is no model, nothing to compare, or too much to run, it is the head with the largest Σ weight · ‖value‖.
    """
    heads = [(name, head) for name in trace.names for head in range(trace.all(name)[0].problem.shape[1])]
    if not heads:
        raise Misfit("no attention is in the trace, so no head of it can matter; watch the model while it runs")
    tokens, changes = max(max(sight.problem.shape[2:]) for sight in trace), None
    if model is not None and len(heads) * tokens <= MAX_TOKENS_RERUN:
        changes = measure_changes(model, inputs, [Edge(*head) for head in heads], tokens, "after", progress)
    if changes is None:
        norms = weighted_value_norms(trace)
        return RankedHead(*max(norms, key=lambda head: norms[head]), CARRIES, len(heads))
    return RankedHead(*max(zip(changes.values, heads, strict=True))[1], MATTERS, len(heads))


def preferred_layers(trace: Trace) -> Trace:
    """The attentions among which to choose a head by default: cross-attentions, which can be followed word by word; all
    if there are none."""
    preferred = Trace(trace.tokens, trace.targets)
    preferred.entries = [(name, sight) for name, sight in trace.entries if is_cross(name)] or trace.entries
    return preferred


def weighted_value_norms(trace: Trace) -> dict[tuple[str, int], float]:
    """Σ weight · ‖value‖ per row for each head; Σ weight if the values are unknown."""
    norms: dict[tuple[str, int], float] = {}
    for name, sight in trace.items():
        moved = sight.received().double()
        if sight.V.shape[3]:
            lengths = sight.V.detach().double().norm(dim=-1)
            moved = moved * lengths.repeat_interleave(sight.problem.group, dim=1)
        for head, norm in enumerate((moved.sum(dim=(0, 2)) / sight.problem.shape[2]).tolist()):
            norms[name, head] = norms.get((name, head), 0.0) + norm
    return norms
