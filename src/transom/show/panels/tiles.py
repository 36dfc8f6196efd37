"""Many small maps at a glance: a row of tiles for each layer, one tile for each head."""

import math

import msgspec

from transom.show.canvas import Canvas, long
from transom.show.colours import MASKED, hexed
from transom.show.numbers import written
from transom.show.panels.heat import Heat
from transom.show.visible import cells, clipped, padded, visible

SIDE = 64.0
LABEL = 34


class Tile(msgspec.Struct, frozen=True):
    """One head: its pooled weights (none where only statistics were kept), and its number."""

    row: int
    column: int
    number: float | None
    values: tuple[tuple[float | None, ...], ...] = ()
    tip: str = ""


class Tiles(msgspec.Struct, frozen=True, tag="tiles", kw_only=True):
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    tiles: tuple[Tile, ...]
    measure: str
    heat: Heat
    title: str = ""
    digits: int = 2

    def lines(self, width: int, colour: bool) -> list[str]:
        """The numbers alone: layers downwards, heads across, as many at a time as fit."""
        at = {(tile.row, tile.column): tile.number for tile in self.tiles}
        margin = max((cells(clipped(visible(one), LABEL)) for one in self.rows), default=1)
        size = max((len(written(one, self.digits)) for one in at.values()), default=1)
        size = max(size, *(cells(one) for one in self.columns)) + 1
        fit = max(1, (width - margin - 1) // size)
        found = [f"{self.title}: {self.measure}" if self.title else self.measure]
        for first in range(0, len(self.columns), fit):
            few = range(first, min(first + fit, len(self.columns)))
            found.append(f"{padded('layer ↓ head →', margin)} {''.join(self.columns[one].rjust(size) for one in few)}")
            for row, label in enumerate(self.rows):
                numbers = "".join(
                    (written(at[row, one], self.digits) if (row, one) in at else "").rjust(size) for one in few
                )
                found.append(f"{padded(visible(label), margin)} {numbers}".rstrip())
        return found

    def drawn(self) -> Canvas:
        canvas = Canvas()
        canvas.text(0, 13, visible(f"{self.title}: {self.measure}" if self.title else self.measure), bold=True)
        labels = [clipped(visible(one), LABEL) for one in self.rows]
        left = max((long(one, 12) for one in labels), default=0) + 12
        step = SIDE + 12
        for column, label in enumerate(self.columns):
            canvas.text(left + column * step + SIDE / 2, 36, f"head {label}", size=11, ink="faint", anchor="middle")
        tall = SIDE + 26 if any(tile.values for tile in self.tiles) else 26
        for row, label in enumerate(labels):
            canvas.text(0, 44 + row * tall + tall / 2 - 4, label, size=12)
        for tile in self.tiles:
            self.tile(canvas, tile, left + tile.column * step, 44 + tile.row * tall)
        canvas.reach(0, 44 + len(labels) * tall)
        return canvas

    def tile(self, canvas: Canvas, tile: Tile, x: float, y: float) -> None:
        words = written(tile.number, self.digits)
        if tile.values:
            canvas.rect(x, y, SIDE, SIDE, "#ffffff", tip=tile.tip, edge="rule")
            canvas.parts.append(mosaic(tile.values, self.heat, x, y, SIDE))
            y += SIDE
        canvas.text(x + SIDE / 2, y + 14, words, size=11, anchor="middle", mono=True)


def mosaic(values: tuple[tuple[float | None, ...], ...], heat: Heat, x: float, y: float, side: float) -> str:
    """A small map in a square: one path for each colour."""
    found: dict[str, list[str]] = {}
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            fill = MASKED if value is None or not math.isfinite(value) else hexed(heat.rough(value))
            if fill != "#ffffff":
                found.setdefault(fill, []).append(f"M{j} {i}h1v1h-1z")
    paths = "".join(f'<path d="{"".join(places)}" fill="{fill}"/>' for fill, places in found.items())
    scale = f"scale({side / max(1, len(values[0])):.4f} {side / max(1, len(values)):.4f})"
    place = f'transform="translate({x:.1f} {y:.1f}) {scale}"'
    return f'<g {place} shape-rendering="crispEdges" pointer-events="none">{paths}</g>'
