"""The matrix: who looks from where at what, one head as a heat map; long texts pooled, and said so."""

from collections.abc import Iterator, Sequence
from typing import Any

from transom.show.look import Look, looked
from transom.show.numbers import grouped
from transom.show.panels import Grid, heat
from transom.show.panels.grid import MASKED
from transom.show.picture import Picture, Table
from transom.show.sinks import Sinks, sinks

EXACT = 48  # rows and keys that are drawn one by one
NUMBERED = 14  # columns that have room for their numbers
BAND = 1 << 20  # weights held at a time
LOG = "Colours are on a log scale: ten times less is one step lighter; below 1/10,000 of the highest all look alike."


def matrix(
    thing: Any,
    *,
    hide: Sequence[int] | int = (),
    renormalise: bool = False,
    scale: str = "linear",
    colours: str = "blues",
    numbers: bool | None = None,
    cells: int = 128,
    **where: Any,
) -> Picture:
    """One head of a Sight or Trace as a heat map, *from* downwards, *at* across.

    hide          keys left out, such as a sink: hide=[0]; `renormalise` divides the rest by what is left of each row
    scale         linear or log
    numbers       whether cells hold their numbers; unless said, where there is room
    cells         a side, of a map that is pooled because the text is longer than 48 tokens
    """
    look = looked(thing, **where)
    sink = sinks(look, hide, renormalise)
    exact = max(len(look.rows), len(look.keys)) <= EXACT
    rows, keys, values, notes = whole_of(look, sink) if exact else pooled_of(look, sink, cells)
    shown = exact and len(keys) <= NUMBERED if numbers is None else numbers
    flat = [value for row in values for value in row]
    top = 1.0 if scale == "linear" and exact else None
    grid = Grid(
        rows=rows,
        columns=keys,
        values=values,
        heat=heat(flat, colours, scale, top),
        numbers=shown,
        digits=2 if exact else 3,
    )
    notes += [LOG] if scale == "log" else []
    table = Table(("from", "at", "weight"), tuple(listed(rows, keys, values)))
    title = f"Where {look.title} looks"
    notes = [*sink.notes(look), *notes, *([MASKED] if None in flat else [])]
    return Picture(view="matrix", title=title, panels=(grid,), source=look.source, notes=tuple(notes), table=table)


def whole_of(look: Look, sink: Sinks) -> tuple[Any, Any, Any, list[str]]:
    """Every weight, None where masked."""
    weights, masked = look.weights(), look.scores() == float("-inf")
    kept = sink.kept(len(look.keys))
    weights, masked = sink.without(weights), masked[:, kept]
    values = [
        tuple(None if hidden else value for value, hidden in zip(row, mask, strict=True))
        for row, mask in zip(weights.tolist(), masked.tolist(), strict=True)
    ]
    return look.rows, tuple(look.keys[key] for key in kept), tuple(values), []


def pooled_of(look: Look, sink: Sinks, cells: int) -> tuple[Any, Any, Any, list[str]]:
    """At most cells × cells, each the largest of its weights."""
    if sink.hidden:
        values, cell = pooled(look, sink, cells)
    else:
        found = look.sight.map(look.head, cells=cells, batch=look.batch)
        values, cell = found.values, found.cell
    kept = sink.kept(len(look.keys))
    rows = tuple(spans(range(len(look.rows)), cell[0]))
    keys = tuple(spans(kept, cell[1]))
    size = f"{grouped(len(look.rows))} × {grouped(len(look.keys))} weights"
    note = f"{size}: each cell shows the largest of {cell[0]} × {cell[1]}, labelled by position."
    return rows, keys, tuple(map(tuple, values.tolist())), [note]


def pooled(look: Look, sink: Sinks, cells: int) -> tuple[Any, tuple[int, int]]:
    """The same without the hidden keys, a few rows at a time."""
    import torch
    import torch.nn.functional as F

    kept = len(sink.kept(len(look.keys)))
    tall, wide = -(-len(look.rows) // cells), -(-kept // cells)
    at_once = max(1, BAND // len(look.keys) // tall) * tall
    parts = []
    for first in range(0, len(look.rows), at_once):
        weights = sink.without(look.weights(rows=slice(first, first + at_once)))
        down, across = -len(weights) % tall, -weights.shape[1] % wide
        weights = F.pad(weights, (0, across, 0, down))
        parts.append(weights.view(len(weights) // tall, tall, -1, wide).amax(dim=(1, 3)))
    return torch.cat(parts), (tall, wide)


def spans(places: Sequence[int], size: int) -> Iterator[str]:
    """The label of each cell: the positions it holds."""
    for first in range(0, len(places), size):
        few = places[first : first + size]
        yield str(few[0]) if len(few) == 1 else f"{few[0]}–{few[-1]}"


def listed(rows: Any, keys: Any, values: Any, most: int = 4096) -> Iterator[tuple[str, str, float]]:
    """Every cell if there are few, else the strongest, strongest first."""
    cells = [
        (row, key, value)
        for row, across in zip(rows, values, strict=True)
        for key, value in zip(keys, across, strict=True)
        if value is not None
    ]
    yield from cells if len(cells) <= most else sorted(cells, key=lambda cell: -cell[2])[:most]
