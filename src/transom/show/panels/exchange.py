"""A sequence diagram: who sends what to whom, in order, downwards."""

import msgspec

from transom.show.canvas import Canvas, long
from transom.show.colours import ARROW, CATEGORIES, OTHER
from transom.show.escapes import dotted, mermaided
from transom.show.visible import clipped, padded, visible

LABEL = 16
GAP, STEP = 22.0, 24.0


class Message(msgspec.Struct, frozen=True):
    """From one of the parties to another, both by number."""

    source: int
    target: int
    words: str
    kind: str = "score"


KINDS = {"score": ARROW, "weight": CATEGORIES[2], "sum": OTHER}


class Exchange(msgspec.Struct, frozen=True, tag="exchange", kw_only=True):
    """`roles[i]` says what party i is (query, key, value …), `parties[i]` which token it belongs to, if any."""

    roles: tuple[str, ...]
    parties: tuple[str, ...]
    messages: tuple[Message, ...]
    title: str = ""

    def name(self, number: int) -> str:
        token = self.parties[number]
        return f"{self.roles[number]} {visible(token)}" if token else self.roles[number]

    def lines(self, width: int, colour: bool) -> list[str]:
        margin = max(min(28, len(self.name(one.source))) for one in self.messages) if self.messages else 1
        words = max((len(one.words) for one in self.messages), default=1)
        found = [self.title] if self.title else []
        for one in self.messages:
            shaft = f"── {visible(one.words)} {'─' * (words - len(one.words) + 1)}▶"
            found.append(f"{padded(self.name(one.source), margin)} {shaft} {self.name(one.target)}")
        return found

    def drawn(self) -> Canvas:
        canvas = Canvas()
        if self.title:
            canvas.text(0, 13, visible(self.title), bold=True)
        top = 26.0 if self.title else 0.0
        labels = [clipped(visible(one), LABEL) if one else "" for one in self.parties]
        least = {"Σ": 92.0}  # room for “Weighted Sum” to the next
        wide = [
            max(long(one, 12), long(role, 11), least.get(role, 44.0)) + 12
            for one, role in zip(labels, self.roles, strict=True)
        ]
        xs = [sum(wide[:number]) + GAP * number + wide[number] / 2 for number in range(len(wide))]
        bottom = top + 46 + STEP * (len(self.messages) + 0.5)
        for x, width, label, role in zip(xs, wide, labels, self.roles, strict=True):
            canvas.rect(x - width / 2, top, width, 36, "paper", edge="faint")
            canvas.text(x, top + (14 if label else 22), role, size=11, ink="faint" if label else "ink", anchor="middle")
            canvas.text(x, top + 29, label, size=12, anchor="middle", bold=True)
            canvas.line(x, top + 36, x, bottom, "rule", dash="4 3")
        for number, message in enumerate(self.messages):
            self.sent(canvas, message, xs, top + 46 + STEP * (number + 0.7))
        return canvas

    def sent(self, canvas: Canvas, message: Message, xs: list[float], y: float) -> None:
        start, end = xs[message.source], xs[message.target]
        canvas.arrow(
            start,
            y,
            end,
            y,
            KINDS[message.kind],
            1.6,
            f"{self.name(message.source)} to {self.name(message.target)}: {visible(message.words)}",
        )
        # Beside the arrow's head, where no other words are: on a ground of paper, so that lifelines do not cross it.
        words = visible(message.words)
        length = long(words, 11, mono=True)
        x = end - 10 - length if end > start else end + 10
        canvas.rect(x - 2, y - 14, length + 4, 11, "paper")
        canvas.text(x, y - 5, words, size=11, mono=True)

    def mermaid(self) -> str:
        """A Mermaid sequence diagram."""
        rows = [f"  participant p{number} as {mermaided(self.name(number))}" for number in range(len(self.roles))]
        rows += [f"  p{one.source}->>p{one.target}: {mermaided(visible(one.words))}" for one in self.messages]
        return "\n".join(["sequenceDiagram", *rows, ""])

    def dot(self) -> str:
        """A Graphviz graph."""
        rows = [f'  p{number} [label="{dotted(self.name(number))}"];' for number in range(len(self.roles))]
        rows += [f'  p{one.source} -> p{one.target} [label="{dotted(visible(one.words))}"];' for one in self.messages]
        return "\n".join(["digraph sequence {", "  rankdir=LR; node [shape=box];", *rows, "}", ""])
