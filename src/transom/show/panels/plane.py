"""Arrows and points on a plane: vectors as they are, or projected."""

import msgspec

from transom.show.canvas import Canvas, long
from transom.show.colours import CATEGORIES
from transom.show.numbers import decimals, ticks, written
from transom.show.visible import cells, clipped, padded, visible

SIZE = 420.0
LABEL = 26
KINDS = {"part": CATEGORIES[0], "whole": CATEGORIES[1], "stage": CATEGORIES[0], "landmark": "#57606a"}

Point = tuple[float, float]


class Vector(msgspec.Struct, frozen=True):
    """An arrow from one point to another; a `landmark` is a point alone. `number` stands beside its label."""

    label: str
    start: Point
    end: Point
    kind: str = "part"
    number: str = ""


class Plane(msgspec.Struct, frozen=True, tag="plane", kw_only=True):
    vectors: tuple[Vector, ...]
    across: str = "axis 1"
    up: str = "axis 2"
    title: str = ""
    digits: int = 2

    def lines(self, width: int, colour: bool) -> list[str]:
        """Every arrow with its ends, in order."""
        margin = max((cells(clipped(self.name(one), LABEL)) for one in self.vectors), default=1)
        found = [self.title] if self.title else []
        found.append(f"{padded('', margin)}  ({self.across}, {self.up})")
        for vector in self.vectors:
            way = "" if vector.kind == "landmark" else f"{self.told(vector.start)} → "
            sign = {"whole": "⇒ ", "landmark": "• "}.get(vector.kind, "→ ")
            found.append(f"{padded(self.name(vector), margin)}  {sign}{way}{self.told(vector.end)}")
        return found

    def name(self, vector: Vector) -> str:
        return f"{vector.number} {visible(vector.label)}".strip()

    def told(self, point: Point) -> str:
        return f"({written(point[0], self.digits)}, {written(point[1], self.digits)})"

    def drawn(self) -> Canvas:
        canvas = Canvas()
        if self.title:
            canvas.text(0, 13, visible(self.title), bold=True)
        points = [point for vector in self.vectors for point in (vector.start, vector.end)]
        marks = [ticks(*one, 5) for one in roomy(*(around([point[axis] for point in points]) for axis in (0, 1)))]
        left = max(long(written(one, decimals(marks[1])), 11) for one in marks[1]) + 10
        top = 44.0 if self.title else 22.0
        view = View(left, top, marks)
        self.axes(canvas, view)
        for vector in self.vectors:
            self.arrow(canvas, view, vector)
        spots: list[Point] = []
        for vector in self.vectors:
            self.label(canvas, view, vector, spots)
        return canvas

    def axes(self, canvas: Canvas, view: "View") -> None:
        right, bottom = view.x(view.marks[0][-1]), view.y(view.marks[1][0])
        for mark in view.marks[0]:
            canvas.line(view.x(mark), view.top, view.x(mark), bottom, "rule", 1.6 if mark == 0 else 0.7)
            canvas.text(
                view.x(mark), bottom + 16, written(mark, decimals(view.marks[0])), size=11, ink="faint", anchor="middle"
            )
        for mark in view.marks[1]:
            canvas.line(view.left, view.y(mark), right, view.y(mark), "rule", 1.6 if mark == 0 else 0.7)
            canvas.text(
                view.left - 6,
                view.y(mark) + 4,
                written(mark, decimals(view.marks[1])),
                size=11,
                ink="faint",
                anchor="end",
            )
        canvas.text(right, bottom + 33, f"{visible(self.across)} →", size=11, ink="faint", anchor="end")
        canvas.text(0, view.top - 9, f"{visible(self.up)} ↑", size=11, ink="faint")

    def arrow(self, canvas: Canvas, view: "View", vector: Vector) -> None:
        start, end = view.at(vector.start), view.at(vector.end)
        ink, tip = KINDS[vector.kind], f"{self.name(vector)}: {self.told(vector.start)} to {self.told(vector.end)}"
        if vector.kind == "landmark":
            canvas.circle(*end, 3.5, ink, tip=f"{self.name(vector)}: {self.told(vector.end)}")
        elif start == end:
            canvas.circle(*end, 2.5, ink, tip=tip)
        else:
            canvas.arrow(*start, *end, ink, 3.2 if vector.kind == "whole" else 2.2, tip)

    def label(self, canvas: Canvas, view: "View", vector: Vector, spots: list[Point]) -> None:
        """The name: of a place beside it, of a step beside its middle, and lower where another name is."""
        start, end = view.at(vector.start), view.at(vector.end)
        if vector.kind in {"part", "whole"}:
            end = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        x, y = end[0] + 8, end[1] - 6
        while any(abs(y - other[1]) < 14 and abs(x - other[0]) < 110 for other in spots):
            y += 7
        spots.append((x, y))
        canvas.text(x, y, clipped(self.name(vector), LABEL), size=12, bold=vector.kind == "whole", halo=True)


class View:
    """From numbers to places: one scale for both axes, so that lengths and angles are true."""

    def __init__(self, left: float, top: float, marks: list[list[float]]) -> None:
        self.left, self.top, self.marks = left, top, marks
        self.unit = SIZE / max(one[-1] - one[0] for one in marks)

    def at(self, point: Point) -> Point:
        return self.x(point[0]), self.y(point[1])

    def x(self, x: float) -> float:
        return self.left + self.unit * (x - self.marks[0][0])

    def y(self, y: float) -> float:
        return self.top + self.unit * (self.marks[1][-1] - y)


def around(values: list[float]) -> tuple[float, float]:
    """From the lowest to the highest, never of no length."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def roomy(across: Point, up: Point) -> tuple[Point, Point]:
    """Both spans, the shorter one at least a quarter of the longer: points on a line need room for their names."""
    least = 0.25 * max(across[1] - across[0], up[1] - up[0])
    return widened(across, least), widened(up, least)


def widened(span: Point, least: float) -> Point:
    missing = max(0.0, least - (span[1] - span[0])) / 2
    return span[0] - missing, span[1] + missing
