"""The arrows of one head as the page shows them: queries below, keys above.

The page puts this same drawing on the screen. Classes, ids and `data-` attributes are there for it: on a click it hides
and marks elements, as `row` and `key` do here, and draws nothing itself.
"""

from itertools import accumulate

import msgspec

from transom.show.colours import ARROW
from transom.show.formatting import make_visible, short_label, to_fixed
from transom.show.panels.arrows import Arrow, Arrows
from transom.show.svg_canvas import SvgCanvas, short, text_width, with_tooltip

LEAST = 0.02  # weaker arrows are hidden until their row is chosen
NUMBERED = 0.005  # in a chosen row, an arrow of at least this weight has its number
LABEL = 24
FROM, AT, MARK, CHOSEN = "#0b6e4f", "#a04000", "#fff3c4", "#a61b1b"
SIDE = 40.0  # room for the words "from" and "at"
WORD, GAP, RISE = 26.0, 7.0, 190.0  # heights of a word and of the arrows, and the space between words
TOP, LOW = WORD + 6, WORD + 6 + RISE
WIDEST = 11.0


class HeadArrows(msgspec.Struct, frozen=True, tag="head_arrows", kw_only=True):
    """`arrows` hold indices into `rows` and `keys`; `following` has the token that comes after each row, if known.

    With a chosen `row` only its arrows are shown, with their numbers; the arrow at a chosen `key` is marked.
    """

    rows: tuple[str, ...]
    keys: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    following: tuple[str | None, ...] = ()
    row: int | None = None
    key: int | None = None
    title: str = ""
    digits: int = 2

    def is_shown(self, arrow: Arrow) -> bool:
        return arrow.weight >= LEAST if self.row is None else arrow.source == self.row

    def as_list(self) -> Arrows:
        """The arrows that are shown, as a panel that can be written as text."""
        shown = tuple(arrow for arrow in self.arrows if self.is_shown(arrow))
        return Arrows(left=self.rows, right=self.keys, arrows=shown, title=self.title, digits=self.digits)

    def lines(self, width: int, colour: bool) -> list[str]:
        return self.as_list().lines(width, colour)

    def mermaid(self) -> str:
        return self.as_list().mermaid()

    def dot(self) -> str:
        return self.as_list().dot()

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas()
        following = [None if token is None else f"({short_label(token, LABEL)})" for token in self.following]
        beneath = [*following, *[None] * (len(self.rows) - len(following))]
        starts, ends = word_positions(self.rows, beneath), word_positions(self.keys, [None] * len(self.keys))
        if self.rows == self.keys:
            ends = starts  # the two copies of a token stand one above the other
        self.draw_arrows(canvas, [x for x, _ in starts], [x for x, _ in ends])
        canvas.text(0, 18, "at", size=12, ink="faint")
        canvas.place(draw_words("at", self.keys, ends, 0.0, self.key), attributes='class="at"')
        canvas.text(0, LOW + 22, "from", size=12, ink="faint")
        canvas.place(draw_words("from", self.rows, starts, LOW + 4, self.row), attributes='class="from"')
        next_tokens = SvgCanvas()
        for (x, _), token in zip(starts, beneath, strict=True):
            if token is not None:
                next_tokens.text(x, LOW + WORD + 18, token, size=12, anchor="middle", ink="faint")
        canvas.place(next_tokens, attributes='class="next-token"')
        return canvas

    def draw_arrows(self, canvas: SvgCanvas, starts: list[float], ends: list[float]) -> None:
        """The widest arrows last, and above them all the numbers, row by row."""
        rows, keys = ([make_visible(token) for token in side] for side in (self.rows, self.keys))
        numbers = [SvgCanvas() for _ in rows]
        for arrow in sorted(self.arrows, key=lambda arrow: arrow.weight):
            weight, x = to_fixed(arrow.weight, self.digits), ends[arrow.target]
            tip = f"from {rows[arrow.source]} at {keys[arrow.target]}: weight {weight}"
            attributes = self.path_attributes(arrow, starts[arrow.source], x)
            canvas.elements.append(with_tooltip("path", attributes, tip))
            if arrow.weight >= NUMBERED:
                y = TOP + 16 + arrow.target % 2 * 14
                numbers[arrow.source].text(x + 7, y, weight, size=12, halo=True)
        for row, row_numbers in enumerate(numbers):
            hidden = "" if row == self.row else ' display="none"'
            canvas.place(row_numbers, attributes=f'class="numbers" data-row="{row}"{hidden}')

    def path_attributes(self, arrow: Arrow, x: float, x2: float) -> str:
        """The attributes of an arrow's path from a row at x to a key at x2."""
        kind = "arrow" if arrow.weight >= LEAST else "arrow weak"
        d = f"M{short(x)} {short(LOW)}C{short(x)} {short(LOW - RISE / 2)} {short(x2)} {short(TOP + RISE / 2)}"
        attributes = f'class="{kind}" data-row="{arrow.source}" data-key="{arrow.target}" fill="none"'
        attributes += f' d="{d} {short(x2)} {short(TOP)}"'
        attributes += f' stroke-width="{max(0.6, WIDEST * arrow.weight):.2f}"'
        attributes += f' opacity="{0.2 + 0.75 * arrow.weight:.2f}"'
        is_chosen = (arrow.source, arrow.target) == (self.row, self.key)
        attributes += f' stroke="{CHOSEN}" stroke-dasharray="5 4"' if is_chosen else f' stroke="{ARROW}"'
        return attributes if self.is_shown(arrow) else f'{attributes} display="none"'


def word_positions(tokens: tuple[str, ...], beneath: list[str | None]) -> list[tuple[float, float]]:
    """The middle and the width of each word on a line, wide enough for the text beneath it too."""
    widths = [
        max(26.0, 1.12 * text_width(short_label(token, LABEL), 15) + 6, text_width(below or "", 12) + 4)
        for token, below in zip(tokens, beneath, strict=True)
    ]
    lefts = accumulate((width + GAP for width in widths), initial=SIDE)
    return [(left + width / 2, width) for left, width in zip(lefts, widths, strict=False)]


def draw_words(
    side: str, tokens: tuple[str, ...], positions: list[tuple[float, float]], y: float, chosen: int | None
) -> SvgCanvas:
    """The words of one side; each is a group with some room around it, to be clicked."""
    canvas = SvgCanvas()
    for number, (token, (x, width)) in enumerate(zip(tokens, positions, strict=True)):
        word = SvgCanvas()
        word.rect(x - width / 2, y, width, WORD, MARK if number == chosen else "none")
        ink = FROM if side == "from" else AT
        word.text(x, y + 18, short_label(token, LABEL), size=15, anchor="middle", ink=ink, bold=True)
        canvas.place(word, attributes=f'class="word" id="{side}-{number}"')
    return canvas
