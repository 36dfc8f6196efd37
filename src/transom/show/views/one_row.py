"""The steps of one token alone: its query, then score and weight of every key side by side, then its sum."""

from typing import Any

from transom.show.look import counted
from transom.show.numbers import grouped, percent
from transom.show.panels import Grid, heat
from transom.show.panels.grid import MASKED
from transom.show.picture import Picture, Source, Table
from transom.show.visible import visible

KEYS = 16  # the keys with the largest weights, in the order of the text
VECTORS = ("embedding", "Q", "sum", "joined", "output")
BY_KEY = ("scores", "scaled", "capped", "biased", "masked", "weights")


def one_row(found: Any, row: int, title: str, source: Source, digits: int, columns: int) -> Picture:
    """One token's way through the steps; short enough for a terminal."""
    row = counted(row, "queries", len(found.tokens))
    steps = {step.name: step for step in found}
    by_key = [steps[name] for name in BY_KEY if name in steps]
    weights = steps["weights"].values[row]
    keys = sorted(sorted(range(len(weights)), key=lambda key: -weights[key])[:KEYS])
    panels = [vector(steps[name], row, columns, digits) for name in VECTORS[:2] if name in steps]
    panels.append(beside(by_key, row, keys, digits))
    panels += [vector(steps[name], row, columns, digits) for name in VECTORS[2:] if name in steps]
    notes = [*found.notes, *wide([steps[name] for name in VECTORS if name in steps], columns)]
    if len(keys) < len(weights):
        share = percent(float(weights[keys].sum()))
        notes.append(f"{len(keys)} of {grouped(len(weights))} keys are shown; they got {share} of the weight.")
    notes += [MASKED] if any(None in line for panel in panels for line in panel.values) else []
    rows = tuple((step.name, found.at_tokens[key], number(step.values[row, key])) for step in by_key for key in keys)
    return Picture(
        view="steps",
        title=f"{title}, from “{visible(found.tokens[row])}” (row {row})",
        panels=tuple(panels),
        source=source,
        notes=tuple(notes),
        table=Table(("step", "at", "value"), rows),
    )


def wide(steps: list[Any], columns: int) -> list[str]:
    """What of the vectors is not shown: one sentence for each width that is too wide."""
    widths = sorted({step.values.shape[1] for step in steps if step.values.shape[1] > columns})
    return [f"Of {grouped(width)} numbers of a vector, {columns} are shown." for width in widths]


def vector(step: Any, row: int, columns: int, digits: int) -> Grid:
    """The first numbers of one row of a step."""
    values = (tuple(number(value) for value in step.values[row, :columns]),)
    opens = (tuple(step.cell(row, j).written(digits, 64) for j in range(len(values[0]))),)
    return Grid(
        rows=(step.rows[row],),
        columns=step.columns[:columns],
        values=values,
        heat=heat(list(values[0]), "diverging"),
        title=f"{step.name}: {step.title}",
        equation=step.equation,
        down="",
        across="",
        digits=digits,
        opens=opens,
    )


def beside(steps: list[Any], row: int, keys: list[int], digits: int) -> Grid:
    """Every step that has a number for each key, side by side: keys downwards, steps across."""
    values = tuple(tuple(number(step.values[row, key]) for step in steps) for key in keys)
    return Grid(
        rows=tuple(steps[0].columns[key] for key in keys),
        columns=tuple(step.name for step in steps),
        values=values,
        heat=heat([value for line in values for value in line], "diverging"),
        title="key by key: " + ", ".join(step.name for step in steps),
        equation="",
        down="at",
        across="step",
        digits=digits,
        opens=tuple(tuple(step.cell(row, key).written(digits, 64) for step in steps) for key in keys),
    )


def number(value: Any) -> float | None:
    return None if value == float("-inf") else float(value)
