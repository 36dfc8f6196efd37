"""The head that a picture is of, in a Sight, a Trace or a lesson: its weights, labels, receipt and hidden keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from transom.names import Misfit, check_index
from transom.show.formatting import format_percent, join_some, make_visible
from transom.show.lesson_sight import StepsSight, find_steps
from transom.show.picture import Source

Labels = Sequence[str]
RECEIPTS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by Sight
BLOCK = 1 << 20  # weights that are held at a time


@dataclass(frozen=True)
class SelectedHead:
    """One head of a Sight, or of a lesson, ready to be drawn."""

    sight: Any
    layer: str
    head: int
    batch: int
    rows: tuple[str, ...]
    keys: tuple[str, ...]
    title: str
    source: Source

    def weights(self, rows: Any = None) -> Any:
        """The weights as a tensor in float64, of all rows or of some."""
        return self.sight.weights(batch=self.batch, head=self.head, rows=rows).double()

    def scores(self, rows: Any = None) -> Any:
        """The same before the softmax; −∞ where masked."""
        return self.sight.scores(batch=self.batch, head=self.head, rows=rows).double()

    def values(self) -> Any:
        """(keys, d_value): the values that this head sums up."""
        values = self.vectors("V")
        assert values is not None
        return values

    def vectors(self, letter: str) -> Any:
        """Q, K or V of this head, a row for each token; None if a lesson gives scores instead."""
        if isinstance(self.sight, StepsSight) and not self.sight.has_step(letter):
            return None
        vectors = getattr(self.sight, letter)
        group = self.sight.shape[1] // vectors.shape[1]
        return vectors[self.batch, self.head // group].detach().double()

    def raw_scores(self, rows: Any) -> Any:
        """q · k before any division; None if it is not known."""
        if isinstance(self.sight, StepsSight):
            return self.sight.raw_scores(self.batch, self.head, rows)
        return self.vectors("Q")[rows] @ self.vectors("K").mT

    def softmax_word(self) -> str:
        """What the softmax takes: scores that are only scaled, or changed in other ways too."""
        if isinstance(self.sight, StepsSight):
            return self.sight.softmax_word()
        problem = self.sight.problem
        return "scaled" if problem.bias is None and problem.softcap is None and problem.scale != 1.0 else "score"

    def row_indices(self, rows: Sequence[int] | int) -> list[int]:
        """One row or several, as numbers from 0 on."""
        return [check_index(row, "queries", len(self.rows)) for row in ([rows] if isinstance(rows, int) else rows)]

    def row_slices(self, count: int, multiple: int = 1) -> Iterator[slice]:
        """Slices of so many rows, each a multiple of some rows long, so that only some weights are held at a time."""
        size = max(1, BLOCK // max(1, len(self.keys)) // multiple) * multiple
        for first in range(0, count, size):
            yield slice(first, first + size)


def select_head(
    thing: Any,
    layer: str | int | None = None,
    head: int = 0,
    batch: int = 0,
    tokens: Labels | None = None,
    at: Labels | None = None,
    model: str = "",
    predicted: bool = False,
) -> SelectedHead:
    """One head of a Sight, of a Trace, or of a lesson.

    layer       a name, or a number in the order of running; by default the last
    tokens      labels of the rows; by default those of the trace, or numbers
    at          labels of the keys; by default those of the rows if there are as many
    predicted   label each row with the token it reads and the one it predicts, if the trace has them
    """
    name, sight = find_attention(thing, layer)
    receipt = receipt_summary(sight, name)
    _, heads, queries, keys = sight.shape
    head, batch = check_index(head, "heads", heads), check_index(batch, "batch", sight.shape[0])
    # Labels given for a Sight replace those of its trace, which may not fit.
    replaced = thing is sight and tokens is not None
    reads, reads_at = (None, None) if replaced else trace_labels(thing, name, sight, batch, predicted)
    row_labels = check_labels(tokens, reads, queries, "queries", "tokens")
    key_labels = check_labels(at, tokens if tokens is not None and queries == keys else reads_at, keys, "keys", "at")
    numbers = sight.head_numbers if isinstance(sight, StepsSight) else range(heads)
    number = "" if isinstance(sight, StepsSight) and heads == 1 else str(numbers[head])
    title = ", ".join(filter(None, [name, number and f"head {number}"])) or "the attention"
    named_head = f"{number} of {numbers[0]}–{numbers[-1]}" if heads > 1 else number
    source = Source(model=model, layer=name, head=named_head, receipt=receipt)
    return SelectedHead(sight, name, head, batch, row_labels, key_labels, title, source)


def attentions_of(thing: Any) -> list[tuple[str, Any]]:
    """The name and the Sight of each attention."""
    from transom.lens import AttentionView, Trace

    if isinstance(thing, AttentionView):
        return [("", thing)]
    steps = find_steps(thing)
    if steps is not None:
        layers = sorted({step.layer for step in steps if step.name == "weights"}) or [0]
        return [(f"layer {layer}" if len(layers) > 1 else "", StepsSight(steps, layer)) for layer in layers]
    if not isinstance(thing, Trace):
        kind = type(thing).__name__
        raise Misfit(f"this view draws a Sight, a Trace or a lesson, but got {kind}; transom.watch makes a Trace")
    if not len(thing):
        raise Misfit("this Trace has no attention to draw; run the model inside `with transom.watch(model)`")
    return list(thing.items())


def find_attention(thing: Any, layer: str | int | None) -> tuple[str, Any]:
    """The name and the Sight of one attention."""
    from transom.lens import AttentionView, Trace

    attentions = attentions_of(thing)
    if isinstance(thing, AttentionView):
        return (layer if isinstance(layer, str) else ""), thing
    if isinstance(layer, str):
        if isinstance(thing, Trace):
            return layer, thing[layer]
        raise Misfit(f"the layers of a lesson have numbers, but got {layer!r}; count from 0")
    return attentions[-1 if layer is None else check_index(layer, "layers", len(attentions))]


def trace_labels(thing: Any, name: str, sight: Any, batch: int, predicted: bool) -> tuple[Labels | None, Labels | None]:
    """The labels of rows and keys that a trace or a lesson has."""
    from transom.lens import Trace
    from transom.lens.trace import attention_labels

    if isinstance(sight, StepsSight):
        return sight.rows, sight.columns
    source = (name, thing.run_labels) if isinstance(thing, Trace) else sight.trace_labels
    if source is None:
        return None, None
    path, run = source
    found = attention_labels(path, sight, run, batch)
    if not predicted:
        return found.reads, found.at
    if found.predicts is None:
        raise Misfit(
            f"predicted needs rows that predict a token, but those of {name or 'this attention'} do not; leave it out"
        )
    pairs = zip(found.reads, found.predicts, strict=True)
    return [f"{read} → {'?' if prediction is None else prediction}" for read, prediction in pairs], found.at


def check_labels(chosen: Labels | None, default: Labels | None, size: int, axis: str, option: str) -> tuple[str, ...]:
    """One label for each token: those chosen, the default ones if they are as many, otherwise numbers."""
    if chosen is not None:
        if len(chosen) != size:
            raise Misfit(f"this attention has {axis}={size}, but {option} has {len(chosen)} labels; give one for each")
        return tuple(chosen)
    return tuple(default) if default is not None and len(default) == size else tuple(map(str, range(size)))


def mean_of_heads(sight: Any, statistic: str, batch: int) -> list[float]:
    """A statistic of each head, such as its entropy, as the mean over all rows."""
    rows = getattr(sight, statistic)()[check_index(batch, "batch", sight.shape[0])]
    return rows.double().mean(dim=1).tolist()


def receipt_summary(sight: Any, name: str) -> str:
    """The receipt in words; if it fails, nothing is drawn."""
    if isinstance(sight, StepsSight):
        return ""
    receipt = cached_receipt(sight)
    if receipt.fails:
        where = f" of {name!r}" if name else ""
        raise Misfit(
            f"the weights{where} should reproduce the model's output, but the receipt {receipt};"
            " nothing is drawn, watch the model again"
        )
    return str(receipt)


def cached_receipt(sight: Any) -> Any:
    """The receipt, computed again only if the numbers changed: it needs a pass over all weights."""
    if sight.full is None:
        return sight.receipt()
    if sight not in RECEIPTS or RECEIPTS[sight][0] != tensor_versions(sight):
        receipt = sight.receipt()
        RECEIPTS[sight] = (tensor_versions(sight), receipt)  # the receipt may have computed some of the tensors
    return RECEIPTS[sight][1]


def tensor_versions(sight: Any) -> tuple[tuple[int, int], ...]:
    """Which tensors a receipt is about, and how often each was written to."""
    problem, attributes = sight.problem, vars(sight)
    output = attributes.get("output") if sight.joined_output is None else sight.joined_output.output
    tensors = (problem.Q, problem.K, problem.V, output, attributes.get("lse"))
    return tuple((id(t), 0 if t is None or t.is_inference() else t._version) for t in tensors)


def receipts_summary(attentions: list[tuple[str, Any]]) -> str:
    """The receipts of several attentions in words; one that fails is an error that names it."""
    receipts = list(filter(None, (receipt_summary(sight, name) for name, sight in attentions)))
    holding = sum(receipt.startswith("holds") for receipt in receipts)
    others = f", {len(receipts) - holding} not checkable" if holding < len(receipts) else ""
    return f"holds for {holding} of {len(receipts)}{others}" if receipts else ""


@dataclass(frozen=True)
class HiddenKeys:
    """The keys that are not drawn, those that are, and whether each row is divided by what is left of it."""

    hidden: list[int]
    visible: list[int]
    renormalised: bool

    def drop_hidden(self, weights: Any) -> Any:
        """(rows, keys) weights without the hidden columns."""
        left = weights[:, self.visible]
        if not self.renormalised:
            return left
        total = left.sum(dim=1, keepdim=True)
        return left / total.masked_fill(total == 0, 1.0)

    def notes(self, selected: SelectedHead) -> list[str]:
        """What the figure says about hidden keys."""
        if not self.hidden:
            return []
        received = selected.sight.received()[selected.batch, selected.head, self.hidden].double().sum()
        names = join_some([f"“{make_visible(selected.keys[key])}” (key {key})" for key in self.hidden])
        share = format_percent(float(received) / max(1, len(selected.rows)))
        others = (
            "each row is divided by what is left, so it sums to 1 again"
            if self.renormalised
            else "the other weights are unchanged, so rows sum to less than 1"
        )
        return [f"Hidden: {names}, which took {share} of this head's attention; {others}."]


def hide_keys(selected: SelectedHead, hide: Sequence[int] | int, renormalise: bool) -> HiddenKeys:
    """The keys to hide, such as attention sinks, checked."""
    size = len(selected.keys)
    hidden = sorted({check_index(key, "keys", size) for key in ([hide] if isinstance(hide, int) else hide)})
    if renormalise and not hidden:
        raise Misfit("renormalise needs hidden keys, but none is hidden; hide=[0] hides the first")
    if hidden and len(hidden) == size:
        raise Misfit(f"at least one key must be left to draw, but all keys={size} are hidden; hide fewer")
    return HiddenKeys(hidden, [key for key in range(size) if key not in hidden], renormalise)
