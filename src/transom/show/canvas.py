"""A canvas: the few kinds of marks that every drawing is made of, lowered to SVG with real text and no styles."""

import math
from html import escape
from unicodedata import east_asian_width

from transom.show.colours import FAINT, INK, PAPER, RULE

SANS = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"
NARROW, BROAD = "iljtfrI.,:;'|! ·", "mwMW@%—"
Size = int | float  # a place or a length; the tests tell the two apart
# Inks by name: a page in the dark gives them other colours, a figure on its own these.
INKS = {"ink": INK, "faint": FAINT, "rule": RULE, "paper": PAPER}


def long(text: str, size: Size = 13, mono: bool = False) -> float:
    """How long a text will be at most, in most fonts: what is not measured is guessed generously."""
    return size * sum((broad(sign, mono) for sign in text), 0.0)


def broad(sign: str, mono: bool) -> float:
    if east_asian_width(sign) in "WF":
        return 1.1
    if mono:
        return 0.61
    if sign in NARROW:
        return 0.4
    return 1.02 if sign in BROAD else 0.7 if sign.isupper() else 0.6


def short(number: Size) -> str:
    """A coordinate to a tenth."""
    text = f"{number:.1f}"
    return text[:-2] if text.endswith(".0") else text


class Canvas:
    """Marks, and the room they take: grows as marks are put on it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width: Size = 0.0
        self.height: Size = 0.0

    def reach(self, x: Size, y: Size) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(
        self,
        x: Size,
        y: Size,
        words: str,
        *,
        size: Size = 13,
        anchor: str = "start",
        ink: str = "ink",
        mono: bool = False,
        bold: bool = False,
        turn: Size = 0,
        halo: bool = False,
    ) -> None:
        """Words whose baseline begins, has its middle or ends at a point; `turn` in degrees, `halo` of paper around."""
        marks = f'x="{short(x)}" y="{short(y)}"'
        marks += f' font-size="{short(size)}"' if size != 13 else ""
        marks += f' text-anchor="{anchor}"' if anchor != "start" else ""
        marks += f' font-family="{MONO}"' if mono else ""
        marks += ' font-weight="600"' if bold else ""
        marks += f' transform="rotate({short(turn)} {short(x)} {short(y)})"' if turn else ""
        if halo:
            marks += f' paint-order="stroke" stroke="{PAPER}" stroke-width="3.5" stroke-linejoin="round"'
        self.parts.append(f"<text {marks} {inked('fill', ink, ' halo' if halo else '')}>{escape(words)}</text>")
        if not turn:
            length = long(words, size, mono) * (1.12 if bold else 1.0)
            self.reach(x + {"start": length, "middle": length / 2, "end": 0}[anchor], y + size * 0.3)

    def rect(self, x: Size, y: Size, width: Size, height: Size, ink: str, *, tip: str = "", edge: str = "") -> None:
        marks = f'x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}" {inked("fill", ink)}'
        marks += f' stroke="{INKS.get(edge, edge)}"' if edge else ""
        self.parts.append(tipped("rect", marks, tip))
        self.reach(x + width, y + height)

    def line(self, x: Size, y: Size, x2: Size, y2: Size, ink: str = "rule", width: Size = 1, dash: str = "") -> None:
        marks = f'x1="{short(x)}" y1="{short(y)}" x2="{short(x2)}" y2="{short(y2)}" stroke-width="{short(width)}"'
        marks += f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f"<line {marks} {inked('stroke', ink)}/>")
        self.reach(max(x, x2), max(y, y2))

    def path(self, d: str, ink: str, width: Size = 0, *, opacity: Size = 1, dash: str = "", tip: str = "") -> None:
        """A stroke if it has a width, a filled shape if not; say its reach with `reach`."""
        marks = f'd="{d}" ' + (f'fill="none" {inked("stroke", ink)}' if width else inked("fill", ink))
        marks += f' stroke-width="{width:.2f}"' if width else ""
        marks += f' opacity="{opacity:.2f}"' if opacity < 1 else ""
        marks += f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(tipped("path", marks, tip))

    def circle(self, x: Size, y: Size, radius: Size, ink: str, tip: str = "") -> None:
        marks = f'cx="{short(x)}" cy="{short(y)}" r="{short(radius)}" {inked("fill", ink)}'
        self.parts.append(tipped("circle", marks, tip))
        self.reach(x + radius, y + radius)

    def arrow(self, x: Size, y: Size, x2: Size, y2: Size, ink: str, width: Size = 1.5, tip: str = "") -> None:
        """A straight arrow that ends with its point at (x2, y2)."""
        turn, head = math.atan2(y2 - y, x2 - x), min(5 + 1.5 * width, 0.6 * math.dist((x, y), (x2, y2)))
        back = (x2 - head * math.cos(turn), y2 - head * math.sin(turn))
        self.path(f"M{short(x)} {short(y)}L{short(back[0])} {short(back[1])}", ink, width, tip=tip)
        self.point(x2, y2, turn, head, ink)
        self.reach(max(x, x2), max(y, y2))

    def point(self, x: Size, y: Size, turn: Size, head: Size, ink: str, opacity: Size = 1) -> None:
        """The head of an arrow that flies in a direction, given in radians."""
        corners = [(x - head * math.cos(turn + side), y - head * math.sin(turn + side)) for side in (0.42, -0.42)]
        d = f"M{short(x)} {short(y)}" + "".join(f"L{short(one)} {short(two)}" for one, two in corners) + "Z"
        self.path(d, ink, opacity=opacity)

    def put(self, other: "Canvas", x: Size, y: Size) -> None:
        """Another canvas at a place of this one."""
        self.parts.append(f'<g transform="translate({short(x)} {short(y)})">{"".join(other.parts)}</g>')
        self.reach(x + other.width, y + other.height)

    def svg(self, title: str, margin: Size = 16) -> str:
        """One figure: real text, fonts of the system by name, nothing from elsewhere."""
        width, height = math.ceil(self.width + 2 * margin), math.ceil(self.height + 2 * margin)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' role="img" aria-label="{escape(title)}" font-family="{SANS}" font-size="13">'
            f'<rect width="{width}" height="{height}" {inked("fill", "paper")}/>'
            f'<g transform="translate({short(margin)} {short(margin)})">{"".join(self.parts)}</g></svg>'
        )


def inked(where: str, ink: str, more: str = "") -> str:
    """A colour as an attribute; a named ink also as a class, for pages that are dark."""
    return f'{where}="{INKS[ink]}" class="{ink}-{where}{more}"' if ink in INKS else f'{where}="{ink}"'


def tipped(kind: str, marks: str, tip: str) -> str:
    return f"<{kind} {marks}><title>{escape(tip)}</title></{kind}>" if tip else f"<{kind} {marks}/>"
