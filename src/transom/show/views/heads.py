"""All layers and heads at a glance: a small map of each, and one measure under it."""

from collections.abc import Iterable, Mapping
from typing import Any

from transom.names import Misfit
from transom.show.look import attentions_of, receipts_of, whole
from transom.show.panels import Tile, Tiles, heat
from transom.show.picture import Picture, Source, Table
from transom.show.worked import Worked

CELLS = 90_000  # of all small maps together, so that the figure stays below 2 MB
STATISTICS = {"entropy": "mean entropy, nats", "peak": "mean of the largest weight", "distance": "mean distance"}


def heads(
    thing: Any,
    *,
    measure: str = "entropy",
    measures: Iterable[Any] | None = None,
    maps: bool = True,
    colours: str = "blues",
    batch: int = 0,
    model: str = "",
) -> Picture:
    """Every head of a Trace or Sight.

    measure    entropy, peak or distance; or a column of `measures`
    measures   rows with layer, head and numbers, such as those of transom.heads
    maps       whether each head's weights are drawn small
    """
    seen = [(name or "attention", sight) for name, sight in attentions_of(thing)]
    proved = receipts_of(seen)
    numbers = given(measures, measure) if measures is not None else computed(seen, measure, batch)
    side = small(seen) if maps else 0
    tiles = [
        Tile(row, head, number(numbers, row, name, head), tuple(mapped(sight, head, batch, side)) if side else ())
        for row, (name, sight) in enumerate(seen)
        for head in range(whole(sight)[1])
    ]
    most = max(whole(sight)[1] for _, sight in seen)
    panel = Tiles(
        rows=tuple(name for name, _ in seen),
        columns=tuple(str(head) for head in range(most)),
        tiles=tuple(tiles),
        measure=named(measures, measure),
        heat=heat([value for tile in tiles for row in tile.values for value in row], colours, top=1.0),
    )
    notes = (
        [f"Each small map holds at most {side} × {side} cells, each the largest of its weights; dark is 1."]
        if side
        else []
    )
    rows = tuple((seen[tile.row][0], tile.column, tile.number) for tile in tiles)
    return Picture(
        view="heads",
        title=f"{len(tiles)} head{'' if len(tiles) == 1 else 's'} at a glance",
        panels=(panel,),
        source=Source(model=model, receipt=proved),
        notes=tuple(notes),
        table=Table(("layer", "head", measure), rows),
    )


def named(measures: Any, measure: str) -> str:
    """What the numbers are, in words: the entropy of transom.heads is another than that of a Sight."""
    from transom.lens.measuring.head_table import HeadTable
    from transom.lens.measuring.measures import spoken

    if measures is None:
        return STATISTICS[measure]
    return spoken(measure) if isinstance(measures, HeadTable) else measure.replace("_", " ")


def computed(seen: list[tuple[str, Any]], measure: str, batch: int) -> dict[tuple[Any, int], float]:
    if measure not in STATISTICS or not all(hasattr(sight, measure) for _, sight in seen):
        raise Misfit(f"measure must be one of {', '.join(STATISTICS)}, but got {measure!r}; others come by `measures`")
    found = {}
    for row, (_, sight) in enumerate(seen):
        for head, mean in enumerate(getattr(sight, measure)()[batch].double().mean(dim=1).tolist()):
            found[row, head] = mean
    return found


def given(measures: Any, measure: str) -> dict[tuple[Any, int], float | None]:
    """By (layer, head), out of rows that somebody else measured."""
    rows = [one if isinstance(one, Mapping) else vars(one) for one in getattr(measures, "rows", measures)]
    rows = [{**row, **row["values"]} if isinstance(row.get("values"), Mapping) else row for row in rows]
    if not rows or measure not in rows[0]:
        known = ", ".join(key for key in (rows[0] if rows else {}) if key not in {"layer", "head", "values"}) or "none"
        raise Misfit(f"measure must be a column of measures, one of {known}, but got {measure!r}; name one of them")
    return {(row["layer"], int(row["head"])): row[measure] for row in rows}


def number(numbers: Mapping[tuple[Any, int], float | None], row: int, name: str, head: int) -> float | None:
    return numbers.get((name, head), numbers.get((row, head)))


def small(seen: list[tuple[str, Any]]) -> int:
    """The side of each small map; 0 where weights were not kept."""
    from transom.lens import Glance

    if any(isinstance(sight, Glance) for _, sight in seen):
        return 0
    count = sum(whole(sight)[1] for _, sight in seen)
    return max(4, min(24, int((CELLS / max(1, count)) ** 0.5)))


def mapped(sight: Any, head: int, batch: int, side: int) -> Iterable[tuple[float, ...]]:
    weights = sight.all_weights[batch, head] if isinstance(sight, Worked) else sight.map(head, side, batch=batch).values
    return (tuple(row) for row in weights.double().tolist())
