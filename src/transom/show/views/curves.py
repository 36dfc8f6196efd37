"""Curves over the steps of training: losses and other numbers, one beside the other."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from transom.names import Misfit
from transom.show.panels import Curve, Curves
from transom.show.picture import Picture, Source, Table
from transom.show.visible import visible
from transom.show.worked import steps_in

POINTS = 2000  # of one curve; more are thinned out


def curves(
    thing: Any,
    *,
    step: str | None = None,
    title: str = "",
    across: str = "step",
    up: str = "loss",
    log: bool = False,
    log_across: bool = False,
    digits: int = 3,
    notes: Sequence[str] = (),
    model: str = "",
) -> Picture:
    """One or more curves: {label: [(step, value), …]}, or one list alone; `log` and `log_across` for log scales.

    Of a lesson: the rows of one of its tables, by the name of its `step`; unless given, the last.
    """
    steps = steps_in(thing)
    if steps is not None:
        table = list(steps)[-1] if step is None else steps[step]
        named, title = tabled(table), title or table.title
    else:
        named = dict(thing) if isinstance(thing, Mapping) else {up: thing}
    if not named:
        raise Misfit("there should be a curve to draw, but none came; give {label: [(step, value), …]}")
    found = [Curve(label, tuple(checked(label, points, log, log_across))) for label, points in named.items()]
    thinned = [Curve(curve.label, thin(curve.points)) for curve in found]
    said = [
        f"Of the {len(whole.points):,} points of “{visible(whole.label)}”, {len(few.points):,} are drawn, evenly."
        for whole, few in zip(found, thinned, strict=True)
        if len(few.points) < len(whole.points)
    ]
    panel = Curves(curves=tuple(thinned), across=across, up=up, digits=digits, log=log, log_across=log_across)
    rows = tuple((curve.label, x, y) for curve in thinned for x, y in curve.points)
    return Picture(
        view="curves",
        title=title or "Loss",
        panels=(panel,),
        source=Source(model=model),
        notes=(*notes, *said),
        table=Table(("curve", across, up), rows),
    )


def tabled(table: Any) -> dict[str, list[tuple[float, float]]]:
    """Each row of a table as a curve: along the numbers in the labels of its columns, or else their places."""
    found = [re.search(r"-?\d+(?:\.\d+)?", label) for label in table.columns]
    xs = [float(one[0]) for one in found if one] if all(found) else list(range(len(found)))
    return {
        label: list(zip(xs, row.tolist(), strict=True)) for label, row in zip(table.rows, table.values, strict=True)
    }


def checked(label: str, points: Any, log: bool, log_across: bool = False) -> list[tuple[float, float]]:
    """The points in order, every number one that can be drawn."""
    try:
        found = [(float(x), float(y)) for x, y in points]
    except (TypeError, ValueError) as error:
        raise Misfit(
            f"the curve {label!r} should have points (step, value), but it is of the kind"
            f" {type(points).__name__} and has none; give [(step, value), …]"
        ) from error
    if not found:
        raise Misfit(
            f"the curve {label!r} should have points, but it has none; leave it out, or give [(step, value), …]"
        )
    for x, y in found:
        if not (math.isfinite(x) and math.isfinite(y)):
            raise Misfit(
                f"the curve {label!r} has the point ({x:g}, {y:g}), which cannot be drawn; leave it out, with a note"
            )
        if log and y <= 0:
            raise Misfit(f"a log scale holds numbers above 0, but the curve {label!r} has {y:g}; leave log out")
        if log_across and x <= 0:
            raise Misfit(
                f"a log scale holds numbers above 0, but the curve {label!r} has a point at {x:g}; leave log_across out"
            )
    return sorted(found)


def thin(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    if len(points) <= POINTS:
        return points
    return tuple(points[round(number * (len(points) - 1) / (POINTS - 1))] for number in range(POINTS))
