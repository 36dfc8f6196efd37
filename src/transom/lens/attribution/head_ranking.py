"""Which head to look at first: the one without which the model's output changes most."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from torch import nn

from transom.lens.ablation.ablated_runs import measure_changes
from transom.lens.ablation.edge import Edge
from transom.lens.attention.labels import is_cross
from transom.lens.attribution.explained_run import Progress
from transom.lens.attribution.output_estimates import OutputEstimates, estimate_output
from transom.lens.trace import Trace
from transom.names import Misfit

REFINED = 8  # heads that are knocked out truly, those with the largest estimates
MAX_TOKENS_RERUN = 2**17  # heads × tokens that are run again where nothing can be estimated; beyond it, norms decide
MATTERS = "without it, what the model gives would change most"
ESTIMATED = f"by estimate, {MATTERS}"
CARRIES = "its arrows carry most, by weight · ‖value‖"


class RankedHead(NamedTuple):
    """A head, why it was chosen, and among how many."""

    layer: str
    head: int
    why: str
    compared: int


@dataclass(frozen=True)
class HeadEffect:
    """A head: how far the output is estimated to move without it, and how far it does if it was knocked out."""

    layer: str
    head: int
    estimate: float | None = None
    effect: float | None = None


@dataclass(frozen=True, eq=False)
class HeadRanking:
    """Heads, the most important first: those that were knocked out by effect, then the others by estimate."""

    rows: list[HeadEffect]
    unit: str  # of estimates and effects: nats, share, or none if neither is known
    why: str
    estimates: OutputEstimates | None = None

    @property
    def first(self) -> RankedHead:
        return RankedHead(self.rows[0].layer, self.rows[0].head, self.why, len(self.rows))

    def to_dict(self) -> dict[str, Any]:
        return {"unit": self.unit or None, "why": self.why, "rows": [asdict(row) for row in self.rows]}


class HeadRanker:
    """Ranks the heads of a watched run: all by estimate at once, then the first few by true knock-outs.

    If there is no model, nothing to compare, or too much to run, by Σ weight · ‖value‖.
    """

    def __init__(self, model: nn.Module | None, inputs: object, trace: Trace) -> None:
        self.model, self.inputs, self.trace = model, inputs, trace
        self.heads = [(name, head) for name in trace.names for head in range(trace.all(name)[0].problem.shape[1])]
        if not self.heads:
            raise Misfit("no attention is in the trace, so no head of it can matter; watch the model while it runs")

    @cached_property
    def tokens(self) -> int:
        """The length of the longest attention."""
        return max(max(sight.problem.shape[2:]) for sight in self.trace)

    @cached_property
    def estimates(self) -> OutputEstimates | None:
        """Estimates for every head; None if those of some head are not known."""
        try:
            found = None if self.model is None else estimate_output(self.model, self.inputs)
        except (Misfit, RuntimeError):  # a model that runs without gradients alone
            return None
        return found if found is not None and set(self.trace.names) <= set(found.names) else None

    def estimate(self) -> HeadRanking | None:
        """All heads by estimate; None if nothing can be estimated."""
        if self.estimates is None:
            return None
        by_head = self.estimates.heads()
        rows = [HeadEffect(*head, estimate=by_head[head]) for head in self.heads]
        return HeadRanking(sorted(rows, key=by_size), self.estimates.unit, ESTIMATED, self.estimates)

    def rank(self, refine: int = REFINED, progress: Progress | None = None) -> HeadRanking:
        """All heads by estimate, the first `refine` by a knock-out each; all by knock-outs if nothing is estimated."""
        ranking = self.estimate()
        if ranking is not None:
            return self.refine(ranking, refine, progress)
        if self.model is not None and len(self.heads) * self.tokens <= MAX_TOKENS_RERUN:
            measured = self.measure([HeadEffect(*head) for head in self.heads], progress)
            if measured is not None:
                return HeadRanking(measured[0], measured[1], MATTERS)
        norms = weighted_value_norms(self.trace)
        heads = sorted(self.heads, key=lambda head: -norms[head])
        return HeadRanking([HeadEffect(*head) for head in heads], "", CARRIES)

    def refine(self, ranking: HeadRanking, count: int = REFINED, progress: Progress | None = None) -> HeadRanking:
        """The same ranking, its first heads knocked out and put in order of what that did."""
        measured = self.measure(ranking.rows[:count], progress) if count else None
        if measured is None:
            return ranking
        why = MATTERS if count >= len(ranking.rows) else f"{MATTERS} ({count} were tried, the others estimated)"
        return replace(ranking, rows=[*measured[0], *ranking.rows[count:]], why=why)

    def measure(self, rows: Sequence[HeadEffect], progress: Progress | None) -> tuple[list[HeadEffect], str] | None:
        """The rows with their true effects, the largest first, and the unit; None if the output cannot be compared."""
        assert self.model is not None
        edges = [Edge(row.layer, row.head) for row in rows]
        changes = measure_changes(self.model, self.inputs, edges, self.tokens, "after", progress)
        if changes is None:
            return None
        known = [replace(row, effect=effect) for row, effect in zip(rows, changes.values, strict=True)]
        return sorted(known, key=by_size), changes.unit


def by_size(row: HeadEffect) -> tuple[float, float]:
    return -(row.effect or 0.0), -(row.estimate or 0.0)


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
