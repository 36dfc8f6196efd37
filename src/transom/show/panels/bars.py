"""Labels with bars: one number each."""

import msgspec

from transom.show.canvas import Canvas, long
from transom.show.colours import ARROW, CATEGORIES, OTHER, RGB, inked
from transom.show.numbers import decimals, finite, ticks, written
from transom.show.visible import cells, clipped, padded, visible

LABEL = 24
LONG = 320  # of the longest bar
BLUE: RGB = (0, 114, 178)


class Bars(msgspec.Struct, frozen=True, tag="bars", kw_only=True):
    """`upright` stands the bars side by side, as a histogram does; `other` marks some by colour and sign."""

    labels: tuple[str, ...]
    values: tuple[float | None, ...]
    title: str = ""
    unit: str = ""
    digits: int = 2
    top: float | None = None
    upright: bool = False
    across: str = ""
    other: tuple[int, ...] = ()

    def high(self) -> float:
        most = max((abs(one) for one in finite(list(self.values))), default=0.0) if self.top is None else self.top
        return most or 1.0

    def lines(self, width: int, colour: bool) -> list[str]:
        margin = max((cells(clipped(visible(one), LABEL)) for one in self.labels), default=1)
        numbers = max((len(written(one, self.digits)) for one in self.values), default=1)
        room = max(4, min(40, width - margin - numbers - 4))
        found = [f"{self.title}{f' ({self.unit})' if self.unit else ''}"] if self.title else []
        for number, (label, value) in enumerate(zip(self.labels, self.values, strict=True)):
            length = 0 if value is None else round(room * min(1.0, abs(value) / self.high()))
            bar = ("▒" if number in self.other else "█") * length or ("▏" if value else "")
            bar = inked(bar, BLUE) if colour and bar else bar
            found.append(f"{padded(visible(label), margin)}  {written(value, self.digits):>{numbers}}  {bar}".rstrip())
        return found

    def drawn(self) -> Canvas:
        canvas = Canvas()
        if self.title:
            canvas.text(0, 13, visible(f"{self.title}{f' ({self.unit})' if self.unit else ''}"), bold=True)
        top = 24.0 if self.title else 0.0
        if self.upright:
            self.standing(canvas, top)
        else:
            self.lying(canvas, top)
        return canvas

    def lying(self, canvas: Canvas, y: float) -> None:
        labels = [clipped(visible(one), LABEL) for one in self.labels]
        x = max((long(one) for one in labels), default=0) + 8
        for number, (label, value) in enumerate(zip(labels, self.values, strict=True)):
            length = 0 if value is None else LONG * min(1.0, abs(value) / self.high())
            canvas.text(x - 8, y + 15, label, anchor="end")
            canvas.rect(x, y + 3, max(0.5, length), 16, OTHER if number in self.other else ARROW)
            canvas.text(x + length + 6, y + 15, written(value, self.digits), size=12, mono=True)
            y += 23
        canvas.line(x, y - 23 * len(labels), x, y)

    def standing(self, canvas: Canvas, y: float) -> None:
        """A histogram: heights with a scale at the left, labels below."""
        marks = ticks(0, self.high(), 5)
        tall, high = 160.0, marks[-1]
        left = max(long(written(one, decimals(marks)), 11) for one in marks) + 8
        wide = max(14.0, 560 / max(1, len(self.values)))
        for mark in marks:
            at = y + 8 + tall * (1 - mark / high)
            canvas.line(left, at, left + wide * len(self.values), at)
            canvas.text(left - 6, at + 4, written(mark, decimals(marks)), size=11, ink="faint", anchor="end")
        every = max(1, -(-max((int(long(one, 11)) + 10 for one in self.labels), default=1) // int(wide)))
        for number, (label, value) in enumerate(zip(self.labels, self.values, strict=True)):
            height = 0 if value is None else tall * min(1.0, abs(value) / high)
            x = left + number * wide
            tip = f"{visible(label)}: {written(value, self.digits)}"
            canvas.rect(x + 1, y + 8 + tall - height, wide - 2, height, CATEGORIES[number in self.other], tip=tip)
            if number % every == 0:
                canvas.text(x + wide / 2, y + tall + 24, visible(label), size=11, anchor="middle")
        if self.across:
            canvas.text(left, y + tall + 42, self.across, size=11, ink="faint")
