"""The steps of attention as matrices, and one row of them with its arithmetic."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from transom.names import Misfit, check_index
from transom.show.colours import fit_scale
from transom.show.formatting import format_percent, is_number, make_visible
from transom.show.lesson_sight import find_steps
from transom.show.panels.grid import MASKED, Grid
from transom.show.picture import Picture, Source, Table
from transom.show.selected_head import select_head

TOKENS, COLUMNS = 12, 8  # rows and keys, and numbers of a vector, that are drawn by default
KEYS = 16  # for one row: the keys with the largest weights
TERMS = 64  # of a sum that is written out
BY_KEY = ("scores", "scaled", "capped", "biased", "masked", "weights")  # steps with a column for each key
BEFORE_SCORES, AFTER_WEIGHTS = ("embedding", "Q"), ("sum", "joined", "output")
OF_KEYS = {"K", "V", "at_embedding"}  # steps with a row for each key


def steps(
    thing: Any,
    *,
    only: Iterable[str] | None = None,
    row: int | None = None,
    rows: Sequence[int] | None = None,
    digits: int = 4,
    tokens_shown: int = TOKENS,
    columns: int = COLUMNS,
    opens: bool = True,
    embedding: Any = None,
    parameters: Any = None,
    origin: Any = None,
    **selection: Any,
) -> Picture:
    """One head, step by step: Q, K, V, scores, scaled, masked, weights, weighted sum, and what a lesson has besides.

    thing           Steps or a lesson that has them, a Sight, or a Trace
    only            names of the steps to draw
    row             one token alone, its steps beside each other
    rows            the tokens to draw rows of; by default the first twelve
    columns         how many numbers of a vector are drawn; a note says what is left out
    embedding, parameters   what Q, K and V of a Sight were computed from, so that their cells open too
    origin          the same and W_O, as `find_origin` finds them: the steps go from the embedding to the output
    """
    computed_from = {"embedding": embedding, "parameters": parameters, "origin": origin}
    all_steps, source, title = read_steps(thing, computed_from, selection)
    if row is not None:
        return draw_row(all_steps, row, title, source, digits, columns)
    names = None if only is None else list(only)
    for name in names or ():
        all_steps[name]  # an unknown name raises an error that suggests the nearest
    notes, grids = list(all_steps.notes), []
    for step in all_steps:
        if names is None or step.name in names:
            indices, width, left_out = visible_part(step, rows, tokens_shown, columns)
            grid = step_grid(step, indices, width, digits, opens, name_head=len(all_steps.heads) > 1)
            grids.append(msgspec.structs.replace(grid, digits=fewest_decimals(grid, digits)))
            notes += left_out
    return Picture(
        view="steps",
        title=title,
        panels=tuple(grids),
        source=source,
        notes=(*dict.fromkeys(notes), *masked_notes(grids)),
        table=Table(
            ("step", "row", "column", "value"), tuple((grid.title, *cell) for grid in grids for cell in grid.cells())
        ),
    )


def read_steps(thing: Any, computed_from: dict[str, Any], selection: dict[str, Any]) -> tuple[Any, Source, str]:
    """The Steps of a Sight, a Trace or a lesson, their source, and their title."""
    from transom.lens import AttentionView, Trace
    from transom.lessons import steps_of

    if isinstance(thing, AttentionView | Trace):
        selected = select_head(thing, **selection)
        sight, batch, head = selected.sight, selected.batch, selected.head
        all_steps = steps_of(sight, batch, head, selected.rows, selected.keys, **computed_from)
        return all_steps, selected.source, f"Every step of {selected.title}"
    head = selection.pop("head", None)
    source = Source(model=selection.pop("model", ""), head="" if head is None else str(head))
    if selection:
        names = ", ".join(selection)
        raise Misfit(f"steps of a lesson are drawn as they are, so {names} cannot be chosen; leave it out")
    all_steps = find_steps(thing)
    if all_steps is None:
        raise Misfit(
            f"steps are drawn of Steps, a lesson, a Sight or a Trace, but got {type(thing).__name__};"
            " lessons.steps_of makes Steps"
        )
    return (all_steps if head is None else all_steps.select(head)), source, getattr(thing, "title", "Every step")


def draw_row(all_steps: Any, row: int, title: str, source: Source, digits: int, columns: int) -> Picture:
    """One token through all steps; short enough for a terminal."""
    row = check_index(row, "queries", len(all_steps.tokens))
    by_name = {step.name: step for step in all_steps}
    by_key = [by_name[name] for name in BY_KEY if name in by_name]
    before, after = ([by_name[name] for name in names if name in by_name] for names in (BEFORE_SCORES, AFTER_WEIGHTS))
    if "weights" not in by_name:
        raise Misfit("one row is drawn key by key, so it needs a step `weights`, but there is none; leave row out")
    weights = by_name["weights"].values[row]
    keys = sorted(sorted(range(len(weights)), key=lambda key: -weights[key])[:KEYS])
    panels = [step_grid(step, [row], columns, digits) for step in before]
    panels.append(key_grid(by_key, row, keys, digits))
    panels += [step_grid(step, [row], columns, digits) for step in after]
    widths = sorted({step.values.shape[1] for step in before + after if step.values.shape[1] > columns})
    notes = [*all_steps.notes, *(f"Of {width:,} numbers of a vector, {columns} are shown." for width in widths)]
    if len(keys) < len(weights):
        share = format_percent(float(weights[keys].sum()))
        notes.append(f"{len(keys)} of {len(weights):,} keys are shown; they got {share} of the weight.")
    table = []
    for step in by_key:
        table += [(step.name, all_steps.at_tokens[key], none_if_masked(step.values[row, key])) for key in keys]
    return Picture(
        view="steps",
        title=f"{title}, from “{make_visible(all_steps.tokens[row])}” (row {row})",
        panels=tuple(panels),
        source=source,
        notes=(*notes, *masked_notes(panels)),
        table=Table(("step", "at", "value"), tuple(table)),
    )


def visible_part(
    step: Any, rows: Sequence[int] | None, tokens_shown: int, columns: int
) -> tuple[Sequence[int], int, list[str]]:
    """The rows and how many columns of a step are drawn, and notes on what is left out."""
    height, width = step.values.shape
    by_key = step.name in BY_KEY
    shown, notes = min(width, tokens_shown if by_key else columns), []
    if shown < width:
        notes.append(f"Of {width} {'keys' if by_key else 'numbers of each vector'}, the first {shown} are drawn.")
    if rows is not None and step.name not in OF_KEYS:
        return [check_index(row, "queries", height) for row in rows], shown, notes
    if rows is None and tokens_shown < height:
        notes.append(f"Of {height} tokens, the first {tokens_shown} are drawn.")
    return range(min(height, tokens_shown)), shown, notes


def step_grid(
    step: Any, rows: Sequence[int], columns: int, digits: int, opens: bool = True, name_head: bool = False
) -> Grid:
    """Some rows of a step and its first columns."""
    labels = step.columns[:columns]
    values = tuple(tuple(none_if_masked(value) for value in step.values[row, :columns]) for row in rows)
    flat = [value for numbers in values for value in numbers]
    head = f" (head {step.head})" if name_head and step.head is not None else ""
    cells = [[step.cell(row, column) for column in range(len(labels))] for row in rows] if opens else []
    return Grid(
        rows=tuple(step.rows[row] for row in rows),
        columns=labels,
        values=values,
        heat=fit_scale(flat, top=1.0) if step.name == "weights" else fit_scale(flat, "diverging"),
        title=f"{step.name}{head}: {step.title}",
        equation=step.equation,
        down="from" if step.name in BY_KEY else "",
        across="at" if step.name in BY_KEY else "",
        digits=digits,
        opens=tuple(tuple(cell.to_text(digits, TERMS) for cell in row) for row in cells),
    )


def key_grid(steps: list[Any], row: int, keys: list[int], digits: int) -> Grid:
    """Every step that has a number for each key, side by side: keys downwards, steps across."""
    values = tuple(tuple(none_if_masked(step.values[row, key]) for step in steps) for key in keys)
    names = tuple(step.name for step in steps)
    return Grid(
        rows=tuple(steps[0].columns[key] for key in keys),
        columns=names,
        values=values,
        heat=fit_scale([value for numbers in values for value in numbers], "diverging"),
        title=f"key by key: {', '.join(names)}",
        down="at",
        across="step",
        digits=digits,
        opens=tuple(tuple(step.cell(row, key).to_text(digits, TERMS) for step in steps) for key in keys),
    )


def fewest_decimals(grid: Grid, most: int) -> int:
    """As few decimals as show the same numbers: none for whole numbers."""
    numbers = [value for row in grid.values for value in row if is_number(value)]
    return next((digits for digits in range(most) if all(round(number, digits) == number for number in numbers)), most)


def none_if_masked(value: Any) -> float | None:
    return None if value == -math.inf else float(value)


def masked_notes(grids: Iterable[Grid]) -> list[str]:
    return [MASKED] if any(None in row for grid in grids for row in grid.values) else []
