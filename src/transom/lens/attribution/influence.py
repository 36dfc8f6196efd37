"""`influence`: what every edge of every attention was worth for one number, by one forward and one backward pass."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from transom.lens.ablation.ablated_runs import ModelCall, ReadOutput
from transom.lens.ablation.edge import Edge
from transom.lens.ablation.effect import check_one_sequence, read_output, resolve_target, value_of
from transom.lens.ablation.knock_out import How, check_how
from transom.lens.attention.indexing import AxisIndex
from transom.lens.attention.sight import Sight
from transom.lens.attribution.agreement import Agreement, draw_edges
from transom.lens.attribution.attention_influence import AttentionInfluence
from transom.lens.attribution.explained_run import ExplainedRun, Progress, describe_unseen
from transom.lens.attribution.influence_table import EdgeInfluence, HeadInfluence, InfluenceTable, SourceInfluence
from transom.lens.attribution.sources import Spans, rank_sources
from transom.lens.capture.output_gradients import capture_output_gradients
from transom.lens.capture.watch import watch
from transom.lens.trace import Trace, list_some, suggest_names
from transom.names import Misfit, integer_or_none

NO_VALUES = "its values were not seen"
NO_GRADIENT = "its output could not be followed to the result"
DROPOUT = "dropout fell on its weights"


def influence(
    model: nn.Module,
    inputs: object,
    output: Callable[[Any], Tensor] | None = None,
    *,
    target: int | None = None,
    how: How = "before",
    tokens: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    points: int = 1,
) -> "Influence":
    """What each attention edge was worth: the change of a number if the edge were knocked out, to first order.

    The arguments mean what they mean in `effect`, and so does the sign of a change: negative where the edge helped.

    inputs     what the model is called with, for one sequence: a dict by name, a tuple by position, or a tensor
    output     of the model's result, logits (batch, vocabulary) or one number each (batch); by default the logits of
               the last position
    target     the token whose logit is explained; by default the most likely one
    how        knocked out "before" the softmax (the other keys share the weight) or "after" it
    tokens     the tokens of the sequence as text; targets: those that a decoder beside an encoder reads
    points     of how many runs the gradient is the mean: in the others all attention fades, by 1/points each time. For
               whole passages, which are large steps; one more forward and backward pass for each
    """
    check_how(how)
    check_points(points)
    call, read = ModelCall.from_inputs(model, inputs, "influence"), partial(read_output, output)
    with capture_output_gradients(model) as gradients, watch(model, tokens, targets=targets) as trace:
        result = read(call(gradients=True))
    check_one_sequence(trace, result, "influence")
    baseline = result[0].detach()
    chosen = resolve_target(target, baseline)
    unseen = {}
    for (name, sight), (_, tracked) in zip(trace.items(), gradients.tracked, strict=True):
        reason = why_unknown(sight.require_full(), tracked is None)
        unseen |= {name: reason} if reason else {}
    if len(unseen) == len(trace):
        raise Misfit(
            f"influence needs values and gradients of attention, but {describe_unseen(unseen)}; use effect, which runs"
            " the model without each edge"
        )
    if not result.requires_grad:
        raise Misfit(
            "influence follows gradients from the output to attention, but none leads there; let output return what the"
            " model computed, without detach or no_grad"
        )
    fade = partial(compute_faded, call, read, chosen)
    found = mean_with_faded(gradients.compute(result, chosen), points, fade)
    attentions = pair_gradients(trace, found, unseen, how)
    return Influence(call, read, trace, attentions, unseen, (value_of(baseline, chosen), chosen, how))


def pair_gradients(
    trace: Trace, gradients: Sequence[Tensor | None], unseen: Collection[str], how: How
) -> dict[str, AttentionInfluence]:
    """Each attention that could be followed, with its gradient: zeros if it does not reach the number."""
    attentions = {}
    for (name, sight), gradient in zip(trace.items(), gradients, strict=True):
        if name not in unseen:
            full = sight.require_full()
            attentions[name] = AttentionInfluence(
                full, torch.zeros_like(full.output) if gradient is None else gradient, how
            )
    return attentions


def check_points(points: object) -> None:
    if (integer_or_none(points) or 0) < 1:
        raise Misfit(f"points must be 1 or more, but got {points!r:.60}; 1 takes the gradient of the run as it is")


def compute_faded(call: ModelCall, read: ReadOutput, target: int | None, scale: float) -> list[Tensor | None]:
    """The gradient by each output of a run in which every attention gives `scale` of its output."""
    with capture_output_gradients(call.model, scale) as gradients:
        result = read(call(gradients=True))
    return gradients.compute(result, target)


def mean_with_faded(
    first: list[Tensor | None], points: int, compute: Callable[[float], list[Tensor | None]]
) -> list[Tensor | None]:
    """The mean gradient of a run, and of those that `compute` finds as attention fades by 1/points each time."""
    sums = first
    for point in range(1, points):
        pairs = zip(sums, compute(1.0 - point / points), strict=True)
        sums = [b if a is None else a if b is None else a + b for a, b in pairs]
    return [None if gradient is None else gradient / points for gradient in sums]


def why_unknown(sight: Sight, untracked: bool) -> str:
    """Why the influence of an attention cannot be computed; empty if it can."""
    if sight.V.shape[3] == 0:
        return NO_VALUES
    if sight.unproved:
        return DROPOUT
    return NO_GRADIENT if untracked else ""


class Influence(ExplainedRun):
    """What every edge, head and passage of one run was worth for one number, and true knock-outs where you ask."""

    @property
    def names(self) -> list[str]:
        return list(self.attentions)

    def __getitem__(self, name: str) -> AttentionInfluence:
        if name in self.attentions:
            return self.attentions[name]
        if name in self.unseen:
            raise Misfit(f"the influence of {name!r} is not known: {self.unseen[name]}; use effect for single edges")
        raise Misfit(f"no attention ran in {name!r}; {suggest_names(name, self.names)}")

    def __len__(self) -> int:
        return len(self.attentions)

    def __iter__(self) -> Iterator[AttentionInfluence]:
        return iter(self.attentions.values())

    def items(self) -> Iterator[tuple[str, AttentionInfluence]]:
        return iter(self.attentions.items())

    def strongest(self, k: int = 8, refine: int = 0, progress: Progress | None = None) -> InfluenceTable[EdgeInfluence]:
        """The k edges of all attentions with the largest estimates, the first `refine` of them knocked out truly."""
        edges = []
        for name, attention in self.items():
            top = attention.top(k)
            changes, keys = top.changes[0].flatten(), top.keys[0].flatten()
            width, queries = top.keys.shape[3], top.keys.shape[2]
            for index in changes.abs().topk(min(k, len(changes))).indices.tolist():
                head, row = divmod(index // width, queries)
                if float(changes[index]):
                    edges.append((float(changes[index]), (name, head, row, int(keys[index]))))
        edges.sort(key=lambda edge: -abs(edge[0]))
        edges = [edge for _, edge in edges[:k]]
        return InfluenceTable(self.edge_rows(edges, check_count(refine, "refine"), progress), self.describe_unit())

    def heads(self, refine: int = 0, progress: Progress | None = None) -> InfluenceTable[HeadInfluence]:
        """All heads by the estimated change without each, and the first `refine` also by the true one.

        A head that is knocked out whole gives zeros, so its estimate is −Σ gradient · output.
        """
        heads = [
            (change, name, head)
            for name, attention in self.items()
            for head, change in enumerate(attention.per_head()[0].tolist())
        ]
        heads.sort(key=lambda head: -abs(head[0]))
        first = heads[: check_count(refine, "refine")]
        true = self.measure([[Edge(name, head)] for _, name, head in first], progress)
        changes: list[float | None] = [*true, *[None] * (len(heads) - len(first))]
        rows = [
            HeadInfluence(name, head, estimate, change)
            for (estimate, name, head), change in zip(heads, changes, strict=True)
        ]
        return InfluenceTable(rows, self.describe_unit())

    def sources(
        self, spans: Spans, query: int = -1, refine: int | None = None, progress: Progress | None = None
    ) -> InfluenceTable[SourceInfluence]:
        """Passages by the change if no row outside a passage could attend to it, in any layer.

        spans    a list of (first, one past the last) and the like, a dict of them by name, or "sentences", "paragraphs"
                 or "turns" of the tokens
        query    the row whose attention is the `mass` of a passage: the mean over all heads
        refine   how many are knocked out truly, those with the largest estimates first; by default all
        """
        return rank_sources(self, spans, query, refine, progress)

    def agreement(self, samples: int = 32, seed: int = 0, progress: Progress | None = None) -> Agreement:
        """Estimates beside true knock-outs of random edges that reach the number."""
        edges = draw_edges(self.attentions, check_count(samples, "samples"), seed)
        return Agreement(
            self.edge_rows(edges, len(edges), progress),
            sum(attention.near_one for attention in self.attentions.values()),
        )

    def edge_rows(
        self, edges: Sequence[tuple[str, int, int, int]], refine: int, progress: Progress | None
    ) -> list[EdgeInfluence]:
        """Edges with weight and estimate, the first of them with their true change."""
        true = self.measure([[Edge(*edge)] for edge in edges[:refine]], progress)
        changes: list[float | None] = [*true, *[None] * (len(edges) - len(true))]
        rows = []
        for (name, head, query, key), change in zip(edges, changes, strict=True):
            at = {"batch": 0, "head": head, "rows": query, "keys": key}
            weight, estimate = self[name].sight.weights(**at), self[name].edges(**at)
            rows.append(EdgeInfluence(name, head, query, key, float(weight), float(estimate), change))
        return rows

    def head_edges(self, name: str, head: int, rows: AxisIndex = None) -> Tensor:
        """Every edge of a head, or of some of its rows: what a picture of influence draws."""
        return self[name].edges(batch=0, head=head, rows=rows)

    def show(self, view: str = "heads", **options: Any) -> None:
        """A picture of the run by influence instead of weights: the views heads, matrix and arrows."""
        self.trace.show(view, influence=self, **options)

    def __repr__(self) -> str:
        return f"Influence({self.describe_unit()}; {len(self)} attentions: {list_some(self.names)})"


def check_count(number: object, what: str) -> int:
    count = integer_or_none(number)
    if count is None or count < 0:
        raise Misfit(f"{what} must be 0 or more, but got {number!r:.60}; 8 runs the model without each of eight")
    return count
