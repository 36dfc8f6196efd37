"""How far a model's whole output would move without each head or edge: one forward pass, a few backward ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.ablation.ablated_runs import NATS, SHARE, ModelCall, hidden_of, logits_of
from transom.lens.ablation.knock_out import How
from transom.lens.attention.indexing import AxisIndex
from transom.lens.attribution.attention_influence import AttentionInfluence
from transom.lens.attribution.explained_run import Progress
from transom.lens.attribution.influence import why_unknown
from transom.lens.capture.output_gradients import OutputGradients, capture_output_gradients
from transom.lens.capture.watch import watch
from transom.lens.trace import Trace
from transom.names import Misfit

PROBES = 8  # random directions of the output
MAX_TOKENS = 4096  # of a text that is estimated: the graph of a forward pass is kept
MAX_NUMBERS = 2**27  # in the gradients of all probes together: 512 MB in float32
BLOCK = 2**20  # numbers that are held at a time

DrawProbe = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class EdgeEstimate:
    """An edge of one head: its weight, and how far the output is estimated to move without it."""

    query: int
    key: int
    weight: float
    estimate: float


class OutputEstimates:
    """What the output of one run would move by without each head or edge, to the first order that does not vanish.

    In nats, KL(with ‖ without) summed over positions, or as a share of the length of vectors: the same numbers that
    `measure_changes` measures by knock-outs. A probe is a random direction of the output; the mean of the squared
    changes along them is the size of the change.

    probes   for each probe, every attention with the gradient of that direction by its output
    norm     the length of the output, by which a share is divided
    unseen   attentions that could not be followed, each with the reason
    """

    def __init__(
        self, unit: str, norm: float, probes: list[list[tuple[str, AttentionInfluence]]], unseen: dict[str, str]
    ) -> None:
        self.unit, self.norm, self.probes, self.unseen = unit, norm, probes, unseen

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.probes[0]))

    def from_changes(self, changes: list[Tensor]) -> Tensor:
        """The size of a change from those along all probes."""
        mean = torch.stack([change.square() for change in changes]).mean(dim=0)
        return mean / 2.0 if self.unit == NATS else mean.sqrt() / self.norm

    def heads(self) -> dict[tuple[str, int], float]:
        """Each head, and how far the output moves without it."""
        estimates = {}
        for name in self.names:
            per_probe = self.sum_runs(name, lambda attention: attention.per_head()[0])
            for head, estimate in enumerate(self.from_changes(per_probe).tolist()):
                estimates[name, head] = estimate
        return estimates

    def runs(self, name: str, probe: list[tuple[str, AttentionInfluence]]) -> list[AttentionInfluence]:
        """Every run of one attention: a module that ran twice loses its edge in both."""
        return [attention for known, attention in probe if known == name]

    def sum_runs(self, name: str, changes: Callable[[AttentionInfluence], Tensor]) -> list[Tensor]:
        """The changes along each probe, summed over the runs of one attention."""
        return [
            torch.stack([changes(one).double() for one in self.runs(name, probe)]).sum(dim=0) for probe in self.probes
        ]

    def edges(
        self, name: str, head: AxisIndex = None, rows: AxisIndex = None, keys: AxisIndex = None
    ) -> Float[Tensor, "*any"]:
        """How far the output moves without each selected edge alone."""
        at = {"batch": 0, "head": head, "rows": rows, "keys": keys}
        return self.from_changes(self.sum_runs(name, lambda attention: attention.edges(**at)))

    def head_edges(self, name: str, head: int, rows: AxisIndex = None) -> Float[Tensor, "rows keys"]:
        """Every edge of a head, or of some of its rows: what a picture of influence draws."""
        return self.edges(name, head, rows)

    def describe_unit(self) -> str:
        """What the numbers are, in words."""
        what = "in nats (KL)" if self.unit == NATS else "as a share of its length"
        return f"how far the output moves without an edge, at all positions, {what}; estimated"

    def strongest(self, name: str, head: int, k: int = 8) -> list[EdgeEstimate]:
        """The k edges of a head without which the output moves most, the first first."""
        sight = self.runs(name, self.probes[0])[0].sight
        queries, keys = sight.shape[2:]
        size, found = max(1, BLOCK // max(1, keys)), []
        for first in range(0, queries, size):
            block = self.edges(name, head, slice(first, first + size))
            values, at = block.flatten().topk(min(k, block.numel()))
            for value, index in zip(values.tolist(), at.tolist(), strict=True):
                row, key = divmod(index, keys)
                found.append((value, first + row, key))
        return [
            EdgeEstimate(row, key, float(sight.weights(batch=0, head=head, rows=row, keys=key)), value)
            for value, row, key in sorted(found, key=lambda edge: -edge[0])[:k]
            if value > 0.0
        ]


def estimate_output(
    model: nn.Module,
    inputs: object,
    how: How = "before",
    probes: int = PROBES,
    seed: int = 0,
    progress: Progress | None = None,
) -> OutputEstimates | None:
    """Estimate how far the output moves without any head or edge; None if the model returns nothing to compare, if
    gradients do not lead from there to attention, or if the text is too long for the graph of its run.

    For logits a probe is √p ⊙ ε − p (√p · ε) with random signs ε, whose covariance diag(p) − p pᵀ is the curvature of
    the KL divergence. For vectors it is ε itself.
    """
    call = ModelCall.from_inputs(model, inputs, "influence")
    if longest_input(call) > MAX_TOKENS:
        return None
    with capture_output_gradients(model) as gradients, watch(model, unseen="allow") as trace:
        output, unit, draw = read_result(call(gradients=True))
    if output is None or not output.requires_grad or not len(trace):
        return None
    unseen = unseen_reasons(trace, gradients)
    if len(unseen) == len(trace.names):
        return None
    numbers = sum(sight.require_full().output.numel() for sight in trace)
    count = max(1, min(probes, MAX_NUMBERS // max(1, numbers)))
    generator, found = torch.Generator().manual_seed(seed), []
    for done in range(count):
        probe = draw(output.detach(), generator)
        found.append(probe_attentions(trace, gradients.compute_along(output, probe, done + 1 < count), how))
        if progress is not None:
            progress(done + 1, count)
    kept = [[(name, one) for name, one in probe if name not in unseen] for probe in found]
    return OutputEstimates(unit, float(output.detach().double().norm()), kept, unseen)


def read_result(result: Any) -> tuple[Tensor | None, str, DrawProbe]:
    """The logits or else the vectors of a result, the unit of their change, and how a probe of them is drawn."""
    for read, unit, draw in ((logits_of, NATS, draw_logit_probe), (hidden_of, SHARE, draw_signs)):
        try:
            return read(result), unit, draw
        except Misfit:
            continue
    return None, "", draw_signs


def longest_input(call: ModelCall) -> int:
    """The most positions of any sequence that the model is called with."""
    tensors = (value for value in (*call.args, *call.kwargs.values()) if isinstance(value, Tensor))
    return max((value.shape[1] for value in tensors if value.dim() > 1), default=0)


def unseen_reasons(trace: Trace, gradients: OutputGradients) -> dict[str, str]:
    """The attentions whose influence cannot be computed, each with the reason."""
    pairs = zip(trace.items(), gradients.tracked, strict=True)
    reasons = {name: why_unknown(sight.require_full(), tracked is None) for (name, sight), (_, tracked) in pairs}
    return {name: reason for name, reason in reasons.items() if reason}


def probe_attentions(trace: Trace, gradients: list[Tensor | None], how: How) -> list[tuple[str, AttentionInfluence]]:
    found = []
    for (name, sight), gradient in zip(trace.items(), gradients, strict=True):
        full = sight.require_full()
        found.append(
            (name, AttentionInfluence(full, torch.zeros_like(full.output) if gradient is None else gradient, how))
        )
    return found


def draw_signs(output: Tensor, generator: torch.Generator) -> Tensor:
    """1 or −1 for each number, at random."""
    signs = torch.randint(0, 2, output.shape, generator=generator, dtype=torch.int8)
    return (2.0 * signs - 1.0).to(device=output.device, dtype=output.dtype)


def draw_logit_probe(logits: Float[Tensor, "... vocabulary"], generator: torch.Generator) -> Tensor:
    """A random direction whose covariance is the curvature of the KL divergence, some rows at a time."""
    probe = torch.empty_like(logits)
    rows, out = logits.flatten(end_dim=-2), probe.flatten(end_dim=-2)
    for part, to in zip(
        rows.split(max(1, BLOCK // rows.shape[1])), out.split(max(1, BLOCK // rows.shape[1])), strict=True
    ):
        p = part.float().softmax(dim=-1)
        step = p.sqrt() * draw_signs(p, generator)
        to.copy_(step - p * step.sum(dim=-1, keepdim=True))
    return probe
