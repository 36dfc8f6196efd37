"""Long vectors on a flat page: the plane that keeps most of them, and what it loses, said."""

from dataclasses import dataclass
from typing import Any

from transom.show.numbers import percent


@dataclass(frozen=True)
class Projection:
    """Points (number, 2) on a plane, the names of its axes, and a note on what is not seen."""

    points: list[tuple[float, float]]
    across: str
    up: str
    note: str


def projected(vectors: Any, through_zero: bool) -> Projection:
    """Vectors of any width on a plane.

    Two numbers are drawn as they are. Of more, the two directions along which they are spread most (singular
    vectors) are kept; `through_zero` measures spread from the origin, as sums of vectors need it, else from the mean.
    """
    import numpy as np

    x = np.asarray(vectors, dtype=np.float64)
    if x.shape[1] == 1:
        x = np.pad(x, ((0, 0), (0, 1)))
        return Projection(pairs(x), "number 1", "nothing", "The vectors have one number each: they lie on a line.")
    if x.shape[1] == 2:
        return Projection(pairs(x), "number 1", "number 2", "The vectors have two numbers each: nothing is lost.")
    centred = x if through_zero else x - x.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    directions = directions * signs[:, None]  # the largest part of each direction points forwards: the same every time
    flat = centred @ directions[:2].T
    if flat.shape[1] == 1:
        flat = np.pad(flat, ((0, 0), (0, 1)))
    total = float((sizes**2).sum()) or 1.0
    shares = [float(size**2) / total for size in sizes[:2]] + [0.0]
    lost = 1.0 - sum(shares)
    origin = "from the origin" if through_zero else "from their mean"
    note = (
        f"A projection of {x.shape[1]} numbers onto the two directions that hold most: {percent(sum(shares))} of the"
        f" squared length {origin} is seen, {percent(max(0.0, lost))} is lost."
    )
    return Projection(pairs(flat), f"direction 1 ({percent(shares[0])})", f"direction 2 ({percent(shares[1])})", note)


def pairs(flat: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in flat[:, :2]]
