"""What `transom see` finds out: a text through a model, the head to look at, its arrows and what they are worth."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transom.names import Misfit

if TYPE_CHECKING:
    from transom.cli.any_model import AnyModel, Fed
    from transom.lens import Labels, Trace

MOST_NUMBERS = 2**16  # weights of a head that go into JSON


@dataclass(frozen=True)
class Asked:
    """What is to be seen, as the command was told."""

    text: str
    model: str | None = None
    layer: str | None = None
    head: int | None = None
    target: str | None = None
    generate: int = 0
    arrows: int = 8
    trace: Path | None = None


@dataclass(frozen=True)
class SeenArrow:
    """One arrow; `effect` is how far what the model gives moves without it, where that can be told."""

    query: int
    key: int
    weight: float
    effect: float | None
    flag: str


class Ran(NamedTuple):
    """A model, what it read, and the tokens that it wrote on."""

    model: "AnyModel"
    fed: "Fed"
    new: list[int]


@dataclass(frozen=True, eq=False)
class Seen:
    """A run, and one head of it."""

    model: str
    text: str
    written: str  # what the model wrote, or was to write
    trace: "Trace"
    layer: str
    head: int
    chosen: str  # how the head was found
    arrows: list[SeenArrow]  # the strongest, strongest first
    measures: dict[str, float]
    heads: int
    unit: str = ""  # of the effects: nats, or share
    ran: "Ran | None" = None  # what ran, and on what; nothing of a run that was saved
    compared: int | None = None  # among how many heads it was found; None for one that was asked for
    named: bool = False  # whether its layer was asked for
    note: str = ""  # what could not be done as it was asked

    @property
    def labels(self) -> "Labels":
        return self.trace.labels(self.layer)

    @property
    def sight(self) -> Any:
        return self.trace[self.layer]

    def told(self) -> dict[str, Any]:
        """All of it as plain data."""
        labels, weights = self.labels, None
        queries, keys = self.sight.problem.whole[2:]
        if queries * keys <= MOST_NUMBERS:
            weights = self.sight.weights(batch=0, head=self.head).tolist()
        receipt = self.sight.receipt()
        arrows = [
            {"from": labels.reads[one.query], "at": labels.at[one.key], **vars(one), "flag": one.flag or None}
            for one in self.arrows
        ]
        return {
            "model": self.model,
            "text": self.text,
            "written": self.written or None,
            "note": self.note or None,
            "layer": self.layer,
            "head": self.head,
            "chosen": self.chosen,
            "receipt": {"holds": receipt.holds, "said": str(receipt)},
            "reads": labels.reads,
            "predicts": labels.predicts,
            "at": labels.at,
            "arrows": arrows,
            "effect_unit": self.unit or None,
            "measures": self.measures,
            "weights": weights,
        }


def seen(asked: Asked) -> Seen:
    """The run, the head that was asked for or that matters most, and its strongest arrows."""
    if asked.trace is not None:
        return of_file(asked)
    from transom.cli.any_model import opened
    from transom.cli.given import counting, tell_unknown
    from transom.cli.output import print_note

    model = opened(asked.model, asked.text)
    tell_unknown(model.unknown_words(asked.text))
    fed, new = read(model, asked)
    note = model.shortened(fed, new, asked.generate)
    print_note(note)
    trace = watched(model, fed, new)
    layers = wanted(trace, asked)
    with counting(sum(part.problem.whole[1] for part in layers), "heads") as more:
        layer, head, chosen, compared = picked(model, fed, layers, asked, stepping(more))
    arrows = strongest(trace, layer, head, asked.arrows)
    with counting(len(arrows), "arrows") as more:
        arrows, unit = weighed(model, fed, (layer, head), arrows, longest(trace), stepping(more))
    measures = measured(trace, layer, head)
    count = sum(part.problem.whole[1] for part in trace)
    said = model.text(fed.target_ids[1:] or new)
    found = (model.name, asked.text, said, trace, layer, head, chosen, arrows, measures, count, unit)
    return Seen(*found, Ran(model, fed, new), compared, asked.layer is not None, note)


def read(model: "AnyModel", asked: Asked) -> tuple["Fed", list[int]]:
    """The text as the model takes it, with what it writes on where that is asked; and the tokens it wrote."""
    fed = model.encode(asked.text, asked.target)
    if not asked.generate:
        return fed, []
    if model.kind != "decoder":
        raise Misfit(f"--generate writes on, which takes a decoder, but {model.name} is an {model.kind}; leave it out")
    new = model.continued(fed.ids, asked.generate)
    return model.fed([*fed.ids, *new[:-1]]), new  # the last token is predicted, and not read


def watched(model: "AnyModel", fed: "Fed", new: list[int]) -> "Trace":
    """Every attention while the model reads; a run whose receipt fails is not shown."""
    from transom.lens import watch

    with watch(model.model, tokens=[*fed.tokens, *model.strings(new[-1:])]) as trace:
        model.run(fed)
    if fed.targets:
        trace.targets = [*fed.targets, fed.written[-1]]
    return trace.proven()


def of_file(asked: Asked) -> Seen:
    """A run that was saved: without its model, nothing can be knocked out."""
    from transom.lens import Trace

    if asked.text or asked.model or asked.target or asked.generate:
        raise Misfit("--trace shows a run that was saved, but a text or a model came too; leave one of the two out")
    assert asked.trace is not None
    trace = Trace.load(asked.trace).proven()
    trace = trace.stitched() if len(trace.names) < len(trace) else trace
    layer, head, chosen, compared = picked(None, None, wanted(trace, asked), asked)
    measures = measured(trace, layer, head)
    count = sum(part.problem.whole[1] for part in trace)
    arrows = strongest(trace, layer, head, asked.arrows)
    found = (str(asked.trace), "", "", trace, layer, head, chosen, arrows, measures, count)
    return Seen(*found, compared=compared, named=asked.layer is not None)


def wanted(trace: "Trace", asked: Asked) -> "Trace":
    """The attentions among which the head is: those of the layer that is named, or those that are told first."""
    from transom.lens import Trace
    from transom.lens.asking.matter import told_first
    from transom.lens.trace import nearest
    from transom.lens.watch import covers

    if asked.layer is None:
        if asked.head is not None:
            raise Misfit(f"--head {asked.head} is a head of a layer, but none is named; give --layer too")
        return told_first(trace)
    place: str | int = int(asked.layer) if asked.layer.isdigit() else asked.layer
    part = Trace(trace.tokens, trace.targets)
    for name, sight in trace.items():
        if covers(place, name):
            part.add(name, sight)
    if not len(part):
        raise Misfit(f"no attention ran in layer {asked.layer!r}; {nearest(asked.layer, trace.names)}")
    return part


def picked(
    model: "AnyModel | None", fed: "Fed | None", layers: "Trace", asked: Asked, progress: Any = None
) -> tuple[str, int, str, int | None]:
    """The layer, the head, how it was found, and among how many."""
    from transom.lens.asked import inside
    from transom.lens.asking.matter import most_telling
    from transom.lens.trace import some

    if asked.head is None:
        return most_telling(model and model.model, fed and fed.inputs, layers, progress)
    if len(layers) > 1:
        raise Misfit(
            f"--layer {asked.layer} could be {some(layers.names)}; name one of them, or leave --head out to see the"
            " most telling"
        )
    return layers.names[0], inside(asked.head, "heads", layers[0].problem.whole[1]), "as asked", None


def strongest(trace: "Trace", layer: str, head: int, most: int) -> list[SeenArrow]:
    """The strongest arrows of a head, strongest first."""
    sight = trace[layer]
    top = sight.top(min(most, max(1, sight.problem.whole[3])))
    weights, keys = top.weights[0, head], top.keys[0, head]
    values, places = weights.flatten().sort(descending=True)
    found = []
    for weight, place in zip(values[:most].tolist(), places[:most].tolist(), strict=True):
        if weight > 0.0:
            row, column = divmod(place, weights.shape[1])
            found.append(SeenArrow(row, int(keys[row, column]), weight, None, ""))
    return found


def weighed(
    model: "AnyModel", fed: "Fed", place: tuple[str, int], arrows: list[SeenArrow], tokens: int, progress: Any
) -> tuple[list[SeenArrow], str]:
    """The same arrows with what each is worth, and in which unit; as they are where nothing can be compared."""
    from transom.lens.asking.edge import Edge
    from transom.lens.asking.effect_table import Rule
    from transom.lens.asking.shifts import shifts

    edges = [Edge(*place, one.query, one.key) for one in arrows]
    found = shifts(model.model, fed.inputs, edges, tokens, "before", progress) if edges else None
    if found is None:
        return arrows, ""
    flags = (Rule().flag(one.weight, effect) for one, effect in zip(arrows, found.values, strict=True))
    parts = zip(arrows, found.values, flags, strict=True)
    return [SeenArrow(one.query, one.key, one.weight, effect, flag) for one, effect, flag in parts], found.unit


def longest(trace: "Trace") -> int:
    return max(max(sight.problem.whole[2:]) for sight in trace)


def measured(trace: "Trace", layer: str, head: int) -> dict[str, float]:
    """What the head does, by every measure that it has."""
    from transom.lens import Trace
    from transom.lens.measuring.heads import heads

    words = [trace.labels(layer).at]
    one = Trace()
    one.add(layer, trace[layer])
    row = heads(one, tokens=words, targets=words)[layer, head]
    return {name: value for name, value in row.values.items() if value is not None}


def stepping(more: Any) -> Any:
    """Progress told as "done of all" from steps of how many more."""
    done = [0]

    def progress(now: int, _all: int) -> None:
        more(now - done[0])
        done[0] = now

    return progress
