"""A matrix of numbers with labels on both sides: coloured, with its numbers where there is room for them."""

import math

import msgspec

from transom.show.canvas import Canvas
from transom.show.colours import dim, painted
from transom.show.numbers import NOTHING, written
from transom.show.panels.heat import DECADES, Heat
from transom.show.visible import cells, clipped, padded, visible, wrapped

MASKED = "Grey or – is masked: the row may not look there."
LABEL = 18  # columns of a label at most

Values = tuple[tuple[float | None, ...], ...]


class Grid(msgspec.Struct, frozen=True, tag="grid", kw_only=True):
    """`values[row][column]`, None where masked; `opens` may hold, for each cell, how its number came about."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Values
    heat: Heat
    title: str = ""
    equation: str = ""
    down: str = "from"
    across: str = "at"
    digits: int = 2
    numbers: bool = True
    opens: tuple[tuple[str, ...], ...] = ()

    def lines(self, width: int, colour: bool) -> list[str]:
        """With numbers if they fit, else one sign for each cell, or for a few cells together."""
        heading = wrapped(visible(f"{self.title}   {self.equation}".strip()), width, "  ") if self.title else []
        margin = self.margin()
        size = self.cell_width()
        if self.numbers and margin + len(self.columns) * (size + 1) <= width:
            return heading + self.numbered(margin, size, colour)
        return heading + self.shaded(margin, width, colour)

    def margin(self) -> int:
        labels = max((cells(clipped(visible(one), LABEL)) for one in self.rows), default=0)
        return max(labels, cells(self.corner()) if self.corner() else 0)

    def corner(self) -> str:
        return f"{self.down} ↓ {self.across} →" if self.down and self.across else ""

    def cell_width(self) -> int:
        numbers = max((len(self.cell_text(value)) for row in self.values for value in row), default=1)
        labels = max((cells(clipped(visible(one), 10)) for one in self.columns), default=1)
        return max(numbers + (0 if self.heat.colours == "diverging" else 2), labels)

    def cell_text(self, value: float | None) -> str:
        return written(value, self.digits)

    def numbered(self, margin: int, size: int, colour: bool) -> list[str]:
        head = " ".join(padded(visible(one), size, right=True) for one in self.columns)
        found = [f"{padded(self.corner(), margin)} {head}".rstrip()]
        for label, row in zip(self.rows, self.values, strict=True):
            body = " ".join(self.numbered_cell(value, size, colour) for value in row)
            found.append(f"{padded(visible(label), margin)} {body}".rstrip())
        return found

    def numbered_cell(self, value: float | None, size: int, colour: bool) -> str:
        text = self.cell_text(value)
        if colour:
            filled = text.rjust(size)
            bare = value is None or not math.isfinite(value)
            return dim(filled) if bare else painted(filled, self.heat.rgb(value))  # pyright: ignore[reportArgumentType]
        shade = "" if self.heat.colours == "diverging" or value is None else f"{self.heat.shade(value)} "
        return (shade + text).rjust(size)

    def shaded(self, margin: int, width: int, colour: bool) -> list[str]:
        """Signs instead of numbers; of more cells than there is room for, the largest of each few."""
        room = max(1, width - margin - 1)
        tall, wide = -(-len(self.rows) // 40), -(-len(self.columns) // room)
        size = room // max(1, len(self.columns)) if wide == 1 else 1
        longest = max((cells(visible(one)) for one in self.columns), default=1)
        size = min(longest + 1, 9, size) if size > 3 else 2 if size > 1 else 1
        heads = "".join(padded(clipped(visible(one), size - 1), size) for one in self.columns) if size > 3 else ""
        found = [f"{padded(self.corner(), margin)} {heads}".rstrip()] if self.corner() or heads else []
        for first in range(0, len(self.rows), tall):
            few = self.values[first : first + tall]
            ways = range(0, len(self.columns), wide)
            pooled = [largest([one for row in few for one in row[at : at + wide]]) for at in ways]
            signs = "".join(self.sign(value, size, colour) for value in pooled)
            found.append(f"{padded(visible(self.rows[first]), margin)} {signs}".rstrip())
        if tall * wide > 1:
            found.append(f"each sign is the largest of {tall} × {wide} cells")
        return [*found, self.key()]

    def sign(self, value: float | None, size: int, colour: bool) -> str:
        """One cell without its number: a block of its shade, with a gap where there is room for one."""
        filled = max(1, size - 1) if size > 2 else size
        if colour and value is not None and math.isfinite(value):
            return painted(" " * filled, self.heat.rgb(value)) + " " * (size - filled)
        return self.heat.shade(value) * filled + " " * (size - filled)

    def key(self) -> str:
        """What the signs mean."""
        low, high = (written(one, self.digits) for one in (self.heat.low, self.heat.high))
        low = f"≤ {self.heat.high / 10**DECADES:.2g}" if self.heat.scale == "log" else low
        masked = f"   {NOTHING} masked" if any(None in row for row in self.values) else ""
        return f"{low} ░▒▓█ {high}{', log scale' if self.heat.scale == 'log' else ''}{masked}"

    def drawn(self) -> Canvas:
        from transom.show.panels.grid_drawn import drawn

        return drawn(self)

    def spoken(self, row: int, column: int) -> str:
        """One cell in words, for a tip and for a screen reader."""
        value = self.values[row][column]
        number = "masked" if value is None else written(value, max(4, self.digits))
        return f"{self.down} {visible(self.rows[row])}, {self.across} {visible(self.columns[column])}: {number}".strip()


def largest(values: list[float | None]) -> float | None:
    """By size, whatever the sign; None where all are masked."""
    return max((one for one in values if one is not None and not math.isnan(one)), key=abs, default=None)
