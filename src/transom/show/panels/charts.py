"""Charts: bars with a number each, curves, and the frame with ticks that a plot is drawn in."""

import math

import msgspec

from transom.show.colours import ARROW, CATEGORIES, OTHER, paint_text
from transom.show.formatting import display_width, is_number, label_width, make_visible, pad, short_label, to_fixed
from transom.show.svg_canvas import Size, SvgCanvas, short, text_width, widest

BAR_LABEL, CURVE_LABEL = 24, 30
LONGEST_BAR = 320
WIDTH, HEIGHT = 560.0, 280.0
DASHES = ("", "7 4", "2 3", "10 3 2 3", "5 2", "1 3", "12 4")
MARKERS = "●▲■◆○△□"
FEW = 8  # on a log scale across, so many points have each a tick; with more points the powers of ten have


def ticks(low: int | float, high: int | float, most: int = 6) -> list[float]:
    """Round numbers at equal distances, from low or just below it to high or just above it."""
    if not high > low:
        return [low]
    least = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least * 0.999999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_labels(marks: list[float]) -> list[str]:
    """Each tick with as many decimals as it takes to tell them apart."""
    digits = tick_decimals(marks)
    return [to_fixed(mark, digits) for mark in marks]


def tick_decimals(marks: list[float]) -> int:
    """How many decimals tell ticks apart."""
    if len(marks) < 2:
        return 2
    step = abs(marks[1] - marks[0])
    return next((digits for digits in range(8) if abs(step * 10**digits - round(step * 10**digits)) < 1e-6), 8)


class PlotFrame:
    """A rectangle of a canvas for numbers between the first and the last tick, across and upwards."""

    def __init__(self, left: Size, top: Size, size: tuple[Size, Size], across: list[float], up: list[float]) -> None:
        self.left, self.top, (self.width, self.height) = left, top, size
        self.across, self.up = ((marks[0], marks[-1] if len(marks) > 1 else marks[0] + 1) for marks in (across, up))

    def x(self, value: float) -> float:
        return self.left + self.width * (value - self.across[0]) / (self.across[1] - self.across[0])

    def y(self, value: float) -> float:
        return self.top + self.height * (self.up[1] - value) / (self.up[1] - self.up[0])

    def draw_up_tick(self, canvas: SvgCanvas, mark: float, label: str, stroke: Size = 1) -> None:
        """A line across the frame, with its number on the left."""
        canvas.line(self.left, self.y(mark), self.left + self.width, self.y(mark), width=stroke)
        canvas.small_text(self.left - 6, self.y(mark) + 4, label, "end")


class Bars(msgspec.Struct, frozen=True, tag="bars", kw_only=True):
    """`upright` draws a histogram instead of bars that lie, with `edges` between the bars; bars in `other` differ."""

    labels: tuple[str, ...]
    values: tuple[float | None, ...]
    title: str = ""
    unit: str = ""
    digits: int = 2
    top: float | None = None
    upright: bool = False
    across: str = ""
    other: tuple[int, ...] = ()
    edges: tuple[str, ...] = ()

    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.title and self.unit else self.title

    def high(self) -> float:
        """The number that the longest bar could show."""
        most = max((abs(value) for value in self.values if is_number(value)), default=0.0)
        return (most if self.top is None else self.top) or 1.0

    def lines(self, width: int, colour: bool) -> list[str]:
        margin = label_width(self.labels, BAR_LABEL)
        numbers = max((len(to_fixed(value, self.digits)) for value in self.values), default=1)
        longest = max(4, min(40, width - margin - numbers - 4))
        lines = [self.heading()] if self.title else []
        for index, (label, value) in enumerate(zip(self.labels, self.values, strict=True)):
            length = 0 if value is None else round(longest * min(1.0, abs(value) / self.high()))
            bar = ("▒" if index in self.other else "█") * length or ("▏" if value else "")
            bar = paint_text(bar, ARROW) if colour and bar else bar
            number = to_fixed(value, self.digits).rjust(numbers)
            lines.append(f"{pad(make_visible(label), margin)}  {number}  {bar}".rstrip())
        return lines

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.heading())
        top = 24.0 if self.title else 0.0
        if self.upright:
            self.draw_upright(canvas, top)
        else:
            self.draw_lying(canvas, top)
        return canvas

    def draw_lying(self, canvas: SvgCanvas, y: float) -> None:
        labels = [short_label(label, BAR_LABEL) for label in self.labels]
        x = widest(labels) + 8
        for index, (label, value) in enumerate(zip(labels, self.values, strict=True)):
            length = 0 if value is None else LONGEST_BAR * min(1.0, abs(value) / self.high())
            canvas.text(x - 8, y + 15, label, anchor="end")
            canvas.rect(x, y + 3, max(0.5, length), 16, OTHER if index in self.other else ARROW)
            canvas.text(x + length + 6, y + 15, to_fixed(value, self.digits), size=12, mono=True)
            y += 23
        canvas.line(x, y - 23 * len(labels), x, y)

    def draw_upright(self, canvas: SvgCanvas, y: float) -> None:
        """A histogram: heights with a scale at the left, labels below."""
        marks = ticks(0, self.high(), 5)
        labels = tick_labels(marks)
        bar_width = max(14.0, 560 / max(1, len(self.values)))
        size = (bar_width * len(self.values), 160.0)
        frame = PlotFrame(widest(labels, 11) + 8, y + 8, size, [0.0, 1.0], marks)
        for mark, label in zip(marks, labels, strict=True):
            frame.draw_up_tick(canvas, mark, label)
        bottom = frame.top + frame.height
        every = max(1, -(-max((int(text_width(label, 11)) + 10 for label in self.edges), default=1) // int(bar_width)))
        for index in range(0, len(self.edges), every):
            x = frame.left + index * bar_width
            canvas.line(x, bottom, x, bottom + 4, "faint")
            canvas.text(x, bottom + 16, make_visible(self.edges[index]), size=11, anchor="middle")
        for index, (label, value) in enumerate(zip(self.labels, self.values, strict=True)):
            height = 0 if value is None else frame.height * min(1.0, abs(value) / marks[-1])
            x = frame.left + index * bar_width
            tip = f"{make_visible(label)}: {to_fixed(value, self.digits)}"
            canvas.rect(x + 1, bottom - height, bar_width - 2, height, CATEGORIES[index in self.other], tip=tip)
        if self.across:
            canvas.small_text(frame.left, bottom + 34, self.across)


class Curve(msgspec.Struct, frozen=True):
    label: str
    points: tuple[tuple[float, float], ...]


class Curves(msgspec.Struct, frozen=True, tag="curves", kw_only=True):
    """Lines through points (x, y), told apart by colour, dashes and name; `log` is the scale upwards."""

    curves: tuple[Curve, ...]
    across: str = "step"
    up: str = "loss"
    title: str = ""
    digits: int = 3
    log: bool = False
    log_across: bool = False

    def scaled_x(self, x: float) -> float:
        return math.log10(x) if self.log_across else x

    def scaled_y(self, y: float) -> float:
        return math.log10(y) if self.log else y

    def ticks_up(self) -> list[float]:
        ys = [self.scaled_y(y) for curve in self.curves for _, y in curve.points]
        low, high = min(ys), max(ys)
        return decades(low, high) if self.log else ticks(low, high if high > low else low + 1.0)

    def ticks_across(self) -> list[float]:
        xs = sorted({self.scaled_x(x) for curve in self.curves for x, _ in curve.points})
        if not self.log_across:
            return ticks(xs[0], xs[-1])
        return xs if 1 < len(xs) <= FEW else decades(xs[0], xs[-1])

    def lines(self, width: int, colour: bool) -> list[str]:
        across, up = self.ticks_across(), self.ticks_up()
        name = f"{self.across} (log scale)" if self.log_across else self.across
        columns, rows = max(10, min(72, width - 14 - display_width(name))), 12
        plot = [[" "] * columns for _ in range(rows)]
        for number, curve in enumerate(self.curves):
            marker = MARKERS[number % len(MARKERS)]
            marker = paint_text(marker, CATEGORIES[number % len(CATEGORIES)]) if colour else marker
            for x, y in curve.points:
                column = round((self.scaled_x(x) - across[0]) / ((across[-1] - across[0]) or 1) * (columns - 1))
                row = round((up[-1] - self.scaled_y(y)) / ((up[-1] - up[0]) or 1) * (rows - 1))
                plot[row][column] = marker
        lines = [self.title] if self.title else []
        up_labels = self.up_labels(up)
        labels = [up_labels[-1], *[""] * (rows - 2), up_labels[0]]
        lines += [f"{label:>9} │{''.join(row)}".rstrip() for label, row in zip(labels, plot, strict=True)]
        across_labels = [f"{10**mark:,.10g}" for mark in across] if self.log_across else tick_labels(across)
        first, last = across_labels[0], across_labels[-1]
        lines.append(f"{'':>10}└{first}{last:>{max(1, columns - len(first))}}  {name}")
        return lines + [self.summary(number, curve) for number, curve in enumerate(self.curves)]

    def up_labels(self, marks: list[float]) -> list[str]:
        return [f"{10**mark:g}" for mark in marks] if self.log else tick_labels(marks)

    def value_label(self, y: float) -> str:
        """A value to so many decimals; one that would be printed as 0 and is not, by its power of ten."""
        small = y != 0 and abs(y) < 0.5 * 10.0**-self.digits
        return f"{y:.1e}".replace("-", "−") if small else to_fixed(y, self.digits)

    def summary(self, number: int, curve: Curve) -> str:
        """One line with the first, the lowest and the last value of a curve."""
        lowest = min(curve.points, key=lambda point: point[1])
        first, low, last = (f"{self.value_label(y)} at {x:g}" for x, y in (curve.points[0], lowest, curve.points[-1]))
        longest = min(24, max(display_width(make_visible(other.label)) for other in self.curves))
        name = f"{MARKERS[number % len(MARKERS)]} {pad(make_visible(curve.label), longest)}"
        return f"{name}  first {first}, lowest {low}, last {last}"

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.title)
        across, up = self.ticks_across(), self.ticks_up()
        labels = self.up_labels(up)
        left, top = widest(labels, 11) + 10, 44.0 if self.title else 22.0
        frame = PlotFrame(left, top, (WIDTH, HEIGHT), across, up)
        canvas.small_text(0, top - 9, f"{make_visible(self.up)} ↑{' (log scale)' if self.log else ''}")
        for mark, label in zip(up, labels, strict=True):
            frame.draw_up_tick(canvas, mark, label)
        for mark in across:
            label = f"{10**mark if self.log_across else mark:,.10g}"
            canvas.small_text(frame.x(mark), top + HEIGHT + 16, label, "middle")
        name = f"{make_visible(self.across)} →{' (log scale)' if self.log_across else ''}"
        canvas.small_text(left + WIDTH, top + HEIGHT + 33, name, "end")
        for number, curve in enumerate(self.curves):
            self.draw_curve(canvas, frame, number, curve)
        self.draw_legend(canvas, frame)
        return canvas

    def draw_curve(self, canvas: SvgCanvas, frame: PlotFrame, number: int, curve: Curve) -> None:
        points = [(frame.x(self.scaled_x(x)), frame.y(self.scaled_y(y))) for x, y in curve.points]
        ink = CATEGORIES[number % len(CATEGORIES)]
        d = "M" + "L".join(f"{short(x)} {short(y)}" for x, y in points)
        canvas.path(d, ink, 2, dash=DASHES[number % len(DASHES)], tip=self.summary(number, curve)[2:])
        if len(points) == 1:
            canvas.circle(*points[0], 3, ink, tip=make_visible(curve.label))

    def draw_legend(self, canvas: SvgCanvas, frame: PlotFrame) -> None:
        """The names on the right, each as near to the end of its curve as the others leave room for."""
        ends = sorted((frame.y(self.scaled_y(curve.points[-1][1])), number) for number, curve in enumerate(self.curves))
        last = -math.inf
        for y, number in ends:
            last = max(y, last + 17)
            x, ink = frame.left + WIDTH + 10, CATEGORIES[number % len(CATEGORIES)]
            canvas.line(x, last, x + 24, last, ink, 2, DASHES[number % len(DASHES)])
            label = short_label(self.curves[number].label, CURVE_LABEL)
            value = self.value_label(self.curves[number].points[-1][1])
            canvas.text(x + 30, last + 4, f"{label} · {value}", size=12)


def decades(low: float, high: float) -> list[float]:
    """The powers of ten around two logarithms."""
    first = math.floor(low)
    return [float(power) for power in range(first, max(first + 1, math.ceil(high)) + 1)]
