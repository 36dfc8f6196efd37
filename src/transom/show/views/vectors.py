"""Value vectors added head to tail: how a weighted sum comes about, as arrows."""

from typing import Any

from transom.names import Misfit
from transom.show.look import counted, looked
from transom.show.numbers import percent, written
from transom.show.panels import Plane, Vector
from transom.show.picture import Picture, Table
from transom.show.projection import projected
from transom.show.visible import visible

LEAST = 0.005  # a weight that is not printed as 0.00


def vectors(thing: Any, *, row: int = -1, most: int = 8, start: Any = None, **where: Any) -> Picture:
    """Each value times its weight as an arrow, head to tail, and the sum that the head gives; for one token, `row`.

    most    the strongest values are drawn one by one, the others as one arrow
    start   a vector to begin at, such as the token's own (a residual); unless given, the origin
    """
    import numpy as np

    if most < 1:
        raise Misfit(f"at least one value is drawn, but got most={most}; 8 is a good picture")
    look = looked(thing, **where)
    place = counted(row, "queries", len(look.rows))
    weights = look.weights(rows=place).cpu().numpy()
    V = look.values().cpu().numpy()
    begin = np.zeros(V.shape[1]) if start is None else np.asarray(start, dtype=np.float64)
    if begin.shape != (V.shape[1],):
        raise Misfit(
            f"start should be a vector of d_value={V.shape[1]} numbers, but has shape {begin.shape}; leave it out"
        )
    order = [int(key) for key in np.argsort(-weights, kind="stable") if weights[key] > 0]
    alone = [key for key in order[:most] if weights[key] >= LEAST] or order[:1]
    parts = [(look.keys[key], float(weights[key]), weights[key] * V[key]) for key in alone]
    rest = order[len(alone) :]
    if rest:
        parts.append((f"{len(rest)} more", float(weights[rest].sum()), weights[rest] @ V[rest]))
    corners = np.cumsum([begin, *(part for _, _, part in parts)], axis=0)
    flat = projected(np.concatenate([np.zeros((1, V.shape[1])), corners]), through_zero=True)
    points = flat.points[1:]
    arrows = [
        Vector(label, points[number], points[number + 1], "part", f"{written(weight, 2)} ×")
        for number, (label, weight, _) in enumerate(parts)
    ]
    arrows.append(Vector("sum" if start is None else "from start to sum", points[0], points[-1], "whole"))
    name = visible(look.rows[place])
    share = percent(float(weights[alone].sum()))
    shown = f"The {len(alone)} strongest of {len(order)} values stand alone: {share} of the weight."
    rows = tuple((label, weight, *map(float, part)) for label, weight, part in parts)
    return Picture(
        view="vectors",
        title=f"What “{name}” takes from the others, head to tail: {look.title}",
        panels=(Plane(vectors=tuple(arrows), across=flat.across, up=flat.up),),
        source=look.source,
        notes=(flat.note, *([shown] if rest else [])),
        table=Table(("value of", "weight", *(f"part {number + 1}" for number in range(V.shape[1]))), rows),
    )
