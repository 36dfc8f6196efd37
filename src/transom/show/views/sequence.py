"""Attention as a sequence diagram: scores from the query to each key, weights from each value to the sum."""

import math
from collections.abc import Sequence
from typing import Any

from transom.files.strict_settings import check_at_least
from transom.show.formatting import format_percent, to_fixed
from transom.show.panels.grid import MASKED
from transom.show.panels.sequence_diagram import Message, SequenceDiagram
from transom.show.picture import Picture, Table
from transom.show.selected_head import SelectedHead, select_head

FEW = 4  # a text of at most so many tokens has all its queries drawn


def sequence(
    thing: Any, *, rows: Sequence[int] | int | None = None, most: int = 8, digits: int = 2, **selection: Any
) -> Picture:
    """For each query: its score for every key, the weight of every value, and the weighted sum to the output.

    rows   the queries; by default all of at most four, otherwise the last
    most   the keys that get most, at most so many; the figure says what they cover
    """
    selected = select_head(thing, **selection)
    check_at_least(1, most=most)
    default = range(len(selected.rows)) if len(selected.rows) <= FEW else -1
    queries = selected.row_indices(default if rows is None else rows)
    weights, scores = selected.weights(rows=queries), selected.scores(rows=queries)
    keys = sorted(weights.sum(dim=0).argsort(descending=True, stable=True)[:most].tolist())
    numbers = {
        (row, key): (float(scores[index, key]), float(weights[index, key]))
        for index, row in enumerate(queries)
        for key in keys
    }
    table = []
    for (row, key), (score, weight) in numbers.items():
        table.append((selected.rows[row], selected.keys[key], None if score == -math.inf else score, weight))
    masked = any(score == -math.inf for score, _ in numbers.values())
    notes = [MASKED.replace("Grey or –", "An arrow that reads “masked”")] if masked else []
    if len(keys) < len(selected.keys):
        share = format_percent(float(weights[:, keys].sum()) / max(1, len(queries)))
        notes.append(f"{len(keys)} of {len(selected.keys):,} keys are drawn; they got {share} of the attention.")
    return Picture(
        view="sequence",
        title=f"One step at a time: {selected.title}",
        panels=(build_diagram(selected, queries, keys, numbers, digits),),
        source=selected.source,
        notes=tuple(notes),
        table=Table(("from", "at", "score", "weight"), tuple(table)),
    )


def build_diagram(
    selected: SelectedHead,
    queries: list[int],
    keys: list[int],
    numbers: dict[tuple[int, int], tuple[float, float]],
    digits: int,
) -> SequenceDiagram:
    """Queries, keys, values, the sum and the outputs, from left to right; `numbers` has the score and the weight."""
    query_tokens, key_tokens = [selected.rows[row] for row in queries], [selected.keys[key] for key in keys]
    roles = ["query"] * len(queries) + ["key"] * len(keys) + ["value"] * len(keys) + ["Σ"] + ["output"] * len(queries)
    tokens = [*query_tokens, *key_tokens, *key_tokens, "", *query_tokens]
    first_key, first_value = len(queries), len(queries) + len(keys)
    total = first_value + len(keys)
    messages = []
    for number, row in enumerate(queries):
        for index, key in enumerate(keys):
            score = numbers[row, key][0]
            text = "masked" if score == -math.inf else to_fixed(score, digits)
            messages.append(Message(number, first_key + index, text, "score"))
        for index, key in enumerate(keys):
            weight = numbers[row, key][1]
            if weight > 0:
                messages.append(Message(first_value + index, total, to_fixed(weight, digits), "weight"))
        messages.append(Message(total, total + 1 + number, "Weighted Sum", "sum"))
    return SequenceDiagram(roles=tuple(roles), parties=tuple(tokens), messages=tuple(messages))
