"""Grids: numbers in colours with row and column labels, and many small maps, one for each layer and head."""

import math
from collections.abc import Iterator

import msgspec

from transom.show.colours import DECADES, MASKED_FILL, ColourScale, dim, ink_on, paint_background, to_hex
from transom.show.formatting import is_number, label_width, make_visible, pad, short_label, to_fixed, wrap
from transom.show.svg_canvas import SvgCanvas, text_width, widest

MASKED = "Grey or – is masked: the row may not look there."
LABEL = 18  # columns of a label at most
SLANT = 0.5**0.5  # how far a label slanted by 45° reaches, across and upwards
MANY = 2500  # with more cells, all of one colour are one path
TILE = 64.0  # the side of a small map
LAYER_LABEL, SHORT = 34, 10

Values = tuple[tuple[float | None, ...], ...]


class Grid(msgspec.Struct, frozen=True, tag="grid", kw_only=True):
    """`values[row][column]`, None where masked; `opens` may hold the arithmetic of each cell."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Values
    heat: ColourScale
    title: str = ""
    equation: str = ""
    down: str = "from"
    across: str = "at"
    digits: int = 2
    numbers: bool = True
    opens: tuple[tuple[str, ...], ...] = ()

    def lines(self, width: int, colour: bool) -> list[str]:
        """With numbers if they fit, otherwise with one block for each cell, or for several cells together."""
        heading = wrap(make_visible(f"{self.title}   {self.equation}".strip()), width, "  ") if self.title else []
        margin = max(label_width(self.rows, LABEL, least=0), len(self.corner()))
        size = self.cell_width()
        if self.numbers and margin + len(self.columns) * (size + 1) <= width:
            return heading + self.number_lines(margin, size, colour)
        return heading + self.block_lines(margin, width, colour)

    def corner(self) -> str:
        return f"{self.down} ↓ {self.across} →" if self.down and self.across else ""

    def cell_width(self) -> int:
        numbers = max((len(self.cell_text(value)) for row in self.values for value in row), default=1)
        return max(numbers + (0 if self.heat.colours == "diverging" else 2), label_width(self.columns, 10))

    def cell_text(self, value: float | None) -> str:
        return to_fixed(value, self.digits)

    def number_lines(self, margin: int, size: int, colour: bool) -> list[str]:
        columns = " ".join(pad(make_visible(label), size, right=True) for label in self.columns)
        lines = [f"{pad(self.corner(), margin)} {columns}".rstrip()]
        for label, row in zip(self.rows, self.values, strict=True):
            cells = " ".join(self.number_cell(value, size, colour) for value in row)
            lines.append(f"{pad(make_visible(label), margin)} {cells}".rstrip())
        return lines

    def number_cell(self, value: float | None, size: int, colour: bool) -> str:
        text = self.cell_text(value)
        if colour:
            text = text.rjust(size)
            return paint_background(text, self.heat.rgb(value)) if is_number(value) else dim(text)
        shade = "" if self.heat.colours == "diverging" or value is None else f"{self.heat.shade(value)} "
        return (shade + text).rjust(size)

    def block_lines(self, margin: int, width: int, colour: bool) -> list[str]:
        """Blocks instead of numbers; if there are too many cells, each block is the largest of several."""
        room = max(1, width - margin - 1)
        tall, wide = -(-len(self.rows) // 40), -(-len(self.columns) // room)
        size = room // max(1, len(self.columns)) if wide == 1 else 1
        size = min(label_width(self.columns, 9) + 1, 9, size) if size > 3 else 2 if size > 1 else 1
        columns = "".join(pad(short_label(label, size - 1), size) for label in self.columns) if size > 3 else ""
        lines = [f"{pad(self.corner(), margin)} {columns}".rstrip()] if self.corner() or columns else []
        for top in range(0, len(self.rows), tall):
            rows = self.values[top : top + tall]
            lefts = range(0, len(self.columns), wide)
            pooled = [pool_values([value for row in rows for value in row[left : left + wide]]) for left in lefts]
            blocks = "".join(self.block(value, size, colour) for value in pooled)
            lines.append(f"{pad(make_visible(self.rows[top]), margin)} {blocks}".rstrip())
        if tall * wide > 1:
            lines.append(f"each block is the largest of {tall} × {wide} cells")
        return [*lines, self.legend()]

    def block(self, value: float | None, size: int, colour: bool) -> str:
        """One cell without its number: a block in its shade, with a gap if there is room for one."""
        filled = max(1, size - 1) if size > 2 else size
        if colour and is_number(value):
            return paint_background(" " * filled, self.heat.rgb(value)) + " " * (size - filled)
        return self.heat.shade(value) * filled + " " * (size - filled)

    def legend(self) -> str:
        """What the blocks mean."""
        low, high = self.heat.end_labels(self.digits)
        masked = f"   {self.cell_text(None)} masked" if any(None in row for row in self.values) else ""
        return f"{low} ░▒▓█ {high}{', log scale' if self.heat.scale == 'log' else ''}{masked}"

    def cells(self) -> Iterator[tuple[str, str, float | None]]:
        """The labels of row and column, and the number, of each cell."""
        for row, values in zip(self.rows, self.values, strict=True):
            for column, value in zip(self.columns, values, strict=True):
                yield row, column, value

    def to_canvas(self) -> SvgCanvas:
        return GridDrawing(self).canvas

    def cell_label(self, row: int, column: int) -> str:
        """One cell in words, for a tooltip and for a screen reader."""
        value = self.values[row][column]
        number = "masked" if value is None else to_fixed(value, max(4, self.digits))
        row_name, column_name = make_visible(self.rows[row]), make_visible(self.columns[column])
        return f"{self.down} {row_name}, {self.across} {column_name}: {number}".strip()


def pool_values(values: list[float | None]) -> float | None:
    """The number furthest from zero; None if all are masked."""
    return max((value for value in values if value is not None and not math.isnan(value)), key=abs, default=None)


class GridDrawing:
    """A grid on a canvas: heading and labels first, then its cells from (left, top) on."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.canvas = grid, SvgCanvas(grid.title)
        self.rows, self.columns = ([short_label(label, LABEL) for label in side] for side in (grid.rows, grid.columns))
        self.cell_width, self.cell_height = self.cell_size()
        corner = text_width(f"{grid.down} ↓", 11) + 10 if grid.down else 0.0
        self.left = max(widest(self.rows, 12) + 10, corner)
        self.top = self.draw_column_labels(self.draw_equation())
        width, height = len(grid.columns) * self.cell_width, len(grid.rows) * self.cell_height
        self.draw_row_labels()
        if len(grid.rows) * len(grid.columns) > MANY:
            self.canvas.mosaic(grid.values, grid.heat, (self.left, self.top, width, height))
        else:
            self.draw_cells()
        self.canvas.reach(self.left + width, self.top + height)
        if not grid.numbers:
            self.draw_colour_bar(self.left, self.top + height + 12)

    def cell_size(self) -> tuple[float, float]:
        if self.grid.numbers:
            labels = widest(self.columns, 12) + 8
            texts = [self.grid.cell_text(value) for row in self.grid.values for value in row]
            numbers = widest(texts, 12, mono=True) + 12
            return max(numbers, labels if labels <= max(72, 1.6 * numbers) else numbers), 24.0
        side = min(22.0, max(3.0, 640 / max(1, len(self.rows), len(self.columns))))
        return side, side

    def draw_equation(self) -> float:
        """The equation below the title; returns where the grid starts."""
        y = 20.0 if self.grid.title else 0.0
        if not self.grid.equation:
            return y
        self.canvas.text(0, y + 12, make_visible(self.grid.equation), size=12, ink="faint", mono=True)
        return y + 19

    def draw_column_labels(self, y: float) -> float:
        """The labels of the columns, slanted if they do not fit; returns where the cells start."""
        if self.grid.across:
            self.canvas.small_text(self.left, y + 11, f"{self.grid.across} →")
            y += 17
        level = widest(self.columns, 12) <= self.cell_width
        every = 1 if level else -(-14 // max(1, int(self.cell_width)))
        height = 18 if level else widest(self.columns, 12) * SLANT + 16
        for index, label in enumerate(self.columns):
            x = self.left + (index + 0.5) * self.cell_width
            if level:
                self.canvas.text(x, y + 12, label, size=12, anchor="middle")
            elif index % every == 0:
                self.canvas.text(x + 4, y + height - 5, label, size=12, turn=-45)
                self.canvas.reach(x + text_width(label, 12) * SLANT + 10, 0)
        return y + height

    def draw_row_labels(self) -> None:
        every = -(-13 // max(1, int(self.cell_height)))
        for index, label in enumerate(self.rows):
            if index % every == 0:
                y = self.top + (index + 0.5) * self.cell_height + 4
                self.canvas.text(self.left - 6, y, label, size=12, anchor="end")
        if self.grid.down:
            # In the corner and upright, so that the arrow points where it says.
            self.canvas.small_text(0, self.top - 6, f"{self.grid.down} ↓")

    def draw_cells(self) -> None:
        grid, canvas = self.grid, self.canvas
        for i, row in enumerate(grid.values):
            for j, value in enumerate(row):
                x, y = self.left + j * self.cell_width, self.top + i * self.cell_height
                rgb = grid.heat.rgb(value) if is_number(value) else None
                fill, ink = (to_hex(rgb), ink_on(rgb)) if rgb else (MASKED_FILL, "#57606a")
                tip = "" if grid.numbers else grid.cell_label(i, j)
                canvas.rect(x, y, self.cell_width, self.cell_height, fill, tip=tip, edge="paper")
                if grid.numbers:
                    x, y = x + self.cell_width / 2, y + self.cell_height / 2 + 4
                    canvas.text(x, y, grid.cell_text(value), size=12, anchor="middle", ink=ink, mono=True)

    def draw_colour_bar(self, x: float, y: float) -> None:
        """The colours with the lowest and the highest number."""
        scale = self.grid.heat
        low, high = scale.end_labels(self.grid.digits)
        self.canvas.small_text(x, y + 11, low)
        x += text_width(low, 11) + 6
        for step in range(32):
            share = step / 31
            value = scale.low + share * (scale.high - scale.low)
            value = scale.high * 10 ** (DECADES * (share - 1)) if scale.scale == "log" else value
            self.canvas.rect(x + 4 * step, y + 1, 4.3, 12, to_hex(scale.rgb(value)))
        self.canvas.small_text(x + 134, y + 11, f"{high}{' (log scale)' if scale.scale == 'log' else ''}")


class Tile(msgspec.Struct, frozen=True):
    """One head: its pooled weights (none if only statistics were stored), and its number."""

    row: int
    column: int
    number: float | None
    values: Values = ()
    tip: str = ""


class Tiles(msgspec.Struct, frozen=True, tag="tiles", kw_only=True):
    """Layers downwards, heads across; `tokens` and `keys` label the rows and columns of small maps, if they are few."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    tiles: tuple[Tile, ...]
    measure: str
    heat: ColourScale
    title: str = ""
    digits: int = 2
    tokens: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def heading(self) -> str:
        return f"{self.title}: {self.measure}" if self.title else self.measure

    def map_size(self) -> tuple[float, float]:
        """The width and height of a small map: room for the name of each token, if they are named."""
        if not self.tokens:
            return TILE, TILE
        column = max(26.0, widest((short_label(key, SHORT) for key in self.keys), 11) + 8)
        return column * len(self.keys), 22.0 * len(self.tokens)

    def lines(self, width: int, colour: bool) -> list[str]:
        """Only the numbers: layers downwards, heads across, as many at a time as fit."""
        numbers = {(tile.row, tile.column): to_fixed(tile.number, self.digits) for tile in self.tiles}
        margin = label_width(self.rows, LAYER_LABEL)
        size = max(map(len, [*numbers.values(), *self.columns])) + 1
        fit = max(1, (width - margin - 1) // size)
        lines = [self.heading()]
        for first in range(0, len(self.columns), fit):
            columns = range(first, min(first + fit, len(self.columns)))
            labels = "".join(self.columns[column].rjust(size) for column in columns)
            lines.append(f"{pad('layer ↓ head →', margin)} {labels}")
            for row, label in enumerate(self.rows):
                cells = "".join(numbers.get((row, column), "").rjust(size) for column in columns)
                lines.append(f"{pad(make_visible(label), margin)} {cells}".rstrip())
        return lines

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.heading())
        labels = [short_label(label, LAYER_LABEL) for label in self.rows]
        names = [short_label(token, SHORT) for token in self.tokens]
        margin = max(widest(names, 11), text_width("from ↓", 11)) + 10 if names else 0.0
        left, (width, height) = widest(labels, 12) + 12 + margin, self.map_size()
        step, top = width + 12, 44.0 + (34.0 if names else 0.0)
        for column, label in enumerate(self.columns):
            canvas.small_text(left + column * step + width / 2, 36, f"head {label}", "middle")
            self.draw_keys(canvas, left + column * step, 70)
        tall = height + 26 if any(tile.values for tile in self.tiles) else 26
        for row, label in enumerate(labels):
            canvas.text(0, top + row * tall + tall / 2 - 4, label, size=12)
            for place, name in enumerate(names):
                canvas.text(left - 8, top + row * tall + 22 * place + 15, name, size=11, anchor="end")
        if names:
            canvas.small_text(left - margin, top - 8, "from ↓")
            canvas.small_text(left, 52, "at →")
        for tile in self.tiles:
            self.draw_tile(canvas, tile, left + tile.column * step, top + tile.row * tall)
        canvas.reach(0, top + len(labels) * tall)
        return canvas

    def draw_keys(self, canvas: SvgCanvas, x: float, y: float) -> None:
        """The names of the keys above a small map."""
        width = self.map_size()[0] / max(1, len(self.keys))
        for place, key in enumerate(self.keys):
            canvas.text(x + width * (place + 0.5), y, short_label(key, SHORT), size=11, anchor="middle")

    def draw_tile(self, canvas: SvgCanvas, tile: Tile, x: float, y: float) -> None:
        width, height = self.map_size()
        if tile.values:
            canvas.mosaic(tile.values, self.heat, (x, y, width, height), tile.tip)
            y += height
        canvas.text(x + width / 2, y + 14, to_fixed(tile.number, self.digits), size=11, anchor="middle", mono=True)
