"""What is looked at: one head of one attention, its labels and where it comes from; refused if its receipt fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from transom.names import Misfit
from transom.show.picture import Source
from transom.show.worked import Worked, attentions, steps_in

Labels = Sequence[str]
RECEIPTS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by Sight


@dataclass(frozen=True)
class Look:
    """One head of a Sight, or of worked steps, ready to be drawn."""

    sight: Any
    layer: str
    head: int
    batch: int
    rows: tuple[str, ...]
    keys: tuple[str, ...]
    source: Source

    @cached_property
    def title(self) -> str:
        if isinstance(self.sight, Worked) and len(self.sight.places) == 1:
            return self.layer or "the attention"
        head = self.sight.places[self.head] if isinstance(self.sight, Worked) else self.head
        return f"{self.layer}, head {head}" if self.layer else f"head {head}"

    def weights(self, rows: Any = None, keys: Any = None) -> Any:
        """The weights asked for, as a tensor in float64."""
        return self.sight.weights(batch=self.batch, head=self.head, rows=rows, keys=keys).double()

    def scores(self, rows: Any = None, keys: Any = None) -> Any:
        """The same before the softmax; −∞ where masked."""
        return self.sight.scores(batch=self.batch, head=self.head, rows=rows, keys=keys).double()

    def values(self) -> Any:
        """(keys, d_value): the values that this head sums up."""
        group = 1 if isinstance(self.sight, Worked) else self.sight.problem.group
        return self.sight.V[self.batch, self.head // group].detach().double()


def looked(
    thing: Any,
    layer: str | int | None = None,
    head: int = 0,
    batch: int = 0,
    tokens: Labels | None = None,
    at: Labels | None = None,
    model: str = "",
    predicted: bool = False,
) -> Look:
    """One head of a Sight, of a Trace, or of a lesson.

    layer       a name, or a number in the order of running; unless given, the last
    tokens      labels of the rows, looked from; unless given, those of the trace it is from, or numbers
    at          labels of the keys, looked at; unless given, those of the rows if there are as many
    predicted   label each row with the token it reads and the one it predicts, where the trace knows them
    """
    name, sight = one_attention(thing, layer)
    proved = receipt_of(sight, name)
    sizes = whole(sight)
    place, row = counted(head, "heads", sizes[1]), counted(batch, "batch", sizes[0])
    alone = thing is sight and tokens is not None  # what is given for a Sight stands for what its trace had
    known = (None, None) if alone else known_words(thing, name, sight, row, predicted)
    same = tokens if tokens is not None and sizes[2] == sizes[3] else known[1]
    rows = labels(tokens, known[0], sizes[2], "queries", "tokens")
    keys = labels(at, same, sizes[3], "keys", "at")
    heads = sight.places if isinstance(sight, Worked) else range(sizes[1])
    only = "" if isinstance(sight, Worked) else str(heads[place])
    said = f"{heads[place]} of {heads[0]}–{heads[-1]}" if len(heads) > 1 else only
    source = Source(model=model, layer=name, head=said, receipt=proved)
    return Look(sight, name, place, row, rows, keys, source)


def attentions_of(thing: Any) -> list[tuple[str, Any]]:
    """Name and Sight of each attention of what is to be drawn."""
    from transom.lens import Sight, Trace

    if isinstance(thing, Sight):
        return [("", thing)]
    steps = steps_in(thing)
    if steps is not None:
        return list(attentions(steps))
    if not isinstance(thing, Trace):
        kind = type(thing).__name__
        raise Misfit(f"this view draws a Sight, a Trace or a lesson, but got {kind}; transom.watch makes a Trace")
    if not len(thing):
        raise Misfit("this Trace has no attention to draw; run the model inside `with transom.watch(model)`")
    return list(thing.items())


def one_attention(thing: Any, layer: str | int | None) -> tuple[str, Any]:
    """Name and Sight of one attention."""
    from transom.lens import Sight, Trace

    found = attentions_of(thing)
    if isinstance(thing, Sight):
        return (layer if isinstance(layer, str) else ""), thing
    if isinstance(thing, Trace) and layer is not None:
        return (layer, thing[layer]) if isinstance(layer, str) else (found[layer][0], thing[layer])
    if isinstance(layer, str):
        raise Misfit(f"the layers of a lesson are counted from 0, but got {layer!r}; give a number")
    return found[-1 if layer is None else counted(layer, "layers", len(found))]


def known_words(thing: Any, name: str, sight: Any, batch: int, predicted: bool) -> tuple[Labels | None, Labels | None]:
    """The labels of rows and keys that come with what is drawn."""
    from transom.lens import Trace
    from transom.lens.labels import labels as words

    if isinstance(sight, Worked):
        return sight.rows, sight.columns
    place = (name, thing.beside) if isinstance(thing, Trace) else sight.place
    if place is None:
        return None, None
    path, beside = place
    found = words(path, sight, beside.tokens, beside.targets, beside.grid, batch)
    if not predicted:
        return found.reads, found.at
    if found.predicts is None:
        raise Misfit(f"the rows of {name or 'this attention'} predict nothing that is known; leave predicted out")
    return [
        f"{read} → {'?' if then is None else then}" for read, then in zip(found.reads, found.predicts, strict=True)
    ], found.at


def receipt_of(sight: Any, name: str) -> str:
    """The receipt in words; a picture whose weights did not make the output is not drawn."""
    if isinstance(sight, Worked):
        return ""
    receipt = receipt_kept(sight)
    if receipt.fails:
        where = f" of {name!r}" if name else ""
        raise Misfit(
            f"the weights{where} should make the output that the model used, but the receipt {receipt};"
            " nothing is drawn from it, watch the model again"
        )
    return str(receipt)


def receipt_kept(sight: Any) -> Any:
    """The receipt, worked out once for the numbers it proves: it is a pass over all weights, and one draws often."""
    if hasattr(sight, "proof"):
        return sight.receipt()
    known = RECEIPTS.get(sight)
    if known is None or known[0] != state(sight):
        receipt = sight.receipt()
        RECEIPTS[sight] = known = (state(sight), receipt)
    return known[1]


def state(sight: Any) -> tuple[tuple[int, int], ...]:
    """Which tensors a receipt is about, and whether they were written to since."""
    problem, given = sight.problem, vars(sight)
    used = given.get("output") if sight.joined is None else sight.joined.output
    tensors = (problem.Q, problem.K, problem.V, used, given.get("lse"))
    return tuple((id(one), 0 if one is None or one.is_inference() else one._version) for one in tensors)


def receipts_of(seen: list[tuple[str, Any]]) -> str:
    """The receipts of many attentions in words; one that fails is an error that names it."""
    found = [one for one in (receipt_of(sight, name) for name, sight in seen) if one]
    holding = sum(one.startswith("holds") for one in found)
    rest = f", {len(found) - holding} not checkable" if holding < len(found) else ""
    return f"holds for {holding} of {len(found)}{rest}" if found else ""


def whole(sight: Any) -> tuple[int, int, int, int]:
    """(batch, heads, queries, keys), also where only statistics were kept."""
    return sight.problem.whole if hasattr(type(sight), "Q") and not hasattr(sight, "proof") else sight.whole


def counted(place: int, axis: str, size: int) -> int:
    if not -size <= place < size:
        raise Misfit(
            f"there are {axis}={size}, so {place} is none of them; count from 0 to {size - 1}, or back from -1"
        )
    return place % size


def labels(given: Labels | None, known: Labels | None, size: int, axis: str, option: str) -> tuple[str, ...]:
    """One label for each place: those given, those known if they are as many, else numbers."""
    if given is not None:
        if len(given) != size:
            raise Misfit(f"this attention has {axis}={size}, but {option} has {len(given)} labels; give one for each")
        return tuple(given)
    return tuple(known) if known is not None and len(known) == size else tuple(str(place) for place in range(size))
