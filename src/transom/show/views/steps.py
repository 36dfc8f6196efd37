"""Every step of one head with its numbers; on a page, any cell opens its arithmetic."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from transom.names import Misfit
from transom.show.look import looked
from transom.show.numbers import finite
from transom.show.panels import Grid, heat
from transom.show.panels.grid import MASKED
from transom.show.picture import Picture, Source, Table
from transom.show.views.one_row import one_row
from transom.show.worked import steps_in

TOKENS, WIDE = 12, 8  # rows, and columns that are no tokens, that are drawn
TERMS = 64  # of a sum that is written out
BY_KEY = {"scores", "scaled", "capped", "biased", "masked", "weights"}


def steps(
    thing: Any,
    *,
    only: Iterable[str] | None = None,
    row: int | None = None,
    rows: Sequence[int] | None = None,
    digits: int = 4,
    tokens_shown: int = TOKENS,
    columns: int = WIDE,
    opens: bool = True,
    embedding: Any = None,
    parameters: Any = None,
    origin: Any = None,
    **where: Any,
) -> Picture:
    """One head, step by step: Q, K, V, scores, scaled, masked, weights, weighted sum, and what a lesson has besides.

    thing           Steps or a lesson that has them, a Sight, or a Trace
    only            names of the steps to draw
    row             one token alone, its steps beside each other
    rows            the tokens to draw rows of; unless given, the first twelve
    columns         how many numbers of a vector are drawn; the note says what is left out
    embedding, parameters   what Q, K and V of a Sight were made from, so that their cells open too
    origin          the same and W_O, as `lens.asking.origin` finds them: the steps go from the embedding to the output
    """
    given = {"embedding": embedding, "parameters": parameters, "origin": origin}
    found, source, title = worked(thing, given, where)
    if row is not None:
        return one_row(found, row, title, source, digits, columns)
    wanted = None if only is None else list(only)
    for name in wanted or ():
        found[name]  # an unknown name is told with the nearest
    notes = list(found.notes)
    grids = [
        drawn(step, Window(rows, tokens_shown, columns, digits, opens), notes, len(found.heads) < 2)
        for step in found
        if wanted is None or step.name in wanted
    ]
    if any(None in row for grid in grids for row in grid.values):
        notes.append(MASKED)
    table = Table(("step", "row", "column", "value"), tuple(cell for grid in grids for cell in listed(grid)))
    return Picture(
        view="steps", title=title, panels=tuple(grids), source=source, notes=tuple(dict.fromkeys(notes)), table=table
    )


class Window:
    """What of each step is drawn."""

    def __init__(self, rows: Sequence[int] | None, tokens: int, columns: int, digits: int, opens: bool) -> None:
        self.asked, self.tokens, self.columns, self.digits, self.opens = rows, tokens, columns, digits, opens

    def rows(self, size: int, keyed: bool) -> list[int]:
        if self.asked is None or keyed:
            return list(range(min(size, self.tokens)))
        for row in self.asked:
            if not -size <= row < size:
                raise Misfit(f"there are rows 0 to {size - 1}, so {row} is none of them; count from 0, or back from -1")
        return [row % size for row in self.asked]


def worked(thing: Any, given: dict[str, Any], where: dict[str, Any]) -> tuple[Any, Source, str]:
    """The steps of what came, where they come from, and their title."""
    from transom.lens import Sight, Trace
    from transom.lessons import steps_of

    if isinstance(thing, Sight | Trace):
        look = looked(thing, **where)
        found = steps_of(look.sight, look.batch, look.head, look.rows, look.keys, **given)
        return found, look.source, f"Every step of {look.title}"
    head = where.pop("head", None)
    source = Source(model=where.pop("model", ""), head="" if head is None else str(head))
    if where:
        raise Misfit(f"steps of a lesson are drawn as they are, so {', '.join(where)} cannot be chosen; leave it out")
    steps = steps_in(thing)
    if steps is None:
        raise Misfit(
            f"steps are drawn of Steps, a lesson, a Sight or a Trace, but got {type(thing).__name__};"
            " lessons.steps_of makes Steps"
        )
    return (steps if head is None else steps.narrowed(head)), source, getattr(thing, "title", "Every step")


def drawn(step: Any, window: Window, notes: list[str], alone: bool) -> Grid:
    """One step as a grid: the rows and columns asked for."""
    values = step.values
    by_key = step.name in BY_KEY
    rows = window.rows(values.shape[0], step.name in {"K", "V", "at_embedding"})
    most = window.tokens if by_key else window.columns
    columns = list(range(min(values.shape[1], most)))
    if len(columns) < values.shape[1]:
        what = "keys" if by_key else "numbers of each vector"
        notes.append(f"Of {values.shape[1]} {what}, the first {len(columns)} are drawn.")
    if len(rows) < values.shape[0] and window.asked is None:
        notes.append(f"Of {values.shape[0]} tokens, the first {len(rows)} are drawn.")
    cells = tuple(tuple(number(float(values[i, j])) for j in columns) for i in rows)
    flat = [cell for row in cells for cell in row]
    opens = (
        tuple(tuple(step.cell(i, j).written(window.digits, TERMS) for j in columns) for i in rows)
        if window.opens
        else ()
    )
    head = "" if step.head is None or alone else f" (head {step.head})"
    return Grid(
        rows=tuple(step.rows[i] for i in rows),
        columns=tuple(step.columns[j] for j in columns),
        values=cells,
        heat=heat(flat, top=1.0) if step.name == "weights" else heat(flat, "diverging"),
        title=f"{step.name}{head}: {step.title}",
        equation=step.equation,
        down="from" if by_key else "",
        across="at" if by_key else "",
        digits=fitting(flat, window.digits),
        opens=opens,
    )


def fitting(values: list[float | None], most: int) -> int:
    """As few decimals as say the same: none for whole numbers."""
    there = finite(values)
    return next((digits for digits in range(most) if all(round(one, digits) == one for one in there)), most)


def number(value: float) -> float | None:
    return None if value == -math.inf else value


def listed(grid: Grid) -> Iterable[tuple[str, str, str, float | None]]:
    for row, values in zip(grid.rows, grid.values, strict=True):
        for column, value in zip(grid.columns, values, strict=True):
            yield grid.title, row, column, value
