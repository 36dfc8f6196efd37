"""Training curves: losses and other numbers over updates, side by side."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from transom.names import Misfit
from transom.show.formatting import make_visible
from transom.show.lesson_sight import find_steps
from transom.show.panels.charts import Curve, Curves
from transom.show.picture import Picture, Source, Table

POINTS = 2000  # of one curve; more are thinned out
Points = list[tuple[float, float]]


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

    Of a lesson: the rows of one of its tables, by the name of its `step`; by default the last.
    """
    steps = find_steps(thing)
    if steps is not None:
        table = list(steps)[-1] if step is None else steps[step]
        points_by_label, title = curves_from_table(table), title or table.title
    else:
        points_by_label = dict(thing) if isinstance(thing, Mapping) else {up: thing}
    if not points_by_label:
        raise Misfit("at least one curve is needed, but none came; give {label: [(step, value), …]}")
    drawn, left_out = [], []
    for label, points in points_by_label.items():
        points = check_points(label, points, log, log_across)
        thinned = thin(points)
        drawn.append(Curve(label, tuple(thinned)))
        if len(thinned) < len(points):
            name = make_visible(label)
            left_out.append(f"Of the {len(points):,} points of “{name}”, {len(thinned):,} are drawn, evenly.")
    panel = Curves(curves=tuple(drawn), across=across, up=up, digits=digits, log=log, log_across=log_across)
    return Picture(
        view="curves",
        title=title or "Loss",
        panels=(panel,),
        source=Source(model=model),
        notes=(*notes, *left_out),
        table=Table(("curve", across, up), tuple((curve.label, x, y) for curve in drawn for x, y in curve.points)),
    )


def curves_from_table(table: Any) -> dict[str, Points]:
    """Each row of a table as a curve; x is the number in the label of a column, or else the column's index."""
    matches = [re.search(r"-?\d+(?:\.\d+)?", label) for label in table.columns]
    xs = [float(match[0]) for match in matches if match] if all(matches) else range(len(matches))
    return {
        label: list(zip(xs, row.tolist(), strict=True)) for label, row in zip(table.rows, table.values, strict=True)
    }


def check_points(label: str, points: Any, log: bool, log_across: bool) -> Points:
    """The points in the order of x, if all of them can be drawn."""
    try:
        checked = [(float(x), float(y)) for x, y in points]
    except (TypeError, ValueError) as error:
        raise Misfit(
            f"the curve {label!r} should be a list of points, but got {type(points).__name__}; give [(step, value), …]"
        ) from error
    if not checked:
        raise Misfit(
            f"the curve {label!r} should have points, but it has none; leave it out, or give [(step, value), …]"
        )
    for x, y in checked:
        if not (math.isfinite(x) and math.isfinite(y)):
            raise Misfit(f"the curve {label!r} has the point ({x:g}, {y:g}), which cannot be drawn; leave it out")
        option = "log" if log and y <= 0 else "log_across" if log_across and x <= 0 else None
        if option:
            raise Misfit(
                f"a log scale holds numbers above 0, but the curve {label!r} has the point ({x:g}, {y:g});"
                f" leave {option} out"
            )
    return sorted(checked)


def thin(points: Points) -> Points:
    """At most so many of the points, evenly spaced."""
    if len(points) <= POINTS:
        return points
    return [points[round(number * (len(points) - 1) / (POINTS - 1))] for number in range(POINTS)]
