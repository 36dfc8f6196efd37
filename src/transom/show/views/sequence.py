"""Attention as a sequence diagram: scores to the keys, scaled scores to the softmax, weighted values to the sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transom.files.strict_settings import check_at_least
from transom.show.formatting import format_percent, to_fixed
from transom.show.panels.grid import MASKED
from transom.show.panels.sequence_diagram import Message, SequenceDiagram
from transom.show.picture import Picture, Table
from transom.show.selected_head import SelectedHead, select_head

FEW = 4  # a text of at most so many tokens has all its queries drawn
NUMBERS = 4  # of a vector that are written in a box


def sequence(
    thing: Any, *, rows: Sequence[int] | int | None = None, most: int = 8, digits: int = 2, **selection: Any
) -> Picture:
    """For each query: its score for every key, the softmax, the weight of every value, and the weighted sum.

    rows   the queries; by default all of at most four, otherwise the last
    most   the keys that get most, at most so many; the figure says what they cover
    """
    selected = select_head(thing, **selection)
    check_at_least(1, most=most)
    default = range(len(selected.rows)) if len(selected.rows) <= FEW else -1
    queries = selected.row_indices(default if rows is None else rows)
    weights = selected.weights(rows=queries)
    keys = sorted(weights.sum(dim=0).argsort(descending=True, stable=True)[:most].tolist())
    exchange = Exchange(selected, queries, keys, digits)
    table = []
    for (row, key), (raw, taken, weight) in exchange.numbers().items():
        scaled = None if taken == -math.inf else taken
        table.append((selected.rows[row], selected.keys[key], raw, scaled, weight))
    notes = [MASKED.replace("Grey or –", "An arrow that reads “masked”")] if exchange.has_masked() else []
    if len(keys) < len(selected.keys):
        share = format_percent(float(weights[:, keys].sum()) / max(1, len(queries)))
        notes.append(f"{len(keys)} of {len(selected.keys):,} keys are drawn; they got {share} of the attention.")
    return Picture(
        view="sequence",
        title=f"One step at a time: {selected.title}",
        panels=(exchange.diagram(),),
        source=selected.source,
        notes=(*notes, *exchange.vector_notes()),
        table=Table(("from", "at", "score", "into the softmax", "weight"), tuple(table)),
    )


@dataclass(frozen=True)
class Exchange:
    """The queries and keys that are drawn, and the messages between them."""

    selected: SelectedHead
    queries: list[int]
    keys: list[int]
    digits: int

    def numbers(self) -> dict[tuple[int, int], tuple[float | None, float, float]]:
        """By query and key: the raw score (None if it is not known), what the softmax takes, and the weight."""
        raw = self.selected.raw_scores(rows=self.queries)
        taken, weights = self.selected.scores(rows=self.queries), self.selected.weights(rows=self.queries)
        return {
            (row, key): (
                None if raw is None else float(raw[index, key]),
                float(taken[index, key]),
                float(weights[index, key]),
            )
            for index, row in enumerate(self.queries)
            for key in self.keys
        }

    def has_masked(self) -> bool:
        return any(taken == -math.inf for _, taken, _ in self.numbers().values())

    def vector(self, letter: str, row: int) -> tuple[str, ...]:
        """The first numbers of a query, a key or a value; none if it is not known."""
        vectors = self.selected.vectors(letter)
        if vectors is None:
            return ()
        numbers = tuple(to_fixed(value, self.digits) for value in vectors[row, :NUMBERS].tolist())
        return numbers if vectors.shape[1] <= NUMBERS else (*numbers, "…")

    def output(self, index: int) -> tuple[str, ...]:
        """The first numbers of the weighted sum of a query."""
        V = self.selected.vectors("V")
        if V is None:
            return ()
        total = self.selected.weights(rows=self.queries)[index] @ V
        numbers = tuple(to_fixed(value, self.digits) for value in total[:NUMBERS].tolist())
        return numbers if V.shape[1] <= NUMBERS else (*numbers, "…")

    def vector_notes(self) -> list[str]:
        widths = sorted(
            {v.shape[1] for v in map(self.selected.vectors, "QKV") if v is not None and v.shape[1] > NUMBERS}
        )
        return [f"Of {width:,} numbers of a vector, the first {NUMBERS} are written." for width in widths]

    def diagram(self) -> SequenceDiagram:
        """Queries, keys, the softmax, values, the sum and the outputs, from left to right."""
        queries, keys = self.queries, self.keys
        rows, columns = [self.selected.rows[row] for row in queries], [self.selected.keys[key] for key in keys]
        n, m = len(queries), len(keys)
        roles = ["query"] * n + ["key"] * m + ["softmax"] + ["value"] * m + ["Σ"] + ["output"] * n
        tokens = [*rows, *columns, "", *columns, "", *rows]
        values = [self.vector("Q", row) for row in queries] + [self.vector("K", key) for key in keys] + [()]
        values += [*(self.vector("V", key) for key in keys), (), *[()] * n]
        results = [()] * (n + m + 1 + m + 1) + [self.output(index) for index in range(n)]
        return SequenceDiagram(
            roles=tuple(roles),
            parties=tuple(tokens),
            messages=tuple(self.messages(n, n + m, n + m + 1, n + 2 * m + 1)),
            values=tuple(values),
            results=tuple(results),
        )

    def messages(self, first_key: int, softmax: int, first_value: int, total: int) -> list[Message]:
        """Everything that is sent, query by query."""
        numbers, messages, word = self.numbers(), list[Message](), self.selected.softmax_word()
        for number, row in enumerate(self.queries):
            for index, key in enumerate(self.keys):
                raw, taken, _ = numbers[row, key]
                if raw is not None:
                    messages.append(Message(number, first_key + index, f"score {self.text(raw)}", "score"))
                text = "masked" if taken == -math.inf else f"{word} {self.text(taken)}"
                messages.append(Message(first_key + index, softmax, text, "scaled"))
            messages.append(Message(softmax, total, "weights, in all 1", "softmax"))
            for index, key in enumerate(self.keys):
                weight = numbers[row, key][2]
                if weight > 0:
                    messages.append(Message(first_value + index, total, f"weight {self.text(weight)}", "weight"))
            messages.append(Message(total, total + 1 + number, "Weighted Sum", "sum"))
        return messages

    def text(self, number: float) -> str:
        return to_fixed(number, self.digits)
