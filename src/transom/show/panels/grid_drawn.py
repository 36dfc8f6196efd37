"""A grid as marks: cells with their numbers, or many small ones, labels above and beside them."""

import math

from transom.show.canvas import Canvas, Size, long
from transom.show.colours import MASKED, hexed, ink_on
from transom.show.numbers import written
from transom.show.panels.grid import LABEL, Grid
from transom.show.panels.heat import DECADES
from transom.show.visible import clipped, visible

SIDE = 0.5**0.5  # of a label that is slanted by 45°
MANY = 2500  # cells from which each is no mark of its own

Cell = tuple[Size, Size]


def drawn(grid: Grid) -> Canvas:
    canvas = Canvas()
    top = heading(grid, canvas)
    cell = cell_size(grid)
    left = left_of(grid)
    across = tops(grid, canvas, left, top, cell)
    sides(grid, canvas, left, across, cell)
    if len(grid.rows) * len(grid.columns) > MANY:
        mosaic(grid, canvas, left, across, cell)
    else:
        each_cell(grid, canvas, left, across, cell)
    canvas.reach(left + len(grid.columns) * cell[0], across + len(grid.rows) * cell[1])
    if grid.numbers is False:
        bar(grid, canvas, left, across + len(grid.rows) * cell[1] + 12)
    return canvas


def heading(grid: Grid, canvas: Canvas) -> Size:
    y = 0.0
    if grid.title:
        canvas.text(0, 13, visible(grid.title), bold=True)
        y = 20
    if grid.equation:
        canvas.text(0, y + 12, visible(grid.equation), size=12, ink="faint", mono=True)
        y += 19
    return y


def cell_size(grid: Grid) -> Cell:
    if grid.numbers:
        texts = [grid.cell_text(value) for row in grid.values for value in row]
        labels = [clipped(visible(one), LABEL) for one in grid.columns]
        upright = max((long(one, 12) for one in labels), default=0) + 8
        numbers = max((long(one, 12, mono=True) for one in texts), default=0) + 12
        return max(numbers, upright if upright <= max(72, 1.6 * numbers) else numbers), 24
    side = min(22.0, max(3.0, 640 / max(1, len(grid.rows), len(grid.columns))))
    return side, side


def left_of(grid: Grid) -> Size:
    labels = max((long(clipped(visible(one), LABEL), 12) for one in grid.rows), default=0)
    return labels + 10 + (18 if grid.down else 0)


def tops(grid: Grid, canvas: Canvas, left: Size, top: Size, cell: Cell) -> Size:
    """The labels of the columns, level if they fit and slanted if not; gives where the cells begin."""
    labels = [clipped(visible(one), LABEL) for one in grid.columns]
    lengths = [long(one, 12) for one in labels]
    if grid.across:
        canvas.text(left, top + 11, f"{grid.across} →", size=11, ink="faint")
        top += 17
    level = all(length <= cell[0] for length in lengths)
    every = 1 if level else -(-14 // max(1, int(cell[0])))
    high = 18 if level else max(lengths, default=0) * SIDE + 16
    for number, label in enumerate(labels):
        x = left + (number + 0.5) * cell[0]
        if level:
            canvas.text(x, top + 12, label, size=12, anchor="middle")
        elif number % every == 0:
            canvas.text(x + 4, top + high - 5, label, size=12, turn=-45)
            canvas.reach(x + lengths[number] * SIDE + 10, 0)
    return top + high


def sides(grid: Grid, canvas: Canvas, left: Size, across: Size, cell: Cell) -> None:
    every = -(-13 // max(1, int(cell[1])))
    for number, label in enumerate(grid.rows):
        if number % every == 0:
            y = across + (number + 0.5) * cell[1] + 4
            canvas.text(left - 6, y, clipped(visible(label), LABEL), size=12, anchor="end")
    if grid.down:
        canvas.text(11, across + 24, f"{grid.down} ↓", size=11, ink="faint", turn=-90)


def each_cell(grid: Grid, canvas: Canvas, left: Size, across: Size, cell: Cell) -> None:
    for i, row in enumerate(grid.values):
        for j, value in enumerate(row):
            x, y = left + j * cell[0], across + i * cell[1]
            there = value is not None and math.isfinite(value)
            rgb = grid.heat.rgb(value) if there else None  # pyright: ignore[reportArgumentType]
            fill = hexed(rgb) if rgb else MASKED
            canvas.rect(x, y, cell[0], cell[1], fill, tip="" if grid.numbers else grid.spoken(i, j), edge="paper")
            if grid.numbers:
                ink = ink_on(rgb) if rgb else "#57606a"
                canvas.text(
                    x + cell[0] / 2,
                    y + cell[1] / 2 + 4,
                    grid.cell_text(value),
                    size=12,
                    anchor="middle",
                    ink=ink,
                    mono=True,
                )


def mosaic(grid: Grid, canvas: Canvas, left: Size, across: Size, cell: Cell) -> None:
    """Many cells: one path for each of 64 colours, so that the figure stays small."""
    found: dict[str, list[str]] = {}
    for i, row in enumerate(grid.values):
        for j, value in enumerate(row):
            fill = MASKED if value is None or not math.isfinite(value) else hexed(grid.heat.rough(value))
            if fill != "#ffffff":
                found.setdefault(fill, []).append(f"M{j} {i}h1v1h-1z")
    canvas.rect(left, across, len(grid.columns) * cell[0], len(grid.rows) * cell[1], "#ffffff", edge="rule")
    canvas.parts.append(
        f'<g transform="translate({left:.1f} {across:.1f}) scale({cell[0]:.4f} {cell[1]:.4f})"'
        ' shape-rendering="crispEdges">'
    )
    for fill, places in found.items():
        canvas.path("".join(places), fill)
    canvas.parts.append("</g>")


def bar(grid: Grid, canvas: Canvas, x: Size, y: Size) -> None:
    """The colours with their numbers."""
    low, high = (written(one, grid.digits) for one in (grid.heat.low, grid.heat.high))
    low = f"≤ {grid.heat.high / 10**DECADES:.2g}" if grid.heat.scale == "log" else low
    canvas.text(x, y + 11, low, size=11, ink="faint")
    at = x + long(low, 11) + 6
    for number in range(32):
        share = number / 31
        value = grid.heat.low + share * (grid.heat.high - grid.heat.low)
        value = grid.heat.high * 10 ** (DECADES * (share - 1)) if grid.heat.scale == "log" else value
        canvas.rect(at + 4 * number, y + 1, 4.3, 12, hexed(grid.heat.rgb(value)))
    canvas.text(at + 134, y + 11, f"{high}{' (log scale)' if grid.heat.scale == 'log' else ''}", size=11, ink="faint")
