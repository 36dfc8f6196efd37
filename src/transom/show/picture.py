"""A picture: panels, a title and the numbers behind them, saved as text, SVG, HTML, JSON, PNG or PDF."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from transom.files.atomic_files import write_file
from transom.names import Misfit
from transom.show.colours import bold, dim
from transom.show.formatting import make_visible, short_label, wrap
from transom.show.html_page import render_fragment, render_page
from transom.show.panels import PictureData, Source, Table
from transom.show.svg_canvas import Size, SvgCanvas

__all__ = ["WRITERS", "Picture", "Source", "Table"]

PIXELS_PER_INCH = 144  # of a PNG: twice what the SVG says, for paper and for dense screens
WIDTH = 1040.0  # of a figure, unless one of its panels is wider
SPACE = 28.0
LONGEST_TITLE = 60  # columns of a title in a repr


class Picture(PictureData, frozen=True, kw_only=True):
    """What is drawn, its source, what is left out, and the numbers behind it."""

    def __repr__(self) -> str:
        return (
            f"Picture({self.view}: {short_label(self.title, LONGEST_TITLE)!r}, {len(self.table.rows)} rows of numbers)"
        )

    def text(self, width: int = 100, colour: bool = False) -> str:
        """For a terminal: lines of at most so many columns; with `colour`, in 256 colours."""
        strong, weak = (bold, dim) if colour else (str, str)
        lines = [strong(line) for line in wrap(make_visible(self.title), width)]
        lines += [weak(line) for line in wrap(self.source.summary(), width, "  ") if line]
        for panel in self.panels:
            lines += ["", *panel.lines(width, colour)]
        notes = [weak(line) for note in self.notes for line in wrap(make_visible(note), width, "  ")]
        return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"

    def svg(self) -> str:
        """One figure with text as text; panels stand side by side while they fit."""
        canvas = SvgCanvas()
        canvas.text(0, 16, make_visible(self.title), size=17, bold=True)
        panels = [panel.to_canvas() for panel in self.panels]
        width = max([WIDTH, *(panel.width for panel in panels)])
        y = draw_wrapped(canvas, self.source.summary(), 24.0, WIDTH) + 14
        x = tallest = 0.0
        for panel in panels:
            if x and x + panel.width > width:
                x, y, tallest = 0.0, y + tallest + SPACE, 0.0
            canvas.place(panel, x, y)
            x, tallest = x + panel.width + SPACE, max(tallest, panel.height)
        y += tallest + 14
        for note in self.notes:
            y = draw_wrapped(canvas, make_visible(note), y, min(max(canvas.width, 640), WIDTH))
        return canvas.svg(f"{make_visible(self.title)}. {self.source.summary()}")

    def html(self) -> str:
        """One file for a browser: no script, nothing from elsewhere, and a policy that forbids both."""
        return render_page(self)

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
            f"{language} needs a diagram, but the view {self.view!r} is not one; draw the view arrows or sequence"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as its ending says: .txt .svg .html .json .mmd .dot, and .pdf .png with the extra `export`."""
        path = Path(path)
        if path.suffix.lower() not in WRITERS:
            ending = f"{path.suffix!r}" if path.suffix.strip(".") else "no ending"
            name = path.stem.rstrip(".") or "picture"
            raise Misfit(f"a picture's file must end in one of {' '.join(WRITERS)}, but got {ending}; try {name}.svg")
        write_file(path, WRITERS[path.suffix.lower()](self))
        return path

    def _repr_html_(self) -> str:
        return render_fragment(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self._repr_html_(), "image/svg+xml": self.svg()}


def draw_wrapped(canvas: SvgCanvas, sentence: str, y: Size, width: Size) -> Size:
    """A sentence in small print, on as many lines as it needs; returns where it ends."""
    for line in wrap(sentence, max(40, int(width / 6.6))) if sentence else ():
        canvas.text(0, y + 13, line, size=12, ink="faint")
        y += 17
    return y


def render_typst(picture: Picture, kind: Literal["pdf", "png"]) -> bytes:
    """PDF or PNG of the figure, by typst: text stays text, and a PDF embeds only the glyphs it uses."""
    source = b'#set page(width: auto, height: auto, margin: 0pt)\n#image("figure.svg")'
    return compile_typst({"main.typ": source, "figure.svg": picture.svg().encode()}, kind)


def compile_typst(files: Any, kind: Literal["pdf", "png"]) -> bytes:
    """The document main.typ among some files, as PDF or PNG."""
    try:
        import typst
    except ModuleNotFoundError as error:
        raise Misfit(
            f"{kind.upper()} needs the package typst, but it is not installed;"
            " pip install 'transom[export]', or save .svg"
        ) from error
    content = typst.compile(files, format=kind, ppi=PIXELS_PER_INCH if kind == "png" else None)
    assert isinstance(content, bytes)
    return content


# How a picture becomes the bytes of a file, by the ending of the file's name.
WRITERS: dict[str, Callable[[Picture], bytes]] = {
    ".txt": lambda picture: picture.text().encode(),
    ".svg": lambda picture: picture.svg().encode(),
    ".html": lambda picture: picture.html().encode(),
    ".json": lambda picture: picture.json().encode(),
    ".mmd": lambda picture: picture.mermaid().encode(),
    ".dot": lambda picture: picture.dot().encode(),
    ".pdf": lambda picture: render_typst(picture, "pdf"),
    ".png": lambda picture: render_typst(picture, "png"),
}
