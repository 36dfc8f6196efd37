"""A weighted sum as arrows: value vectors times their weights, added head to tail."""

from typing import Any

from transom.files.strict_settings import check_at_least
from transom.names import Misfit, check_index
from transom.show.formatting import format_percent, make_visible, to_fixed
from transom.show.panels.plane import Plane, PlaneVector, project_to_plane
from transom.show.picture import Picture, Table
from transom.show.selected_head import select_head

LEAST = 0.005  # a smaller weight would be printed as 0.00


def vectors(thing: Any, *, row: int = -1, most: int = 8, start: Any = None, **selection: Any) -> Picture:
    """Each value times its weight as an arrow, head to tail, and their sum; for one token, `row`.

    most    the strongest values are drawn one by one, the others as one arrow
    start   a vector to begin at, such as the token's own (a residual); by default the origin
    """
    import numpy as np

    check_at_least(1, most=most)
    selected = select_head(thing, **selection)
    row = check_index(row, "queries", len(selected.rows))
    weights = selected.weights(rows=row).cpu().numpy()
    V = selected.values().cpu().numpy()
    origin = np.zeros(V.shape[1]) if start is None else np.asarray(start, dtype=np.float64)
    if origin.shape != (V.shape[1],):
        raise Misfit(
            f"start should be a vector of d_value={V.shape[1]} numbers, but has shape {origin.shape}; leave it out"
        )
    order = [int(key) for key in np.argsort(-weights, kind="stable") if weights[key] > 0]
    single = [key for key in order[:most] if weights[key] >= LEAST] or order[:1]
    parts = [(selected.keys[key], float(weights[key]), weights[key] * V[key]) for key in single]
    others, notes = order[len(single) :], []
    if others:
        parts.append((f"{len(others)} more", float(weights[others].sum()), weights[others] @ V[others]))
        share = format_percent(float(weights[single].sum()))
        notes.append(f"The {len(single)} strongest of {len(order)} values are drawn one by one: {share} of the weight.")
    corners = np.cumsum([origin, *(vector for _, _, vector in parts)], axis=0)
    flat = project_to_plane(np.concatenate([np.zeros((1, V.shape[1])), corners]), through_zero=True)
    points = flat.points[1:]
    arrows = [
        PlaneVector(label, points[index], points[index + 1], "part", f"{to_fixed(weight, 2)} ×")
        for index, (label, weight, _) in enumerate(parts)
    ]
    arrows.append(PlaneVector("sum" if start is None else "from start to sum", points[0], points[-1], "whole"))
    columns = ("value of", "weight", *(f"part {number + 1}" for number in range(V.shape[1])))
    return Picture(
        view="vectors",
        title=f"What “{make_visible(selected.rows[row])}” takes from the others, head to tail: {selected.title}",
        panels=(Plane(vectors=tuple(arrows), across=flat.across, up=flat.up),),
        source=selected.source,
        notes=(flat.note, *notes),
        table=Table(columns, tuple((label, weight, *map(float, vector)) for label, weight, vector in parts)),
    )
