"""A Picture: plain data that says what is drawn, lowered to text, SVG, HTML, JSON, and Mermaid or DOT where it fits."""

import json
import math
import os
from pathlib import Path
from typing import Any

import msgspec

from transom.names import Misfit
from transom.show.canvas import Canvas, Size
from transom.show.colours import bold, dim
from transom.show.panels import Panel
from transom.show.visible import clipped, visible, wrapped

WIDE = 1040.0  # of a figure, as long as its panels are not wider
SPACE = 28.0
TITLE = 60  # columns of it in a repr


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a picture comes from: every figure carries it."""

    model: str = ""
    layer: str = ""
    head: str = ""
    receipt: str = ""

    def said(self) -> str:
        parts = {"model": self.model, "layer": self.layer, "head": self.head, "receipt": self.receipt}
        return " · ".join(f"{name} {visible(value)}" for name, value in parts.items() if value)


class Table(msgspec.Struct, frozen=True):
    """The numbers behind a picture, not rounded."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn, from where, what is left out, and the numbers behind it."""

    view: str
    title: str
    panels: tuple[Panel, ...]
    source: Source = Source()
    notes: tuple[str, ...] = ()
    table: Table = Table((), ())

    def __repr__(self) -> str:
        return f"Picture({self.view}: {clipped(visible(self.title), TITLE)!r}, {len(self.table.rows)} rows of numbers)"

    def text(self, width: int = 100, colour: bool = False) -> str:
        """For a terminal: lines of at most so many columns; with `colour`, in 256 colours."""
        strong, weak = (bold, dim) if colour else (str, str)
        lines = [strong(line) for line in wrapped(visible(self.title), width)]
        lines += [weak(line) for line in wrapped(self.source.said(), width, "  ") if line]
        for panel in self.panels:
            lines += ["", *panel.lines(width, colour)]
        notes = [line for note in self.notes for line in wrapped(visible(note), width, "  ")]
        return "\n".join([*lines, *([""] if notes else []), *(weak(note) for note in notes)]) + "\n"

    def svg(self) -> str:
        """One figure with real text; panels stand side by side while they fit."""
        canvas = Canvas()
        canvas.text(0, 16, visible(self.title), size=17, bold=True)
        y = 24.0
        drawn = [panel.drawn() for panel in self.panels]
        width = max(WIDE, *(one.width for one in drawn)) if drawn else WIDE
        y = told(canvas, self.source.said(), y, min(width, WIDE)) + 14
        x = tallest = 0.0
        for one in drawn:
            if x and x + one.width > width:
                x, y, tallest = 0.0, y + tallest + SPACE, 0.0
            canvas.put(one, x, y)
            x, tallest = x + one.width + SPACE, max(tallest, one.height)
        y += tallest + 14
        for note in self.notes:
            y = told(canvas, visible(note), y, min(max(canvas.width, 640), WIDE))
        return canvas.svg(f"{visible(self.title)}. {self.source.said()}")

    def html(self) -> str:
        """One file for a browser: no script, nothing from elsewhere, and a policy that forbids both."""
        from transom.show.page import page

        return page(self)

    def json(self, indent: int | None = None) -> str:
        """The picture as data; signs beyond ASCII as escapes, so that it is safe wherever it is printed."""
        return json.dumps(without_infinities(msgspec.to_builtins(self)), indent=indent, allow_nan=False)

    def mermaid(self) -> str:
        """Mermaid text, for a view that is a diagram."""
        return self.diagram("mermaid", "Mermaid")

    def dot(self) -> str:
        """Graphviz text, for a view that is a diagram."""
        return self.diagram("dot", "DOT")

    def diagram(self, method: str, language: str) -> str:
        for panel in self.panels:
            if hasattr(panel, method):
                return getattr(panel, method)()
        raise Misfit(
            f"{language} draws arrows between things, but the view {self.view!r} has none; take arrows or sequence"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it by its ending: .txt .svg .html .json .mmd .dot, and .pdf .png with the extra `export`."""
        from transom.show.export import saved

        return saved(self, Path(path))

    def _repr_html_(self) -> str:
        from transom.show.page import fragment

        return fragment(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self._repr_html_(), "image/svg+xml": self.svg()}


def told(canvas: Canvas, words: str, y: Size, width: Size) -> Size:
    """A sentence in small print, on as many lines as it needs; gives where it ends."""
    for line in wrapped(words, max(40, int(width / 6.6))) if words else ():
        canvas.text(0, y + 13, line, size=12, ink="faint")
        y += 17
    return y


def without_infinities(data: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as words."""
    if isinstance(data, dict):
        return {key: without_infinities(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_infinities(one) for one in data]
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data
