"""One head as a heat map, queries by keys; a long text is pooled, and the picture says so."""

from collections.abc import Iterator, Sequence
from typing import Any

from transom.show.colours import fit_scale
from transom.show.lesson_sight import StepsSight
from transom.show.panels.grid import MASKED, Grid, Values
from transom.show.picture import Picture, Table
from transom.show.selected_head import HiddenKeys, SelectedHead, hide_keys, select_head

EXACT = 48  # rows and keys that are drawn one by one
NUMBERED = 14  # columns that have room for their numbers
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
    influence: Any = None,
    **selection: Any,
) -> Picture:
    """One head of a Sight or Trace as a heat map, *from* downwards, *at* across.

    hide          keys left out, such as a sink: hide=[0]; `renormalise` divides each row by what is left of it
    scale         linear or log
    numbers       whether cells hold their numbers; by default, if there is room
    cells         the side of a pooled map; a text of more than 48 tokens is pooled
    influence     what transom.influence found: each edge's influence is drawn, instead of its weight
    """
    if influence is not None:
        return influence_matrix(thing, influence, hide, colours, numbers, cells, selection)
    selected = select_head(thing, **selection)
    hidden = hide_keys(selected, hide, renormalise)
    exact = max(len(selected.rows), len(selected.keys)) <= EXACT
    rows, keys, values, notes = full_cells(selected, hidden) if exact else pooled_cells(selected, hidden, cells)
    flat = [value for row in values for value in row]
    top = 1.0 if scale == "linear" and exact else None
    grid = Grid(
        rows=rows,
        columns=keys,
        values=values,
        heat=fit_scale(flat, colours, scale, top),
        numbers=exact and len(keys) <= NUMBERED if numbers is None else numbers,
        digits=2 if exact else 3,
    )
    log_note, masked_note = [LOG] if scale == "log" else [], [MASKED] if None in flat else []
    return Picture(
        view="matrix",
        title=f"Where {selected.title} looks",
        panels=(grid,),
        source=selected.source,
        notes=(*hidden.notes(selected), *notes, *log_note, *masked_note),
        table=Table(("from", "at", "weight"), list_cells(grid)),
    )


def influence_matrix(
    thing: Any,
    influence: Any,
    hide: Sequence[int] | int,
    colours: str,
    numbers: bool | None,
    cells: int,
    selection: dict[str, Any],
) -> Picture:
    """One head as a heat map of influence: in two colours if it has signs."""
    selected = select_head(thing, **selection)
    hidden = hide_keys(selected, hide, False)
    exact = max(len(selected.rows), len(selected.keys)) <= EXACT
    rows, keys = selected.rows, tuple(selected.keys[key] for key in hidden.visible)
    if exact:
        masked = selected.scores()[:, hidden.visible] == float("-inf")
        changes = influence.head_edges(selected.layer, selected.head)[:, hidden.visible].double()
        values = tuple(
            tuple(None if is_masked else change for change, is_masked in zip(row, mask, strict=True))
            for row, mask in zip(changes.tolist(), masked.tolist(), strict=True)
        )
        notes = [MASKED] if bool(masked.any()) else []
    else:
        changes, (tall, wide) = pool_influence(selected, hidden, influence, cells)
        rows, keys = tuple(span_labels(range(len(rows)), tall)), tuple(span_labels(hidden.visible, wide))
        values = tuple(map(tuple, changes.tolist()))
        notes = [f"Each cell shows the largest by size of {tall} × {wide} edges, labelled by position."]
    flat = [value for row in values for value in row]
    is_signed = any(value is not None and value < 0.0 for value in flat)
    grid = Grid(
        rows=rows,
        columns=keys,
        values=values,
        heat=fit_scale(flat, "diverging" if is_signed else colours),
        numbers=exact and len(keys) <= NUMBERED if numbers is None else numbers,
        digits=3,
    )
    return Picture(
        view="matrix",
        title=f"What mattered in {selected.title}",
        panels=(grid,),
        source=selected.source,
        notes=(influence_note(influence, is_signed), *hidden.notes(selected), *notes),
        table=Table(("from", "at", "influence"), list_cells(grid)),
    )


def pool_influence(
    selected: SelectedHead, hidden: HiddenKeys, influence: Any, cells: int
) -> tuple[Any, tuple[int, int]]:
    """The largest change by size of each cell, with its sign, and the rows and keys of a cell."""
    import torch
    import torch.nn.functional as F

    tall, wide = -(-len(selected.rows) // cells), -(-len(hidden.visible) // cells)
    pooled = []
    for block in selected.row_slices(len(selected.rows), tall):
        changes = influence.head_edges(selected.layer, selected.head, block)[:, hidden.visible].double()
        changes = F.pad(changes, (0, -changes.shape[1] % wide, 0, -len(changes) % tall))
        cut = changes.view(len(changes) // tall, tall, -1, wide)
        most, least = cut.amax(dim=(1, 3)), cut.amin(dim=(1, 3))
        pooled.append(torch.where(most >= -least, most, least))
    return torch.cat(pooled), (tall, wide)


def influence_note(influence: Any, is_signed: bool) -> str:
    """What the colours mean."""
    signs = " Orange is negative: the edge helped." if is_signed else ""
    return f"Influence, not weight: {influence.describe_unit()}.{signs}"


def full_cells(
    selected: SelectedHead, hidden: HiddenKeys
) -> tuple[tuple[str, ...], tuple[str, ...], Values, list[str]]:
    """Labels and every weight, None where masked."""
    weights, masked = hidden.drop_hidden(selected.weights()), selected.scores()[:, hidden.visible] == float("-inf")
    values = [
        tuple(None if is_masked else weight for weight, is_masked in zip(row, mask, strict=True))
        for row, mask in zip(weights.tolist(), masked.tolist(), strict=True)
    ]
    return selected.rows, tuple(selected.keys[key] for key in hidden.visible), tuple(values), []


def pooled_cells(
    selected: SelectedHead, hidden: HiddenKeys, cells: int
) -> tuple[tuple[str, ...], tuple[str, ...], Values, list[str]]:
    """Labels and at most cells × cells numbers, each the largest of its weights; and a note about it."""
    if hidden.hidden or isinstance(selected.sight, StepsSight):
        values, (tall, wide) = pool_visible(selected, hidden, cells)
    else:
        pooled = selected.sight.map(selected.head, cells=cells, batch=selected.batch)
        values, (tall, wide) = pooled.values, pooled.cell
    rows, keys = tuple(span_labels(range(len(selected.rows)), tall)), tuple(span_labels(hidden.visible, wide))
    size = f"{len(selected.rows):,} × {len(selected.keys):,} weights"
    note = f"{size}: each cell shows the largest of {tall} × {wide}, labelled by position."
    return rows, keys, tuple(map(tuple, values.tolist())), [note]


def pool_visible(selected: SelectedHead, hidden: HiddenKeys, cells: int) -> tuple[Any, tuple[int, int]]:
    """The pooled weights of the visible keys, and the rows and keys of a cell."""
    import torch
    import torch.nn.functional as F

    tall, wide = -(-len(selected.rows) // cells), -(-len(hidden.visible) // cells)
    pooled = []
    for block in selected.row_slices(len(selected.rows), tall):
        weights = hidden.drop_hidden(selected.weights(rows=block))
        weights = F.pad(weights, (0, -weights.shape[1] % wide, 0, -len(weights) % tall))
        pooled.append(weights.view(len(weights) // tall, tall, -1, wide).amax(dim=(1, 3)))
    return torch.cat(pooled), (tall, wide)


def span_labels(positions: Sequence[int], size: int) -> Iterator[str]:
    """The label of each cell: the positions it holds."""
    for first in range(0, len(positions), size):
        span = positions[first : first + size]
        yield str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}"


def list_cells(grid: Grid, most: int = 4096) -> tuple[tuple[str, str, float], ...]:
    """Every cell if there are few, otherwise the strongest, strongest first."""
    cells = [(row, key, weight) for row, key, weight in grid.cells() if weight is not None]
    return tuple(cells if len(cells) <= most else sorted(cells, key=lambda cell: -cell[2])[:most])
