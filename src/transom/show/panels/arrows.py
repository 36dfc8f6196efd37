"""Arrows from queries to keys, as wide as their weights: between two columns, or along one line of text."""

import math

import msgspec

from transom.show.colours import ARROW, dim, paint_text
from transom.show.formatting import escape_dot, escape_mermaid, label_width, make_visible, pad, short_label, to_fixed
from transom.show.svg_canvas import Size, SvgCanvas, short, text_width, widest

LABEL = 22
LINE_HEIGHT = 26  # from one token to the next, downwards
BETWEEN = 230  # from column to column
WIDEST = 8.0
FADED = 0.22


class Arrow(msgspec.Struct, frozen=True):
    """From a token on the left to one on the right, both as indices into the tokens drawn.

    `effect` is how much the model changes when this edge is knocked out, if known; it makes an arrow solid or faded.
    """

    source: int
    target: int
    weight: float
    effect: float | None = None


class Arrows(msgspec.Struct, frozen=True, tag="arrows", kw_only=True):
    """`skipped_left[i]` tokens are left out before token i of the left column, likewise on the right."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    skipped_left: tuple[int, ...] = ()
    skipped_right: tuple[int, ...] = ()
    in_line: bool = False
    title: str = ""
    digits: int = 2

    def lines(self, width: int, colour: bool) -> list[str]:
        """One line for each arrow, grouped by the token they start from."""
        margin = max(label_width(self.left, LABEL), 4)
        longest = max(4, min(24, width - margin - LABEL - 20))
        lines = [self.title] if self.title else []
        lines.append(f"{pad('from', margin)}  weight{' effect' if self.has_effects() else ''}  at".rstrip())
        last = None
        for arrow in sorted(self.arrows, key=lambda arrow: (arrow.source, -arrow.weight)):
            token = "" if arrow.source == last else make_visible(self.left[arrow.source])
            last = arrow.source
            dash = "━" if self.strength(arrow) > 0.5 or not self.has_effects() else "┄"
            shaft = dash * max(1, round(arrow.weight * longest)) + "▶"
            shaft = paint_text(shaft, ARROW) if colour else shaft
            effect = f" {to_fixed(arrow.effect, 3):>6}" if self.has_effects() else ""
            at = short_label(self.right[arrow.target], LABEL)
            lines.append(f"{pad(token, margin)}  {to_fixed(arrow.weight, self.digits)}{effect} {shaft} {at}")
        return lines if self.arrows else [*lines, dim("no arrows") if colour else "no arrows"]

    def has_effects(self) -> bool:
        return any(arrow.effect is not None for arrow in self.arrows)

    def strength(self, arrow: Arrow) -> float:
        """How solid an arrow is: by its effect if effects are known, otherwise by its weight."""
        if not self.has_effects():
            return 0.3 + 0.7 * min(1.0, max(0.0, arrow.weight))
        most = max(abs(other.effect) for other in self.arrows if other.effect is not None)
        share = 0.0 if arrow.effect is None or most == 0 else abs(arrow.effect) / most
        return FADED + (1 - FADED) * math.sqrt(share)

    def arrow_label(self, arrow: Arrow) -> str:
        tokens = f"from {make_visible(self.left[arrow.source])} at {make_visible(self.right[arrow.target])}"
        label = f"{tokens}: weight {to_fixed(arrow.weight, self.digits)}"
        return label if arrow.effect is None else f"{label}, effect {to_fixed(arrow.effect, 3)}"

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.title)
        if self.in_line:
            self.draw_in_line(canvas)
        else:
            self.draw_columns(canvas)
        return canvas

    def draw_columns(self, canvas: SvgCanvas) -> None:
        top = 24.0 if self.title else 4.0
        left, right = ([short_label(token, LABEL) for token in side] for side in (self.left, self.right))
        x = widest(left) + 4
        x2 = x + BETWEEN
        canvas.small_text(x, top + 11, "from", "end")
        canvas.small_text(x2, top + 11, "at")
        starts = token_heights(len(left), self.skipped_left, top + 34)
        ends = token_heights(len(right), self.skipped_right, top + 34)
        for arrow in sorted(self.arrows, key=self.strength):
            self.draw_arrow(canvas, arrow, (x + 6, starts[arrow.source]), (x2 - 6, ends[arrow.target]))
        draw_column(canvas, x, starts, left, self.skipped_left, "end")
        draw_column(canvas, x2, ends, right, self.skipped_right, "start")

    def draw_arrow(self, canvas: SvgCanvas, arrow: Arrow, start: tuple[Size, Size], end: tuple[Size, Size]) -> None:
        width, opacity = 0.6 + (WIDEST - 0.6) * min(1.0, arrow.weight), self.strength(arrow)
        head = 4 + width
        middle = (start[0] + end[0]) / 2
        d = (
            f"M{short(start[0])} {short(start[1])}C{short(middle)} {short(start[1])} {short(middle)} {short(end[1])}"
            f" {short(end[0] - head + 1)} {short(end[1])}"
        )
        canvas.path(d, ARROW, width, opacity=opacity, tip=self.arrow_label(arrow))
        canvas.arrow_head(end[0], end[1], 0.0, head, ARROW, opacity)
        canvas.reach(end[0], max(start[1], end[1]) + 8)

    def draw_in_line(self, canvas: SvgCanvas) -> None:
        """The text in one line: arcs above it look back or stay, arcs below it look ahead."""
        labels = [short_label(token, LABEL) for token in self.right]
        xs, x = [], 8.0
        for label in labels:
            xs.append(x + text_width(label) / 2)
            x += text_width(label) + 22
        back = [arrow for arrow in self.arrows if arrow.target <= arrow.source]
        above = max([30.0, *(arc_height(xs[arrow.source], xs[arrow.target]) for arrow in back)])
        baseline = (24.0 if self.title else 4.0) + above + 16
        for arrow in sorted(self.arrows, key=self.strength):
            self.draw_arc(canvas, arrow, xs[arrow.source], xs[arrow.target], baseline)
        for x, label in zip(xs, labels, strict=True):
            canvas.text(x, baseline + 15, label, anchor="middle")

    def draw_arc(self, canvas: SvgCanvas, arrow: Arrow, x: Size, x2: Size, baseline: Size) -> None:
        side, y = (-1, baseline) if arrow.target <= arrow.source else (1, baseline + 22)
        width, opacity = 0.6 + 4.4 * min(1.0, arrow.weight), self.strength(arrow)
        head = 3 + width
        x, x2 = (x + 9, x2 - 9) if arrow.source == arrow.target else (x + 4 * side, x2)
        rise = arc_height(x, x2)
        control = short(y + side * rise * 4 / 3)
        end = short(y + side * (head - 1))
        d = f"M{short(x)} {short(y)}C{short(x)} {control} {short(x2)} {control} {short(x2)} {end}"
        canvas.path(d, ARROW, width, opacity=opacity, tip=self.arrow_label(arrow))
        canvas.arrow_head(x2, y, -side * math.pi / 2, head, ARROW, opacity)
        canvas.reach(max(x, x2), y + (rise if side > 0 else 0))

    def mermaid(self) -> str:
        """A Mermaid flowchart; arrows carry their weights."""
        lines = ["flowchart LR"]
        for side, tokens in (("l", self.left), ("r", self.right)):
            lines += [f'  {side}{i}["{escape_mermaid(make_visible(token))}"]' for i, token in enumerate(tokens)]
        for arrow in self.arrows:
            weight = to_fixed(arrow.weight, self.digits)
            lines.append(f'  l{arrow.source} -- "{weight}" --> r{arrow.target}')
        return "\n".join([*lines, ""])

    def dot(self) -> str:
        """A Graphviz graph; arrows carry their weights, and are as wide as they are strong."""
        lines = ["digraph attention {", "  rankdir=LR; node [shape=plaintext];"]
        for side, tokens in (("l", self.left), ("r", self.right)):
            lines += [f'  {side}{i} [label="{escape_dot(make_visible(token))}"];' for i, token in enumerate(tokens)]
        for arrow in self.arrows:
            label = f'label="{to_fixed(arrow.weight, self.digits)}", penwidth={0.5 + 5 * arrow.weight:.2f}'
            lines.append(f"  l{arrow.source} -> r{arrow.target} [{label}];")
        return "\n".join([*lines, "}", ""])


def token_heights(count: int, skipped: tuple[int, ...], y: Size) -> list[Size]:
    """The height of each token; where some are left out, there is a gap before the next."""
    heights = []
    for number in range(count):
        y += LINE_HEIGHT if skipped and skipped[number] else 0
        heights.append(y)
        y += LINE_HEIGHT
    return heights


def draw_column(
    canvas: SvgCanvas, x: Size, heights: list[Size], labels: list[str], skipped: tuple[int, ...], anchor: str
) -> None:
    """The tokens of one side, and how many are left out between them."""
    for y, label, count in zip(heights, labels, skipped or (0,) * len(labels), strict=True):
        canvas.text(x, y + 4, label, anchor=anchor)
        if count:
            canvas.small_text(x, y - LINE_HEIGHT + 4, f"⋮ {count:,} more", anchor)


def arc_height(x: Size, x2: Size) -> float:
    return min(150.0, 16 + abs(x - x2) * 0.34)
