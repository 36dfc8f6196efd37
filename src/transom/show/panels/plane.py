"""Vectors in a plane, and the projection of longer vectors onto it."""

from typing import Any, NamedTuple

import msgspec

from transom.names import Misfit
from transom.show.colours import CATEGORIES
from transom.show.formatting import clip, display_width, format_percent, make_visible, pad, to_fixed
from transom.show.panels.charts import PlotFrame, tick_labels, ticks
from transom.show.svg_canvas import SvgCanvas, widest

SIZE = 420.0
LABEL = 26
KINDS = {"part": CATEGORIES[0], "whole": CATEGORIES[1], "stage": CATEGORIES[0], "landmark": "#57606a"}

Point = tuple[float, float]


class PlaneVector(msgspec.Struct, frozen=True):
    """An arrow from one point to another; a `landmark` is only a point. `number` is written before the label."""

    label: str
    start: Point
    end: Point
    kind: str = "part"
    number: str = ""


class Plane(msgspec.Struct, frozen=True, tag="plane", kw_only=True):
    vectors: tuple[PlaneVector, ...]
    across: str = "axis 1"
    up: str = "axis 2"
    title: str = ""
    digits: int = 2

    def lines(self, width: int, colour: bool) -> list[str]:
        """Every arrow with its ends, in order."""
        margin = max((display_width(clip(vector_name(vector), LABEL)) for vector in self.vectors), default=1)
        lines = [self.title] if self.title else []
        lines.append(f"{pad('', margin)}  ({self.across}, {self.up})")
        for vector in self.vectors:
            start = "" if vector.kind == "landmark" else f"{self.point_label(vector.start)} → "
            marker = {"whole": "⇒ ", "landmark": "• "}.get(vector.kind, "→ ")
            lines.append(f"{pad(vector_name(vector), margin)}  {marker}{start}{self.point_label(vector.end)}")
        return lines

    def point_label(self, point: Point) -> str:
        return f"({to_fixed(point[0], self.digits)}, {to_fixed(point[1], self.digits)})"

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.title)
        points = [point for vector in self.vectors for point in (vector.start, vector.end)]
        spans = [value_range([point[axis] for point in points]) for axis in (0, 1)]
        least = 0.12 * max(high - low for low, high in spans)  # points on a line need room for their names
        spans = [widen_range(span, least) for span in spans]
        longest = max(high - low for low, high in spans)
        # As many ticks as there is room for: a path along a line needs two upwards.
        across, up = (ticks(*span, max(2, round(5 * (span[1] - span[0]) / longest))) for span in spans)
        unit = SIZE / max(marks[-1] - marks[0] for marks in (across, up))  # of both axes: lengths and angles are true
        left, top = widest(tick_labels(up), 11) + 10, 44.0 if self.title else 22.0
        size = (unit * (across[-1] - across[0]), unit * (up[-1] - up[0]))
        frame = PlotFrame(left, top, size, across, up)
        self.draw_axes(canvas, frame, across, up)
        for vector in self.vectors:
            self.draw_vector(canvas, frame, vector)
        taken: list[Point] = []
        for vector in self.vectors:
            draw_name(canvas, frame, vector, taken)
        return canvas

    def draw_axes(self, canvas: SvgCanvas, frame: PlotFrame, across: list[float], up: list[float]) -> None:
        right, bottom = frame.left + frame.width, frame.top + frame.height
        for mark, label in zip(across, tick_labels(across), strict=True):
            x = frame.x(mark)
            canvas.line(x, frame.top, x, bottom, width=1.6 if mark == 0 else 0.7)
            canvas.small_text(x, bottom + 16, label, "middle")
        for mark, label in zip(up, tick_labels(up), strict=True):
            frame.draw_up_tick(canvas, mark, label, 1.6 if mark == 0 else 0.7)
        canvas.small_text(right, bottom + 33, f"{make_visible(self.across)} →", "end")
        canvas.small_text(0, frame.top - 9, f"{make_visible(self.up)} ↑")

    def draw_vector(self, canvas: SvgCanvas, frame: PlotFrame, vector: PlaneVector) -> None:
        (x, y), (x2, y2) = ((frame.x(point[0]), frame.y(point[1])) for point in (vector.start, vector.end))
        ink, end = KINDS[vector.kind], self.point_label(vector.end)
        tip = f"{vector_name(vector)}: {self.point_label(vector.start)} to {end}"
        if vector.kind == "landmark":
            canvas.circle(x2, y2, 3.5, ink, tip=f"{vector_name(vector)}: {end}")
        elif (x, y) == (x2, y2):
            canvas.circle(x2, y2, 2.5, ink, tip=tip)
        else:
            canvas.arrow(x, y, x2, y2, ink, 3.2 if vector.kind == "whole" else 2.2, tip)


def vector_name(vector: PlaneVector) -> str:
    return f"{vector.number} {make_visible(vector.label)}".strip()


def draw_name(canvas: SvgCanvas, frame: PlotFrame, vector: PlaneVector, taken: list[Point]) -> None:
    """The name beside the end, or beside the middle of an arrow of a sum; lower if another name is there."""
    x, y = frame.x(vector.end[0]), frame.y(vector.end[1])
    if vector.kind in {"part", "whole"}:
        x, y = (frame.x(vector.start[0]) + x) / 2, (frame.y(vector.start[1]) + y) / 2
    x, y = x + 8, y - 6
    while any(abs(y - other_y) < 14 and abs(x - other_x) < 110 for other_x, other_y in taken):
        y += 7
    taken.append((x, y))
    canvas.text(x, y, clip(vector_name(vector), LABEL), size=12, bold=vector.kind == "whole", halo=True)


def value_range(values: list[float]) -> Point:
    """The lowest and the highest number, never the same."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return (low, high) if high - low > 1e-9 else (low - 1e-9, high + 1e-9)


def widen_range(span: Point, least: float) -> Point:
    missing = max(0.0, least - (span[1] - span[0])) / 2
    return span[0] - missing, span[1] + missing


class PlaneProjection(NamedTuple):
    """Points on a plane, the names of its axes, and a note on what is lost."""

    points: list[Point]
    across: str
    up: str
    note: str


def project_to_plane(vectors: Any, through_zero: bool) -> PlaneProjection:
    """Vectors of any width on a plane.

    Vectors of two numbers are drawn as they are. Longer ones are projected onto the two directions in which they
    spread most (singular vectors): from the origin with `through_zero`, as sums of vectors need it, else from the mean.
    """
    import numpy as np

    x = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(x).all():
        raise Misfit("a plane needs finite vectors, but some have NaN or infinite numbers; choose another row or head")
    if x.shape[1] == 1:
        note = "The vectors have one number each: they lie on a line."
        return PlaneProjection(to_points(x), "number 1", "nothing", note)
    if x.shape[1] == 2:
        note = "The vectors have two numbers each: nothing is lost."
        return PlaneProjection(to_points(x), "number 1", "number 2", note)
    centred = x if through_zero else x - x.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    directions = directions * signs[:, None]  # the largest number of each is positive: the same drawing every time
    total = float((sizes**2).sum()) or 1.0
    shares = [float(size**2) / total for size in sizes[:2]] + [0.0]
    lost = max(0.0, 1.0 - sum(shares))
    origin = "from the origin" if through_zero else "from their mean"
    note = (
        f"A projection of {x.shape[1]} numbers onto the two directions that hold most: {format_percent(sum(shares))}"
        f" of the squared length {origin} is seen, {format_percent(lost)} is lost."
    )
    across, up = (f"direction {axis + 1} ({format_percent(shares[axis])})" for axis in (0, 1))
    return PlaneProjection(to_points(centred @ directions[:2].T), across, up, note)


def to_points(matrix: Any) -> list[Point]:
    """The first two numbers of each row; if there is only one, the second is 0."""
    return [(float(row[0]), float(row[1]) if len(row) > 1 else 0.0) for row in matrix]
