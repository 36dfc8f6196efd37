"""Heads folded and unfolded: one wide matrix, a block of columns for each head, and the blocks side by side again."""

import msgspec

from transom.show.colours import CATEGORIES
from transom.show.formatting import clip, pad, short_label, to_fixed
from transom.show.svg_canvas import SvgCanvas, text_width

CELL, ROW, LABEL = 46.0, 24.0, 12
Rows = tuple[tuple[float, ...], ...]


class FoldDiagram(msgspec.Struct, frozen=True, tag="fold", kw_only=True):
    """`wide[i]` and `sums[i]` are the columns of head i before its attention and after it, a row for each token."""

    tokens: tuple[str, ...]
    wide: tuple[Rows, ...]
    sums: tuple[Rows, ...]
    letter: str = "Q"
    digits: int = 2
    title: str = ""

    def lines(self, width: int, colour: bool) -> list[str]:
        margin = max(len(short_label(token, LABEL)) for token in self.tokens)
        lines = [self.title] if self.title else []
        lines += [f"fold: the columns of {self.letter} are cut, a block for each head"]
        lines += self.joined_lines(self.wide, margin)
        for number, head in enumerate(self.sums):
            lines += [f"head {number} looks by itself, and finds"]
            lines += [f"  {self.label(row, margin)} {self.numbers(values)}" for row, values in enumerate(head)]
        lines += ["unfold: the blocks are put side by side", *self.joined_lines(self.sums, margin)]
        return [clip(line, width) for line in lines]

    def label(self, row: int, margin: int) -> str:
        return pad(short_label(self.tokens[row], LABEL), margin)

    def numbers(self, values: tuple[float, ...]) -> str:
        return " ".join(f"{to_fixed(value, self.digits):>6}" for value in values)

    def joined_lines(self, heads: tuple[Rows, ...], margin: int) -> list[str]:
        return [
            f"  {self.label(row, margin)} {' ┃'.join(self.numbers(head[row]) for head in heads)}"
            for row in range(len(self.tokens))
        ]

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.title)
        top = 30.0 if self.title else 0.0
        margin = max(text_width(short_label(token, LABEL), 12) for token in self.tokens) + 10
        tall = ROW * len(self.tokens)
        step = tall + 46
        height = step * len(self.wide)
        middle = top + 20 + (height - tall - 26) / 2
        wide_width = self.draw_blocks(canvas, self.wide, margin, middle, f"{self.letter}, all heads")
        x = margin + wide_width + 90
        ends = []
        for number, (queries, sums) in enumerate(zip(self.wide, self.sums, strict=True)):
            y = top + 20 + number * step
            canvas.arrow(margin + wide_width + 8, middle + tall / 2, x - 10, y + tall / 2, head_ink(number), 1.6)
            width = self.draw_matrix(canvas, queries, x, y, number, f"{self.letter}, head {number}")
            canvas.arrow(x + width + 8, y + tall / 2, x + width + 92, y + tall / 2, head_ink(number), 1.6)
            canvas.text(x + width + 50, y + tall / 2 - 8, "attention", size=11, ink="faint", anchor="middle")
            after = x + width + 100
            width = self.draw_matrix(canvas, sums, after, y, number, f"sum, head {number}")
            ends.append((after + width + 8, y + tall / 2))
        right = max(end for end, _ in ends) + 74
        for number, (start, y) in enumerate(ends):
            canvas.arrow(start, y, right - 10, middle + tall / 2, head_ink(number), 1.6)
        self.draw_blocks(canvas, self.sums, right, middle, "side by side")
        canvas.text(margin + wide_width + 46, top + 12, "fold", size=14, bold=True, anchor="middle")
        canvas.text(right - 42, top + 12, "unfold", size=14, bold=True, anchor="middle")
        for row, token in enumerate(self.tokens):
            canvas.text(margin - 8, middle + ROW * (row + 0.7), short_label(token, LABEL), size=12, anchor="end")
        return canvas

    def draw_blocks(self, canvas: SvgCanvas, heads: tuple[Rows, ...], x: float, y: float, name: str) -> float:
        """The matrices of all heads side by side; returns their width."""
        start = x
        for number, head in enumerate(heads):
            x += self.draw_matrix(canvas, head, x, y, number, "")
        canvas.text(start, y - 6, name, size=12, bold=True)
        return x - start

    def draw_matrix(self, canvas: SvgCanvas, rows: Rows, x: float, y: float, head: int, name: str) -> float:
        """The matrix of one head, in the colour of the head; returns its width."""
        if name:
            canvas.text(x, y - 6, name, size=12, bold=True)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                left, up = x + CELL * j, y + ROW * i
                canvas.rect(left, up, CELL, ROW, tint(head), edge="paper")
                canvas.text(left + CELL - 6, up + 16, to_fixed(value, self.digits), size=12, mono=True, anchor="end")
        return CELL * len(rows[0])


def head_ink(head: int) -> str:
    return CATEGORIES[head % len(CATEGORIES)]


def tint(head: int) -> str:
    """The colour of a head, mixed with much white, so that black numbers can be read on it."""
    ink = head_ink(head)
    channels = [int(ink[place : place + 2], 16) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - channel) * 0.22):02x}" for channel in channels)
