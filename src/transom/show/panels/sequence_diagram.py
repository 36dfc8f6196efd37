"""A sequence diagram: messages between participants, in order, from top to bottom."""

import msgspec

from transom.show.colours import ARROW, CATEGORIES, OTHER
from transom.show.formatting import escape_dot, escape_mermaid, make_visible, pad, short_label
from transom.show.svg_canvas import SvgCanvas, text_width

LABEL = 16
GAP, LINE_HEIGHT = 22.0, 24.0
KINDS = {"score": ARROW, "weight": CATEGORIES[2], "sum": OTHER}


class Message(msgspec.Struct, frozen=True):
    """From one participant to another, both by number."""

    source: int
    target: int
    words: str
    kind: str = "score"


class SequenceDiagram(msgspec.Struct, frozen=True, tag="exchange", kw_only=True):
    """`roles[i]` is what participant i is (query, key, value …), `parties[i]` its token, if it has one."""

    roles: tuple[str, ...]
    parties: tuple[str, ...]
    messages: tuple[Message, ...]
    title: str = ""

    def name(self, number: int) -> str:
        token = self.parties[number]
        return f"{self.roles[number]} {make_visible(token)}" if token else self.roles[number]

    def lines(self, width: int, colour: bool) -> list[str]:
        margin = max((min(28, len(self.name(message.source))) for message in self.messages), default=1)
        longest = max((len(message.words) for message in self.messages), default=1)
        lines = [self.title] if self.title else []
        for message in self.messages:
            shaft = f"── {make_visible(message.words)} {'─' * (longest - len(message.words) + 1)}▶"
            lines.append(f"{pad(self.name(message.source), margin)} {shaft} {self.name(message.target)}")
        return lines

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.title)
        top = 26.0 if self.title else 0.0
        labels = [short_label(token, LABEL) if token else "" for token in self.parties]
        least = {"Σ": 92.0}  # room for “Weighted Sum” before the next participant
        widths = [
            max(text_width(label, 12), text_width(role, 11), least.get(role, 44.0)) + 12
            for label, role in zip(labels, self.roles, strict=True)
        ]
        xs = [sum(widths[:number]) + GAP * number + width / 2 for number, width in enumerate(widths)]
        bottom = top + 46 + LINE_HEIGHT * (len(self.messages) + 0.5)
        for x, width, label, role in zip(xs, widths, labels, self.roles, strict=True):
            canvas.rect(x - width / 2, top, width, 36, "paper", edge="faint")
            canvas.text(x, top + (14 if label else 22), role, size=11, ink="faint" if label else "ink", anchor="middle")
            canvas.text(x, top + 29, label, size=12, anchor="middle", bold=True)
            canvas.line(x, top + 36, x, bottom, "rule", dash="4 3")
        for number, message in enumerate(self.messages):
            self.draw_message(canvas, message, xs, top + 46 + LINE_HEIGHT * (number + 0.7))
        return canvas

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
        """A Mermaid sequence diagram."""
        lines = ["sequenceDiagram"]
        lines += [
            f"  participant p{number} as {escape_mermaid(self.name(number))}" for number in range(len(self.roles))
        ]
        for message in self.messages:
            lines.append(f"  p{message.source}->>p{message.target}: {escape_mermaid(make_visible(message.words))}")
        return "\n".join([*lines, ""])

    def dot(self) -> str:
        """A Graphviz graph."""
        lines = ["digraph sequence {", "  rankdir=LR; node [shape=box];"]
        lines += [f'  p{number} [label="{escape_dot(self.name(number))}"];' for number in range(len(self.roles))]
        for message in self.messages:
            label = escape_dot(make_visible(message.words))
            lines.append(f'  p{message.source} -> p{message.target} [label="{label}"];')
        return "\n".join([*lines, "}", ""])
