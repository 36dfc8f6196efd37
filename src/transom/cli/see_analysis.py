"""The analysis behind `transom see`: run the model, choose the head, find its strongest arrows and their effects."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.cli.cli_io import print_note, progress_bar, warn_unknown_words
from transom.names import Misfit, check_index, count_noun

if TYPE_CHECKING:
    from transom.lens import Labels, Sight, Trace
    from transom.lens.attribution.head_ranking import HeadRanker, HeadRanking
    from transom.lens.attribution.output_estimates import OutputEstimates
    from transom.runner.watched_run import TextRun

MOST_NUMBERS = 2**16  # weights of a head that go into JSON


@dataclass(frozen=True)
class SeeRequest:
    """The options of the command."""

    text: str
    model: str | None = None
    layer: str | None = None
    head: int | None = None
    target: str | None = None
    generate: int = 0
    arrows: int = 8
    trace: Path | None = None
    by: str = "influence"  # which arrows are shown: those with the most influence, or with the most weight
    refine: int = 8  # heads that are knocked out; 0 leaves all estimates as they are


@dataclass(frozen=True)
class RankedEdge:
    """One arrow; `effect` is how far the model's output moves without it, `estimate` what one backward pass says of
    it, each if it is known."""

    query: int
    key: int
    weight: float
    estimate: float | None = None
    effect: float | None = None
    flag: str = ""


@dataclass(frozen=True, eq=False)
class SeeResult:
    """A run, and one head of it."""

    model: str
    text: str
    output: str  # what the model wrote, or its target
    trace: "Trace"
    layer: str
    head: int
    chosen: str  # why this head is shown
    compared: int | None  # among how many heads it was chosen; None if it was asked for
    has_layer: bool  # whether its layer was asked for
    arrows: list[RankedEdge]  # those that matter most, or the strongest; the first first
    by: str  # what the arrows were chosen by
    unit: str  # of estimates and effects: nats, share, or none if they are not known
    ranking: "HeadRanking | None"  # of the heads; None if one was asked for
    measures: dict[str, float]
    description: str | None  # what the head does, in words
    text_run: "TextRun | None"  # None for a saved run
    note: str  # what could not be done as it was asked

    @property
    def labels(self) -> "Labels":
        return self.trace.labels(self.layer)

    @property
    def sight(self) -> "Sight":
        return self.trace[self.layer].require_full()

    @property
    def head_count(self) -> int:
        return count_heads(self.trace)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        labels, weights = self.labels, None
        queries, keys = self.sight.problem.shape[2:]
        if queries * keys <= MOST_NUMBERS:
            weights = self.sight.weights(batch=0, head=self.head).tolist()
        receipt = self.sight.receipt()
        arrows = [
            {"from": labels.reads[arrow.query], "at": labels.at[arrow.key], **vars(arrow), "flag": arrow.flag or None}
            for arrow in self.arrows
        ]
        return {
            "model": self.model,
            "text": self.text,
            "written": self.output or None,
            "note": self.note or None,
            "unseen": [vars(one) for one in self.trace.unseen],
            "layer": self.layer,
            "head": self.head,
            "chosen": self.chosen,
            "receipt": {"holds": receipt.holds, "said": str(receipt)},
            "reads": labels.reads,
            "predicts": labels.predicts,
            "at": labels.at,
            "arrows": arrows,
            "by": self.by,
            "effect_unit": self.unit or None,
            "ranking": None if self.ranking is None else self.ranking.to_dict()["rows"],
            "measures": self.measures,
            "description": self.description,
            "weights": weights,
        }


def analyse(request: SeeRequest) -> SeeResult:
    """The run, the head that was asked for or that matters most, and its strongest arrows."""
    if request.trace is None:
        text_run, trace = run_text(request)
        name, text, output, note = text_run.model.name, request.text, text_run.output, text_run.note
    else:
        text_run, trace = None, load_trace(request, request.trace)
        name, text, output, note = str(request.trace), "", "", ""
    layers = select_layers(trace, request)
    ranker = None if text_run is None else make_ranker(text_run, layers)
    ranking, (layer, head, chosen, compared) = choose_head(ranker, layers, request)
    estimates = None if ranker is None else ranker.estimates
    by = request.by if estimates is not None else "weight"
    arrows = find_arrows(trace, (layer, head), request, estimates)
    unit = "" if estimates is None else estimates.unit
    if text_run is not None and arrows and (request.refine or not unit):
        arrows, unit = add_effects(text_run, trace, (layer, head), arrows)
    if by == "influence":
        arrows = sorted(arrows, key=lambda arrow: -(arrow.effect or 0.0))  # a stable sort: else by estimate
    has_layer = request.layer is not None
    found = (layer, head, chosen, compared, has_layer, arrows, by, unit, ranking, *measure_head(trace, layer, head))
    return SeeResult(name, text, output, trace, *found, text_run, note)


def make_ranker(text_run: "TextRun", layers: "Trace") -> "HeadRanker":
    from transom.lens.attribution.head_ranking import HeadRanker

    return HeadRanker(text_run.model.model, text_run.encoded.inputs, layers)


def run_text(request: SeeRequest) -> "tuple[TextRun, Trace]":
    """Run the model on the text; a run whose receipt fails is an error."""
    from transom.runner import load_text_model
    from transom.runner.watched_run import encode_and_continue, watch_run

    model = load_text_model(request.model, request.text)
    warn_unknown_words(model, [request.text])
    if request.generate and model.kind != "decoder":
        raise Misfit(f"--generate takes a decoder, but {model.name} is an {model.kind}; leave it out")
    text_run = encode_and_continue(model, request.text, request.target, request.generate)
    print_note(text_run.note)
    return text_run, watch_run(text_run)[0].proven()


def load_trace(request: SeeRequest, path: Path) -> "Trace":
    """A saved run, with one attention under each name."""
    from transom.lens import Trace

    if request.text or request.model or request.target or request.generate:
        raise Misfit("--trace shows a saved run, but got a text or a model too; leave one of the two out")
    trace = Trace.load(path).proven()
    return trace.stitched() if len(trace.names) < len(trace) else trace


def select_layers(trace: "Trace", request: SeeRequest) -> "Trace":
    """The attentions in which the head is chosen: those of the named layer, or the preferred ones."""
    from transom.lens import Trace
    from transom.lens.attribution.head_ranking import preferred_layers
    from transom.lens.trace import layer_matches, suggest_names

    if request.layer is None:
        if request.head is not None:
            raise Misfit(f"--head {request.head} is a head of a layer, but no layer is named; give --layer too")
        return preferred_layers(trace)
    layer: str | int = int(request.layer) if request.layer.isdigit() else request.layer
    selected = Trace(trace.tokens, trace.targets)
    for name, sight in trace.items():
        if layer_matches(layer, name):
            selected.add(name, sight)
    if not len(selected):
        raise Misfit(f"no attention ran in layer {request.layer!r}; {suggest_names(request.layer, trace.names)}")
    return selected


def choose_head(
    ranker: "HeadRanker | None", layers: "Trace", request: SeeRequest
) -> "tuple[HeadRanking | None, tuple[str, int, str, int | None]]":
    """The ranking of heads, and of the chosen one layer, number, why it was chosen, and among how many."""
    from transom.lens.attribution.head_ranking import HeadRanker
    from transom.lens.trace import list_some

    if request.head is None:
        ranking = HeadRanker(None, None, layers).rank() if ranker is None else rank_heads(ranker, request.refine)
        return ranking, ranking.first
    if len(layers) > 1:
        raise Misfit(
            f"--layer {request.layer} could be {list_some(layers.names)}; name one of them, or leave --head out to see"
            " the one that matters most"
        )
    return None, (layers.names[0], check_index(request.head, "heads", layers[0].problem.shape[1]), "as asked", None)


def rank_heads(ranker: "HeadRanker", refine: int) -> "HeadRanking":
    """The ranking: at once by estimate, which is said, then the first few by knock-outs."""
    ranking = ranker.estimate()
    if ranking is None:
        with progress_bar(len(ranker.heads), "heads") as advance:
            return ranker.rank(progress=as_progress(advance))
    count, first = min(refine, len(ranking.rows)), ranking.first
    if 0 < count < len(ranking.rows):
        print_note(
            f"{count_noun(len(ranking.rows), 'head')} estimated by backward passes, {first.layer} head {first.head}"
            f" first; now {count_noun(count, 'head')} and the arrows are knocked out"
        )
    with progress_bar(count, "heads") as advance:
        return ranker.refine(ranking, count, as_progress(advance))


def count_heads(trace: "Trace") -> int:
    return sum(sight.problem.shape[1] for sight in trace)


def find_arrows(
    trace: "Trace", head: tuple[str, int], request: SeeRequest, estimates: "OutputEstimates | None"
) -> list[RankedEdge]:
    """The arrows of a head that matter most by estimate, or those with the most weight."""
    if estimates is not None and request.by == "influence":
        return [RankedEdge(**vars(edge)) for edge in estimates.strongest(*head, request.arrows)]
    arrows = strongest_arrows(trace, *head, request.arrows)
    if estimates is None:
        return arrows
    name, number = head
    return [replace(arrow, estimate=float(estimates.edges(name, number, arrow.query, arrow.key))) for arrow in arrows]


def strongest_arrows(trace: "Trace", layer: str, head: int, most: int) -> list[RankedEdge]:
    """The strongest arrows of a head, strongest first."""
    sight = trace[layer]
    top = sight.top(min(most, max(1, sight.problem.shape[3])))
    weights, keys = top.weights[0, head], top.keys[0, head]
    values, indices = weights.flatten().sort(descending=True)
    arrows = []
    for weight, index in zip(values[:most].tolist(), indices[:most].tolist(), strict=True):
        if weight > 0.0:
            row, column = divmod(index, weights.shape[1])
            arrows.append(RankedEdge(row, int(keys[row, column]), weight))
    return arrows


def add_effects(
    text_run: "TextRun", trace: "Trace", head: tuple[str, int], arrows: list[RankedEdge]
) -> tuple[list[RankedEdge], str]:
    """The arrows with their effects, and the unit; unchanged if the model's output cannot be compared."""
    from transom.lens.ablation.ablated_runs import measure_changes
    from transom.lens.ablation.edge import Edge
    from transom.lens.ablation.effect_table import EffectRule

    edges = [Edge(*head, arrow.query, arrow.key) for arrow in arrows]
    tokens = max(max(sight.problem.shape[2:]) for sight in trace)
    model, inputs = text_run.model.model, text_run.encoded.inputs
    with progress_bar(len(arrows), "arrows") as advance:
        changes = measure_changes(model, inputs, edges, tokens, "before", as_progress(advance))
    if changes is None:
        return arrows, ""
    rule, pairs = EffectRule(), zip(arrows, changes.values, strict=True)
    known = [replace(arrow, effect=effect, flag=rule.flag(arrow.weight, effect)) for arrow, effect in pairs]
    return known, changes.unit


def measure_head(trace: "Trace", layer: str, head: int) -> tuple[dict[str, float], str | None]:
    """Every measure that applies to the head, and what it does in words."""
    from transom.lens import Trace
    from transom.lens.metrics.heads import heads

    tokens = [trace.labels(layer).at]
    alone = Trace()
    alone.add(layer, trace[layer])
    row = heads(alone, tokens=tokens, targets=tokens)[layer, head]
    return {name: value for name, value in row.values.items() if value is not None}, row.description


def as_progress(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    """Progress as "done of total", from a function that advances by steps."""
    last = 0

    def progress(done: int, total: int) -> None:
        nonlocal last
        advance(done - last)
        last = done

    return progress
