"""Tokens, and arrows from those that look to those that are looked at: as wide as the weight."""

import math

import msgspec

from transom.show.canvas import Canvas, Size, long, short
from transom.show.colours import ARROW, dim, inked
from transom.show.escapes import dotted, mermaided
from transom.show.numbers import grouped, written
from transom.show.visible import cells, clipped, padded, visible

LABEL = 22
STEP = 26  # from one token to the next, downwards
BETWEEN = 230  # from column to column
WIDEST = 8.0
FADED = 0.22


class Arrow(msgspec.Struct, frozen=True):
    """From a token on the left to one on the right, both by their place in the lists drawn.

    `effect` is what knocking it out does to the model, where that is known; such arrows are solid or faded by it.
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
        """One line for each arrow, those from one token together."""
        margin = max((cells(clipped(visible(one), LABEL)) for one in self.left), default=4)
        room = max(4, min(24, width - margin - LABEL - 20))
        found = [self.title] if self.title else []
        found.append(f"{padded('from', margin)}  weight{' effect' if self.by_effect() else ''}  at".rstrip())
        last = None
        for arrow in sorted(self.arrows, key=lambda one: (one.source, -one.weight)):
            token = "" if arrow.source == last else visible(self.left[arrow.source])
            last = arrow.source
            shaft = "━" if self.strength(arrow) > 0.5 or not self.by_effect() else "┄"
            line = shaft * max(1, round(arrow.weight * room)) + "▶"
            line = inked(line, (0, 114, 178)) if colour else line
            effect = f" {written(arrow.effect, 3):>6}" if self.by_effect() else ""
            at = clipped(visible(self.right[arrow.target]), LABEL)
            found.append(f"{padded(token, margin)}  {written(arrow.weight, self.digits)}{effect} {line} {at}")
        return found if self.arrows else [*found, dim("no arrows") if colour else "no arrows"]

    def by_effect(self) -> bool:
        return any(arrow.effect is not None for arrow in self.arrows)

    def strength(self, arrow: Arrow) -> float:
        """How solid an arrow is: by its effect where that is known, else by its weight."""
        if not self.by_effect():
            return 0.3 + 0.7 * min(1.0, max(0.0, arrow.weight))
        most = max((abs(one.effect) for one in self.arrows if one.effect is not None), default=0.0)
        share = 0.0 if arrow.effect is None or most == 0 else abs(arrow.effect) / most
        return FADED + (1 - FADED) * math.sqrt(share)

    def told(self, arrow: Arrow) -> str:
        way = f"from {visible(self.left[arrow.source])} at {visible(self.right[arrow.target])}"
        words = f"{way}: weight {written(arrow.weight, self.digits)}"
        return words if arrow.effect is None else f"{words}, effect {written(arrow.effect, 3)}"

    def drawn(self) -> Canvas:
        canvas = Canvas()
        if self.title:
            canvas.text(0, 13, visible(self.title), bold=True)
        return self.along(canvas) if self.in_line else self.columns(canvas)

    def columns(self, canvas: Canvas) -> Canvas:
        top = 24.0 if self.title else 4.0
        left = [clipped(visible(one), LABEL) for one in self.left]
        x = max((long(one) for one in left), default=0) + 4
        canvas.text(x, top + 11, "from", size=11, ink="faint", anchor="end")
        canvas.text(x + BETWEEN, top + 11, "at", size=11, ink="faint")
        starts = places(self.left, self.skipped_left, top + 34)
        ends = places(self.right, self.skipped_right, top + 34)
        for arrow in sorted(self.arrows, key=self.strength):
            self.flight(canvas, arrow, (x + 6, starts[arrow.source]), (x + BETWEEN - 6, ends[arrow.target]))
        for y, label, skipped in zip(starts, left, self.skipped_left or (0,) * len(left), strict=True):
            canvas.text(x, y + 4, label, anchor="end")
            gap(canvas, x, y, skipped, "end")
        for y, token, skipped in zip(ends, self.right, self.skipped_right or (0,) * len(ends), strict=True):
            canvas.text(x + BETWEEN, y + 4, clipped(visible(token), LABEL))
            gap(canvas, x + BETWEEN, y, skipped, "start")
        return canvas

    def flight(self, canvas: Canvas, arrow: Arrow, start: tuple[float, float], end: tuple[float, float]) -> None:
        width, opacity = 0.6 + (WIDEST - 0.6) * min(1.0, arrow.weight), self.strength(arrow)
        head = 4 + width
        middle = (start[0] + end[0]) / 2
        d = (
            f"M{short(start[0])} {short(start[1])}C{short(middle)} {short(start[1])} {short(middle)} {short(end[1])}"
            f" {short(end[0] - head + 1)} {short(end[1])}"
        )
        canvas.path(d, ARROW, width, opacity=opacity, tip=self.told(arrow))
        canvas.point(end[0], end[1], 0.0, head, ARROW, opacity)
        canvas.reach(end[0], max(start[1], end[1]) + 8)

    def along(self, canvas: Canvas) -> Canvas:
        """The text in one line: arcs above it look back or stay, arcs below it look ahead."""
        labels = [clipped(visible(one), LABEL) for one in self.right]
        xs, x = [], 8.0
        for label in labels:
            xs.append(x + long(label) / 2)
            x += long(label) + 22
        arcs = [(xs[arrow.source], xs[arrow.target], arrow) for arrow in self.arrows]
        above = max([30.0, *(rise(one, two) for one, two, arrow in arcs if arrow.target <= arrow.source)])
        base = (24.0 if self.title else 4.0) + above + 16
        for one, two, arrow in sorted(arcs, key=lambda arc: self.strength(arc[2])):
            self.arc(canvas, (one, two), arrow, base)
        for at, label in zip(xs, labels, strict=True):
            canvas.text(at, base + 15, label, anchor="middle")
        return canvas

    def arc(self, canvas: Canvas, ends: tuple[float, float], arrow: Arrow, base: Size) -> None:
        up = arrow.target <= arrow.source
        side, y = (-1, base) if up else (1, base + 22)
        width, opacity = 0.6 + 4.4 * min(1.0, arrow.weight), self.strength(arrow)
        head = 3 + width
        one, two = (ends[0] + 9, ends[1] - 9) if arrow.source == arrow.target else (ends[0] - 4 * -side, ends[1])
        high = y + side * rise(one, two) * 4 / 3
        stop = y + side * (head - 1)
        d = f"M{short(one)} {short(y)}C{short(one)} {short(high)} {short(two)} {short(high)} {short(two)} {short(stop)}"
        canvas.path(d, ARROW, width, opacity=opacity, tip=self.told(arrow))
        canvas.point(two, y, -side * math.pi / 2, head, ARROW, opacity)
        canvas.reach(max(one, two), y + (rise(one, two) if side > 0 else 0))

    def mermaid(self) -> str:
        """A Mermaid flowchart; arrows carry their weights."""
        rows = [f'  l{number}["{mermaided(visible(token))}"]' for number, token in enumerate(self.left)]
        rows += [f'  r{number}["{mermaided(visible(token))}"]' for number, token in enumerate(self.right)]
        rows += [f'  l{one.source} -- "{written(one.weight, self.digits)}" --> r{one.target}' for one in self.arrows]
        return "\n".join(["flowchart LR", *rows, ""])

    def dot(self) -> str:
        """A Graphviz graph; arrows carry their weights, and are as wide as they are strong."""
        rows = [f'  l{number} [label="{dotted(visible(token))}"];' for number, token in enumerate(self.left)]
        rows += [f'  r{number} [label="{dotted(visible(token))}"];' for number, token in enumerate(self.right)]
        rows += [
            f'  l{one.source} -> r{one.target} [label="{written(one.weight, self.digits)}",'
            f" penwidth={0.5 + 5 * one.weight:.2f}];"
            for one in self.arrows
        ]
        return "\n".join(["digraph attention {", "  rankdir=LR; node [shape=plaintext];", *rows, "}", ""])


def places(tokens: tuple[str, ...], skipped: tuple[int, ...], y: Size) -> list[float]:
    """The height of each token; where some are left out, there is a gap before the next."""
    found = []
    for number in range(len(tokens)):
        y += STEP if skipped and skipped[number] else 0
        found.append(y)
        y += STEP
    return found


def gap(canvas: Canvas, x: Size, y: Size, skipped: int, anchor: str) -> None:
    if skipped:
        canvas.text(x, y - STEP + 4, f"⋮ {grouped(skipped)} more", size=11, ink="faint", anchor=anchor)


def rise(one: float, two: float) -> float:
    """How high an arc goes."""
    return min(150.0, 16 + abs(one - two) * 0.34)
