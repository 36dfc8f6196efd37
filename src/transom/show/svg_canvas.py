"""A canvas: lines, rectangles, paths and text, written as SVG with real text and no styles."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from unicodedata import east_asian_width

from transom.show.colours import FAINT, INK, MASKED_FILL, PAPER, RULE, ColourScale, to_hex
from transom.show.formatting import is_number, make_visible

SANS = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"
NARROW, BROAD = "iljtfrI.,:;'|! ·", "mwMW@%—"
Size = int | float  # a coordinate or a length; beartype, in the tests, does not take an int for a float
CellValues = Sequence[Sequence[float | None]]
# Inks by name: a figure alone has these colours, a page with a dark background gives them others.
INKS = {"ink": INK, "faint": FAINT, "rule": RULE, "paper": PAPER}


def text_width(text: str, size: Size = 13, mono: bool = False) -> float:
    """How wide a text is in most fonts: a generous estimate."""
    return size * sum((character_width(character, mono) for character in text), 0.0)


def widest(texts: Iterable[str], size: Size = 13, mono: bool = False) -> float:
    """The width of the widest of some texts; 0 if there are none."""
    return max((text_width(text, size, mono) for text in texts), default=0.0)


def character_width(character: str, mono: bool) -> float:
    """The width of a character as a share of the font's size."""
    if east_asian_width(character) in "WF":
        return 1.1
    if mono:
        return 0.61
    if character in NARROW:
        return 0.4
    return 1.02 if character in BROAD else 0.7 if character.isupper() else 0.6


def short(number: Size) -> str:
    """A coordinate to a tenth."""
    text = f"{number:.1f}"
    return text[:-2] if text.endswith(".0") else text


class SvgCanvas:
    """SVG elements and the size they take: the canvas grows with them. A title is put at the top, in bold."""

    def __init__(self, title: str = "") -> None:
        self.elements: list[str] = []
        self.width: Size = 0.0
        self.height: Size = 0.0
        if title:
            self.text(0, 13, make_visible(title), bold=True)

    def reach(self, x: Size, y: Size) -> None:
        """Grow so that a point lies on the canvas."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(
        self,
        x: Size,
        y: Size,
        text: str,
        *,
        size: Size = 13,
        anchor: str = "start",
        ink: str = "ink",
        mono: bool = False,
        bold: bool = False,
        turn: Size = 0,
        halo: bool = False,
    ) -> None:
        """A text that starts, has its middle or ends at a point; `turn` is in degrees, `halo` a ground of paper."""
        attributes = f'x="{short(x)}" y="{short(y)}"'
        attributes += f' font-size="{short(size)}"' if size != 13 else ""
        attributes += f' text-anchor="{anchor}"' if anchor != "start" else ""
        attributes += f' font-family="{MONO}"' if mono else ""
        attributes += ' font-weight="600"' if bold else ""
        attributes += f' transform="rotate({short(turn)} {short(x)} {short(y)})"' if turn else ""
        attributes += f" {paint('fill', ink)}"
        length = text_width(text, size, mono) * (1.12 if bold else 1.0)
        if halo:
            # A box and no outline around letters: not every program that shows SVG paints an outline first.
            start = x - {"start": 0, "middle": length / 2, "end": length}[anchor]
            self.rect(start - 1, y - 0.82 * size, 0.9 * length + 2, 1.08 * size, "paper")
        self.elements.append(f"<text {attributes}>{escape(text)}</text>")
        if not turn:
            self.reach(x + {"start": length, "middle": length / 2, "end": 0}[anchor], y + size * 0.3)

    def small_text(self, x: Size, y: Size, text: str, anchor: str = "start") -> None:
        """A faint remark: the number of a tick, the name of an axis."""
        self.text(x, y, text, size=11, ink="faint", anchor=anchor)

    def rect(self, x: Size, y: Size, width: Size, height: Size, ink: str, *, tip: str = "", edge: str = "") -> None:
        box = f'x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}"'
        attributes = f"{box} {paint('fill', ink)}"
        attributes += f' stroke="{INKS.get(edge, edge)}"' if edge else ""
        self.elements.append(with_tooltip("rect", attributes, tip))
        self.reach(x + width, y + height)

    def line(self, x: Size, y: Size, x2: Size, y2: Size, ink: str = "rule", width: Size = 1, dash: str = "") -> None:
        attributes = f'x1="{short(x)}" y1="{short(y)}" x2="{short(x2)}" y2="{short(y2)}" stroke-width="{short(width)}"'
        attributes += f' stroke-dasharray="{dash}"' if dash else ""
        self.elements.append(f"<line {attributes} {paint('stroke', ink)}/>")
        self.reach(max(x, x2), max(y, y2))

    def path(self, d: str, ink: str, width: Size = 0, *, opacity: Size = 1, dash: str = "", tip: str = "") -> None:
        """A stroke if it has a width, otherwise a filled shape; call `reach` to make room for it."""
        attributes = f'd="{d}" ' + (f'fill="none" {paint("stroke", ink)}' if width else paint("fill", ink))
        attributes += f' stroke-width="{width:.2f}"' if width else ""
        attributes += f' opacity="{opacity:.2f}"' if opacity < 1 else ""
        attributes += f' stroke-dasharray="{dash}"' if dash else ""
        self.elements.append(with_tooltip("path", attributes, tip))

    def circle(self, x: Size, y: Size, radius: Size, ink: str, tip: str = "") -> None:
        attributes = f'cx="{short(x)}" cy="{short(y)}" r="{short(radius)}" {paint("fill", ink)}'
        self.elements.append(with_tooltip("circle", attributes, tip))
        self.reach(x + radius, y + radius)

    def arrow(self, x: Size, y: Size, x2: Size, y2: Size, ink: str, width: Size = 1.5, tip: str = "") -> None:
        """A straight arrow whose tip is at (x2, y2)."""
        angle, head = math.atan2(y2 - y, x2 - x), min(5 + 1.5 * width, 0.6 * math.dist((x, y), (x2, y2)))
        back = (x2 - head * math.cos(angle), y2 - head * math.sin(angle))
        self.path(f"M{short(x)} {short(y)}L{short(back[0])} {short(back[1])}", ink, width, tip=tip)
        self.arrow_head(x2, y2, angle, head, ink)
        self.reach(max(x, x2), max(y, y2))

    def arrow_head(self, x: Size, y: Size, angle: Size, length: Size, ink: str, opacity: Size = 1) -> None:
        """The head of an arrow with its tip at a point; the arrow's direction is an angle in radians."""
        corners = [(x - length * math.cos(angle + side), y - length * math.sin(angle + side)) for side in (0.42, -0.42)]
        d = f"M{short(x)} {short(y)}" + "".join(f"L{short(a)} {short(b)}" for a, b in corners) + "Z"
        self.path(d, ink, opacity=opacity)

    def mosaic(self, values: CellValues, scale: ColourScale, box: tuple[Size, Size, Size, Size], tip: str = "") -> None:
        """Many cells in a box (x, y, width, height), one path for each colour, so that the figure stays small."""
        x, y, width, height = box
        self.rect(*box, "#ffffff", tip=tip, edge="rule")
        cells: dict[str, list[str]] = {}
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                fill = to_hex(scale.step_rgb(value)) if is_number(value) else MASKED_FILL
                if fill != "#ffffff":
                    cells.setdefault(fill, []).append(f"M{j} {i}h1v1h-1z")
        paths = "".join(f'<path d="{"".join(squares)}" fill="{fill}"/>' for fill, squares in cells.items())
        zoom = f"scale({width / max(1, len(values[0])):.4f} {height / max(1, len(values)):.4f})"
        transform = f'transform="translate({x:.1f} {y:.1f}) {zoom}"'
        self.elements.append(f'<g {transform} shape-rendering="crispEdges" pointer-events="none">{paths}</g>')

    def place(self, other: "SvgCanvas", x: Size = 0, y: Size = 0, attributes: str = "") -> None:
        """Another canvas at a position of this one, as a group with these attributes."""
        move = f'transform="translate({short(x)} {short(y)})"' if x or y else ""
        group = " ".join(filter(None, ["g", attributes, move]))
        self.elements.append(f"<{group}>{''.join(other.elements)}</g>")
        self.reach(x + other.width, y + other.height)

    def svg(self, title: str, margin: Size = 16) -> str:
        """One figure with text as text, system fonts by name, and nothing from elsewhere."""
        width, height = math.ceil(self.width + 2 * margin), math.ceil(self.height + 2 * margin)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' role="img" aria-label="{escape(title)}" font-family="{SANS}" font-size="13">'
            f'<rect width="{width}" height="{height}" {paint("fill", "paper")}/>'
            f'<g transform="translate({short(margin)} {short(margin)})">{"".join(self.elements)}</g></svg>'
        )


def paint(attribute: str, ink: str) -> str:
    """A colour as the attribute `fill` or `stroke`; a named ink also as a class, for dark pages."""
    return f'{attribute}="{INKS[ink]}" class="{ink}-{attribute}"' if ink in INKS else f'{attribute}="{ink}"'


def with_tooltip(kind: str, attributes: str, tip: str) -> str:
    """An element; its tooltip, if it has one, is its title."""
    return f"<{kind} {attributes}><title>{escape(tip)}</title></{kind}>" if tip else f"<{kind} {attributes}/>"
