"""What is looked at: one head of one attention, its labels and where it comes from; refused if its receipt fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.show.picture import Source

if TYPE_CHECKING:
    from transom.lens import Sight

Labels = Sequence[str]


@dataclass(frozen=True)
class Look:
    """One head of a Sight, ready to be drawn."""

    sight: "Sight"
    layer: str
    head: int
    batch: int
    rows: tuple[str, ...]
    keys: tuple[str, ...]
    source: Source

    @cached_property
    def title(self) -> str:
        return f"{self.layer}, head {self.head}" if self.layer else f"head {self.head}"

    def weights(self, rows: Any = None, keys: Any = None) -> Any:
        """The weights asked for, as a tensor in float64."""
        return self.sight.weights(batch=self.batch, head=self.head, rows=rows, keys=keys).double()

    def scores(self, rows: Any = None, keys: Any = None) -> Any:
        return self.sight.scores(batch=self.batch, head=self.head, rows=rows, keys=keys).double()


def looked(
    thing: Any,
    layer: str | int | None = None,
    head: int = 0,
    batch: int = 0,
    tokens: Labels | None = None,
    at: Labels | None = None,
    model: str = "",
) -> Look:
    """One head of a Sight or of a Trace.

    layer    of a Trace: a name, or a number in the order of running; unless given, the last
    tokens   labels of the rows, looked from; unless given, those of the trace, or numbers
    at       labels of the keys, looked at; unless given, those of the rows if there are as many
    """
    name, sight, known = one_attention(thing, layer)
    proved = receipt_of(sight, name)
    sizes = whole(sight)
    place, row = counted(head, "heads", sizes[1]), counted(batch, "batch", sizes[0])
    own = known[row] if known and row < len(known) else None
    rows = labels(tokens, own, sizes[2], "queries", "tokens")
    keys = labels(at, tokens if tokens is not None and sizes[2] == sizes[3] else own, sizes[3], "keys", "at")
    source = Source(model=model, layer=name, head=f"{place} of 0–{sizes[1] - 1}", receipt=proved)
    return Look(sight, name, place, row, rows, keys, source)


def one_attention(thing: Any, layer: str | int | None) -> tuple[str, "Sight", list[list[str]] | None]:
    """Name, Sight and tokens of what is to be drawn."""
    from transom.lens import Sight, Trace

    if isinstance(thing, Sight):
        return (layer if isinstance(layer, str) else ""), thing, None
    if not isinstance(thing, Trace):
        raise Misfit(f"this view draws a Sight or a Trace, but got {type(thing).__name__}; transom.watch makes a Trace")
    if not len(thing):
        raise Misfit("this Trace has no attention to draw; run the model inside `with transom.watch(model)`")
    if isinstance(layer, str):
        return layer, thing[layer], thing.tokens
    sight = thing[-1 if layer is None else layer]
    return next(name for name, one in thing.items() if one is sight), sight, thing.tokens


def receipt_of(sight: "Sight", name: str) -> str:
    """The receipt in words; a picture whose weights did not make the output is not drawn."""
    receipt = sight.receipt()
    if receipt.fails:
        where = f" of {name!r}" if name else ""
        raise Misfit(
            f"the weights{where} should make the output that the model used, but the receipt {receipt};"
            " nothing is drawn from it, watch the model again"
        )
    return str(receipt)


def receipts_of(seen: list[tuple[str, "Sight"]]) -> str:
    """The receipts of many attentions in words; one that fails is an error that names it."""
    found = [receipt_of(sight, name) for name, sight in seen]
    holding = sum(one.startswith("holds") for one in found)
    rest = f", {len(found) - holding} not checkable" if holding < len(found) else ""
    return f"holds for {holding} of {len(found)}{rest}"


def whole(sight: "Sight") -> tuple[int, int, int, int]:
    """(batch, heads, queries, keys), also where only statistics were kept."""
    batch, heads, queries = sight.lse.shape
    return batch, heads, queries, sight.statistics.received.shape[2] if hasattr(sight, "proof") else sight.K.shape[2]


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
