"""Curves: one or more lists of (x, y), told apart by colour, dashes and their names."""

import math

import msgspec

from transom.show.canvas import Canvas, long, short
from transom.show.colours import CATEGORIES, inked
from transom.show.numbers import decimals, ticks, written
from transom.show.visible import cells, clipped, padded, visible

WIDE, TALL = 560.0, 280.0
DASHES = ("", "7 4", "2 3", "10 3 2 3", "5 2", "1 3", "12 4")
SIGNS = "●▲■◆○△□"
LABEL = 30
FEW = 8  # places across that are each marked on a log scale; of more, the powers of ten are


class Curve(msgspec.Struct, frozen=True):
    label: str
    points: tuple[tuple[float, float], ...]


class Curves(msgspec.Struct, frozen=True, tag="curves", kw_only=True):
    curves: tuple[Curve, ...]
    across: str = "step"
    up: str = "loss"
    title: str = ""
    digits: int = 3
    log: bool = False
    log_across: bool = False

    def span(self) -> tuple[float, float, float, float]:
        xs, ys = zip(*(point for curve in self.curves for point in curve.points), strict=True)
        return min(xs), max(xs), min(ys), max(ys)

    def height(self, y: float) -> float:
        return math.log10(y) if self.log else y

    def place(self, x: float) -> float:
        return math.log10(x) if self.log_across else x

    def marks(self) -> tuple[list[float], list[float]]:
        """Ticks across and upwards."""
        _, _, low, high = self.span()
        low, high = self.height(low), self.height(high)
        if self.log:
            return self.marks_across(), decades(low, high)
        return self.marks_across(), ticks(low, high if high > low else low + 1.0)

    def marks_across(self) -> list[float]:
        left, right = (self.place(x) for x in self.span()[:2])
        if not self.log_across:
            return ticks(left, right)
        found = sorted({self.place(x) for curve in self.curves for x, _ in curve.points})
        return found if 1 < len(found) <= FEW else decades(left, right)

    def lines(self, width: int, colour: bool) -> list[str]:
        across, up = self.marks()
        room = cells(self.across) + (12 if self.log_across else 0)
        wide, tall = max(10, min(72, width - 14 - room)), 12
        page = [[" "] * wide for _ in range(tall)]
        for number, curve in enumerate(self.curves):
            sign = SIGNS[number % len(SIGNS)]
            sign = inked(sign, rgb_of(CATEGORIES[number % len(CATEGORIES)])) if colour else sign
            for x, y in curve.points:
                column = round((self.place(x) - across[0]) / ((across[-1] - across[0]) or 1) * (wide - 1))
                row = round((up[-1] - self.height(y)) / ((up[-1] - up[0]) or 1) * (tall - 1))
                page[row][column] = sign
        found = [self.title] if self.title else []
        top, bottom = (self.mark(up, one) for one in (up[-1], up[0]))
        for row, signs in enumerate(page):
            label = top if row == 0 else bottom if row == tall - 1 else ""
            found.append(f"{label:>9} │{''.join(signs)}".rstrip())
        first, last = (self.said_across(across, one) for one in (across[0], across[-1]))
        scale = " (log scale)" if self.log_across else ""
        found.append(f"{'':>10}└{first}{last:>{max(1, wide - len(first))}}  {self.across}{scale}")
        return found + [self.summary(number, curve) for number, curve in enumerate(self.curves)]

    def mark(self, marks: list[float], mark: float) -> str:
        return f"{10**mark:g}" if self.log else written(mark, decimals(marks))

    def said_across(self, marks: list[float], mark: float) -> str:
        return f"{10**mark:,.10g}" if self.log_across else written(mark, decimals(marks))

    def said(self, y: float) -> str:
        """A value to so many decimals; one that would be printed as 0 and is not, by its power of ten."""
        small = y != 0 and abs(y) < 0.5 * 10.0**-self.digits
        return f"{y:.1e}".replace("-", "−") if small else written(y, self.digits)

    def summary(self, number: int, curve: Curve) -> str:
        first, last = curve.points[0], curve.points[-1]
        lowest = min(curve.points, key=lambda point: point[1])
        begins, low, ends = (f"{self.said(y)} at {x:g}" for x, y in (first, lowest, last))
        widest = min(24, max(cells(visible(one.label)) for one in self.curves))
        name = f"{SIGNS[number % len(SIGNS)]} {padded(visible(curve.label), widest)}"
        return f"{name}  first {begins}, lowest {low}, last {ends}"

    def drawn(self) -> Canvas:
        canvas = Canvas()
        if self.title:
            canvas.text(0, 13, visible(self.title), bold=True)
        across, up = self.marks()
        left = max(long(self.mark(up, one), 11) for one in up) + 10
        top = 44.0 if self.title else 22.0
        frame = Frame(left, top, across, up)
        canvas.text(0, top - 9, f"{visible(self.up)} ↑{' (log scale)' if self.log else ''}", size=11, ink="faint")
        for mark in up:
            y = frame.y(mark)
            canvas.line(left, y, left + WIDE, y)
            canvas.text(left - 6, y + 4, self.mark(up, mark), size=11, ink="faint", anchor="end")
        for mark in across:
            canvas.text(frame.x(mark), top + TALL + 16, self.drawn_across(mark), size=11, ink="faint", anchor="middle")
        scale = " (log scale)" if self.log_across else ""
        canvas.text(
            left + WIDE, top + TALL + 33, f"{visible(self.across)} →{scale}", size=11, ink="faint", anchor="end"
        )
        for number, curve in enumerate(self.curves):
            self.curve(canvas, frame, number, curve)
        self.names(canvas, frame)
        return canvas

    def drawn_across(self, mark: float) -> str:
        return f"{10**mark if self.log_across else mark:,.10g}"

    def curve(self, canvas: Canvas, frame: "Frame", number: int, curve: Curve) -> None:
        places = [(frame.x(self.place(x)), frame.y(self.height(y))) for x, y in curve.points]
        ink = CATEGORIES[number % len(CATEGORIES)]
        d = "M" + "L".join(f"{short(x)} {short(y)}" for x, y in places)
        canvas.path(d, ink, 2, dash=DASHES[number % len(DASHES)], tip=self.summary(number, curve)[2:])
        if len(places) == 1:
            canvas.circle(*places[0], 3, ink, tip=visible(curve.label))

    def names(self, canvas: Canvas, frame: "Frame") -> None:
        """The names at the right, each as near to the end of its curve as the others leave room for."""
        ends = sorted((frame.y(self.height(curve.points[-1][1])), number) for number, curve in enumerate(self.curves))
        last = -math.inf
        for y, number in ends:
            last = max(y, last + 17)
            x, ink = frame.left + WIDE + 10, CATEGORIES[number % len(CATEGORIES)]
            canvas.line(x, last, x + 24, last, ink, 2, DASHES[number % len(DASHES)])
            value = self.said(self.curves[number].points[-1][1])
            canvas.text(x + 30, last + 4, f"{clipped(visible(self.curves[number].label), LABEL)} · {value}", size=12)


class Frame:
    """From numbers to places of the drawing."""

    def __init__(self, left: float, top: float, across: list[float], up: list[float]) -> None:
        self.left, self.top = left, top
        self.across, self.up = (
            (across[0], across[-1] if len(across) > 1 else across[0] + 1),
            (up[0], up[-1] if len(up) > 1 else up[0] + 1),
        )

    def x(self, x: float) -> float:
        return self.left + WIDE * (x - self.across[0]) / (self.across[1] - self.across[0])

    def y(self, y: float) -> float:
        return self.top + TALL * (self.up[1] - y) / (self.up[1] - self.up[0])


def decades(low: float, high: float) -> list[float]:
    """The powers of ten around two logarithms."""
    return [float(one) for one in range(math.floor(low), max(math.floor(low) + 1, math.ceil(high)) + 1)]


def rgb_of(text: str) -> tuple[int, int, int]:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)
