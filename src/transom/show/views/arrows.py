"""Arrows from the tokens that look to those they look at: the strongest, with how much of the attention they cover."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from transom.names import Misfit
from transom.show.look import Look, looked
from transom.show.numbers import grouped, percent
from transom.show.panels import Arrow, Arrows
from transom.show.picture import Picture, Table
from transom.show.sinks import Sinks, sinks

Edge = tuple[int, int]
FEW = 40  # tokens that are all shown, whether an arrow touches them or not
BAND = 1 << 20


def arrows(
    thing: Any,
    *,
    most: int = 60,
    least: float = 0.02,
    rows: Sequence[int] | None = None,
    hide: Sequence[int] | int = (),
    renormalise: bool = False,
    effect: Mapping[Edge, float] | Iterable[Any] | None = None,
    in_line: bool = False,
    **where: Any,
) -> Picture:
    """One head as arrows, as wide as their weights.

    most, least   the strongest arrows, at most so many, of at least this weight; the figure says what they cover
    rows          only those from these tokens
    effect        {(from, at): number}, or the rows of transom.effect: arrows are solid or faded by it
    in_line       the text in one line with arcs, instead of two columns; for attention of a text at itself
    """
    look = looked(thing, **where)
    sink = sinks(look, hide, renormalise)
    asked = list(range(len(look.rows))) if rows is None else sorted({inside(row, len(look.rows)) for row in rows})
    found, total = strongest(look, sink, asked, most, least)
    effects = effects_of(effect, look)
    if in_line and look.rows != look.keys:
        raise Misfit("arrows in a line need a text that looks at itself, but the two sides differ; leave in_line out")
    whole = len(look.rows) <= FEW and len(look.keys) <= FEW and rows is None
    left = list(range(len(look.rows))) if whole or in_line else sorted({row for row, _, _ in found})
    right = list(range(len(look.keys))) if whole or in_line else sorted({key for _, key, _ in found})
    if in_line:
        left = right = (
            sorted({*asked, *left} & {one for row, key, _ in found for one in (row, key)}) if not whole else left
        )
    at_left, at_right = ({token: place for place, token in enumerate(side)} for side in (left, right))
    drawn = tuple(Arrow(at_left[row], at_right[key], weight, effects.get((row, key))) for row, key, weight in found)
    panel = Arrows(
        left=tuple(look.rows[row] for row in left),
        right=tuple(look.keys[key] for key in right),
        arrows=drawn,
        skipped_left=gaps(left, len(look.rows)),
        skipped_right=gaps(right, len(look.keys)),
        in_line=in_line,
    )
    return Picture(
        view="arrows",
        title=f"The strongest arrows of {look.title}",
        panels=(panel,),
        source=look.source,
        notes=(*told(look, sink, found, total, asked), *by_effect(drawn)),
        table=tabled(look, found, effects),
    )


def inside(row: int, size: int) -> int:
    if not -size <= row < size:
        raise Misfit(f"there are queries={size}, so {row} is none of them; count from 0 to {size - 1}, or back from -1")
    return row % size


def strongest(
    look: Look, sink: Sinks, asked: list[int], most: int, least: float
) -> tuple[list[tuple[int, int, float]], int]:
    """(from, at, weight) of the strongest arrows in order of tokens, and how many there are at all."""
    import torch

    if most < 1:
        raise Misfit(f"at least 1 arrow is drawn, but got most={most}; 60 is a good picture")
    kept = sink.kept(len(look.keys))
    found: list[tuple[int, int, float]] = []
    total = 0
    at_once = max(1, BAND // max(1, len(look.keys)))
    for first in range(0, len(asked), at_once):
        few = asked[first : first + at_once]
        weights = sink.without(look.weights(rows=few))
        total += int((weights > 0).sum())
        top = torch.topk(weights.flatten(), min(most, weights.numel()))
        found += [
            (few[place // len(kept)], kept[place % len(kept)], weight)
            for weight, place in zip(top.values.tolist(), top.indices.tolist(), strict=True)
            if weight >= least
        ]
        found = sorted(found, key=lambda one: -one[2])[:most]
    return sorted(found), total


def effects_of(effect: Any, look: Look) -> dict[Edge, float]:
    """Effects by (from, at): as they came, or out of rows that name layer and head, such as those of transom.effect."""
    if effect is None:
        return {}
    if isinstance(effect, Mapping):
        return {(int(row), int(key)): float(value) for (row, key), value in effect.items()}
    rows = [one if isinstance(one, Mapping) else vars(one) for one in getattr(effect, "rows", effect)]
    own = [
        row for row in rows if row.get("head", look.head) == look.head and row.get("layer", look.layer) == look.layer
    ]
    return {(int(row["query"]), int(row["key"])): worth(row) for row in own}


def worth(row: Mapping[str, Any]) -> float:
    """What an arrow is worth: its effect as it came, else KL in nats, else the change of the output."""
    found = next((row[name] for name in ("effect", "kl", "change") if row.get(name) is not None), None)
    if found is None:
        raise Misfit("a row of effects needs effect, kl or change, but it has none; take the rows of transom.effect")
    return float(found)


def gaps(shown: list[int], size: int) -> tuple[int, ...]:
    """How many tokens are left out before each that is shown."""
    return tuple(here - before - 1 for before, here in zip([-1, *shown], shown, strict=False))


def told(look: Look, sink: Sinks, found: Any, total: int, asked: list[int]) -> list[str]:
    notes = sink.notes(look)
    share = sum(weight for _, _, weight in found) / max(1, len(asked))
    size = f"{grouped(len(found))} of {grouped(total)} arrows are drawn"
    tokens = f"{grouped(len(asked))} token{'' if len(asked) == 1 else 's'}"
    of = "the attention left" if sink.renormalised else "the attention"
    notes.append(f"{size}; they cover {percent(share)} of {of} from {tokens}.")
    return notes


def by_effect(drawn: tuple[Arrow, ...]) -> list[str]:
    """What solid and faded mean, and how many arrows nobody tried."""
    unknown = sum(arrow.effect is None for arrow in drawn)
    if unknown == len(drawn):
        return []
    notes = [
        "The more solid an arrow, the more knocking it out changes what the model says; faded or dotted means hardly."
    ]
    return [*notes, f"{unknown} of these arrows were not knocked out, and are faded too."] if unknown else notes


def tabled(look: Look, found: Any, effects: dict[Edge, float]) -> Table:
    rows = [(look.rows[row], row, look.keys[key], key, weight, effects.get((row, key))) for row, key, weight in found]
    columns = ("from", "row", "at", "key", "weight", "effect")
    return Table(columns, tuple(rows)) if effects else Table(columns[:-1], tuple(row[:-1] for row in rows))
