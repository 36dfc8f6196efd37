"""Attention as a sequence diagram: scores from the query to each key, weights from each value to the sum."""

from collections.abc import Sequence
from typing import Any

from transom.names import Misfit
from transom.show.look import Look, counted, looked
from transom.show.numbers import grouped, percent, written
from transom.show.panels import Exchange, Message
from transom.show.panels.grid import MASKED
from transom.show.picture import Picture, Table

FEW = 4  # tokens that are all drawn as queries


def sequence(
    thing: Any, *, rows: Sequence[int] | int | None = None, most: int = 8, digits: int = 2, **where: Any
) -> Picture:
    """For each query asked for: its score to every key, the weight of every value, and the weighted sum to the output.

    rows   the tokens that look; unless given, all of at most four, else the last
    most   the keys that get most, at most so many; the figure says what they cover
    """
    look = looked(thing, **where)
    if most < 1:
        raise Misfit(f"at least one key is drawn, but got most={most}; 8 is a good picture")
    size = len(look.rows)
    every = range(size) if size <= FEW else [size - 1]
    asked = (
        list(every)
        if rows is None
        else [counted(row, "queries", size) for row in ([rows] if isinstance(rows, int) else rows)]
    )
    weights, scores = look.weights(rows=asked), look.scores(rows=asked)
    keys = sorted(weights.sum(dim=0).argsort(descending=True, stable=True)[:most].tolist())
    chosen = {
        (row, key): (float(scores[at, key]), float(weights[at, key])) for at, row in enumerate(asked) for key in keys
    }
    panel = exchanged(look, asked, keys, chosen, digits)
    table = Table(
        ("from", "at", "score", "weight"),
        tuple(
            (look.rows[row], look.keys[key], None if score == float("-inf") else score, weight)
            for (row, key), (score, weight) in chosen.items()
        ),
    )
    notes = (
        [MASKED.replace("Grey or –", "An arrow that reads “masked”")]
        if any(score == float("-inf") for score, _ in chosen.values())
        else []
    )
    if len(keys) < len(look.keys):
        share = float(weights[:, keys].sum()) / max(1, len(asked))
        notes.append(
            f"{len(keys)} of {grouped(len(look.keys))} keys are drawn; they got {percent(share)} of the attention."
        )
    return Picture(
        view="sequence",
        title=f"One step at a time: {look.title}",
        panels=(panel,),
        source=look.source,
        notes=tuple(notes),
        table=table,
    )


def exchanged(look: Look, asked: list[int], keys: list[int], chosen: Any, digits: int) -> Exchange:
    """Queries, keys, values, the sum and the output, from left to right, and what passes between them."""
    roles = ["query"] * len(asked) + ["key"] * len(keys) + ["value"] * len(keys) + ["Σ"] + ["output"] * len(asked)
    tokens = (
        [look.rows[row] for row in asked]
        + 2 * [look.keys[key] for key in keys]
        + [""]
        + [look.rows[row] for row in asked]
    )
    first_key, first_value = len(asked), len(asked) + len(keys)
    total = first_value + len(keys)
    messages = []
    for number, row in enumerate(asked):
        for at, key in enumerate(keys):
            score = chosen[row, key][0]
            words = "masked" if score == float("-inf") else written(score, digits)
            messages.append(Message(number, first_key + at, words, "score"))
        for at, key in enumerate(keys):
            if chosen[row, key][1] > 0:
                messages.append(Message(first_value + at, total, written(chosen[row, key][1], digits), "weight"))
        messages.append(Message(total, total + 1 + number, "Weighted Sum", "sum"))
    return Exchange(roles=tuple(roles), parties=tuple(tokens), messages=tuple(messages))
