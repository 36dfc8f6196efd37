"""A sequence diagram: messages between participants, in order, from top to bottom."""

import msgspec

from transom.show.colours import ARROW, CATEGORIES, OTHER
from transom.show.formatting import escape_dot, escape_mermaid, make_visible, pad, short_label
from transom.show.svg_canvas import SvgCanvas, text_width, widest

LABEL = 16
GAP, LINE_HEIGHT, NUMBER_HEIGHT = 22.0, 24.0, 14.0
KINDS = {
    "score": ARROW,
    "scaled": CATEGORIES[5],
    "softmax": CATEGORIES[3],
    "weight": CATEGORIES[2],
    "sum": OTHER,
}
LEAST = {"Σ": 116.0, "softmax": 96.0}  # room for the words on the arrows that end or start there


class Message(msgspec.Struct, frozen=True):
    """From one participant to another, both by number."""

    source: int
    target: int
    words: str
    kind: str = "score"


class SequenceDiagram(msgspec.Struct, frozen=True, tag="exchange", kw_only=True):
    """`roles[i]` is what participant i is (query, key, value …), `parties[i]` its token, if it has one.

    values    the numbers of its vector, written in its box; none if they are not known
    results   the numbers that it has at the end, written below
    """

    roles: tuple[str, ...]
    parties: tuple[str, ...]
    messages: tuple[Message, ...]
    title: str = ""
    values: tuple[tuple[str, ...], ...] = ()
    results: tuple[tuple[str, ...], ...] = ()

    def name(self, number: int) -> str:
        token = self.parties[number]
        return f"{self.roles[number]} {make_visible(token)}" if token else self.roles[number]

    def numbers_of(self, vectors: tuple[tuple[str, ...], ...], number: int) -> tuple[str, ...]:
        return vectors[number] if vectors else ()

    def lines(self, width: int, colour: bool) -> list[str]:
        margin = max((min(28, len(self.name(message.source))) for message in self.messages), default=1)
        longest = max((len(message.words) for message in self.messages), default=1)
        lines = [self.title] if self.title else []
        lines += self.vector_lines(self.values, width)
        for message in self.messages:
            shaft = f"── {make_visible(message.words)} {'─' * (longest - len(message.words) + 1)}▶"
            lines.append(f"{pad(self.name(message.source), margin)} {shaft} {self.name(message.target)}")
        return lines + self.vector_lines(self.results, width)

    def vector_lines(self, vectors: tuple[tuple[str, ...], ...], width: int) -> list[str]:
        """`query The = [1.00 0.00]`, as many on a line as fit, a new line for each role."""
        lines, last = list[str](), ""
        for number, role in enumerate(self.roles):
            numbers = self.numbers_of(vectors, number)
            if not numbers:
                continue
            text = f"{self.name(number)} = [{' '.join(numbers)}]"
            if role == last and len(lines[-1]) + len(text) + 3 <= width:
                lines[-1] += f"   {text}"
            else:
                lines.append(text)
            last = role
        return lines

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.title)
        top = 26.0 if self.title else 0.0
        widths = [self.width_of(number) for number in range(len(self.roles))]
        xs = [sum(widths[:number]) + GAP * number + width / 2 for number, width in enumerate(widths)]
        tall = 36 + NUMBER_HEIGHT * max((len(numbers) for numbers in self.values), default=0)
        bottom = top + tall + 10 + LINE_HEIGHT * (len(self.messages) + 0.5)
        for number, (x, width) in enumerate(zip(xs, widths, strict=True)):
            canvas.line(x, top + tall, x, bottom, "rule", dash="4 3")
            self.draw_box(canvas, number, x, top, (width, tall))
            self.draw_numbers(canvas, self.numbers_of(self.results, number), x, bottom, width)
        for number, message in enumerate(self.messages):
            self.draw_message(canvas, message, xs, top + tall + 10 + LINE_HEIGHT * (number + 0.7))
        return canvas

    def width_of(self, number: int) -> float:
        """The width of a participant's box: of its name, its role, and the numbers of its vector."""
        role, token = self.roles[number], self.parties[number]
        label = text_width(short_label(token, LABEL), 12) if token else 0.0
        numbers = widest((*self.numbers_of(self.values, number), *self.numbers_of(self.results, number)), 11, mono=True)
        return max(label, text_width(role, 11), numbers, LEAST.get(role, 58.0)) + 12

    def draw_box(self, canvas: SvgCanvas, number: int, x: float, top: float, size: tuple[float, float]) -> None:
        width, tall = size
        role, token = self.roles[number], self.parties[number]
        canvas.rect(x - width / 2, top, width, tall, "paper", edge="faint")
        canvas.text(x, top + (14 if token else 22), role, size=11, ink="faint" if token else "ink", anchor="middle")
        if token:
            canvas.text(x, top + 29, short_label(token, LABEL), size=12, anchor="middle", bold=True)
        for index, text in enumerate(self.numbers_of(self.values, number)):
            canvas.text(x + 16, top + 44 + NUMBER_HEIGHT * index, text, size=11, mono=True, anchor="end")

    def draw_numbers(self, canvas: SvgCanvas, numbers: tuple[str, ...], x: float, top: float, width: float) -> None:
        """The vector that a participant has at the end, in a box."""
        if not numbers:
            return
        canvas.rect(x - width / 2, top, width, 8 + NUMBER_HEIGHT * len(numbers), "paper", edge="faint")
        for index, text in enumerate(numbers):
            canvas.text(x + 16, top + 15 + NUMBER_HEIGHT * index, text, size=11, mono=True, anchor="end")

    def draw_message(self, canvas: SvgCanvas, message: Message, xs: list[float], y: float) -> None:
        start, end, text = xs[message.source], xs[message.target], make_visible(message.words)
        tip = f"{self.name(message.source)} to {self.name(message.target)}: {text}"
        canvas.arrow(start, y, end, y, KINDS[message.kind], 1.6, tip)
        # Beside the arrow's head, where no other text is; on a ground of paper, so that no lifeline crosses it.
        length = text_width(text, 11, mono=True)
        x = end - 10 - length if end > start else end + 10
        canvas.rect(x - 2, y - 14, length + 4, 11, "paper")
        canvas.text(x, y - 5, text, size=11, mono=True)

    def mermaid(self) -> str:
        """A Mermaid sequence diagram; vectors are in the names, and in notes at the end."""
        lines = ["sequenceDiagram"]
        for number in range(len(self.roles)):
            name = " ".join([self.name(number), *self.numbers_of(self.values, number)])
            lines.append(f"  participant p{number} as {escape_mermaid(name)}")
        for message in self.messages:
            lines.append(f"  p{message.source}->>p{message.target}: {escape_mermaid(make_visible(message.words))}")
        for number in range(len(self.roles)):
            numbers = self.numbers_of(self.results, number)
            if numbers:
                lines.append(f"  Note over p{number}: {escape_mermaid(' '.join(numbers))}")
        return "\n".join([*lines, ""])

    def dot(self) -> str:
        """A Graphviz graph."""
        lines = ["digraph sequence {", "  rankdir=LR; node [shape=box];"]
        for number in range(len(self.roles)):
            numbers = (*self.numbers_of(self.values, number), *self.numbers_of(self.results, number))
            label = escape_dot(" ".join([self.name(number), *numbers]))
            lines.append(f'  p{number} [label="{label}"];')
        for message in self.messages:
            label = escape_dot(make_visible(message.words))
            lines.append(f'  p{message.source} -> p{message.target} [label="{label}"];')
        return "\n".join([*lines, "}", ""])
