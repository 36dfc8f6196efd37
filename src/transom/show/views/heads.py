"""All layers and heads at once: a small map of each, with one measure."""

from collections.abc import Iterable, Mapping
from typing import Any

from transom.names import Misfit, count_noun
from transom.show.colours import fit_scale
from transom.show.lesson_sight import StepsSight
from transom.show.panels.grid import Tile, Tiles
from transom.show.picture import Picture, Source, Table
from transom.show.selected_head import attentions_of, mean_of_heads, receipts_summary, trace_labels

MOST_NAMED = 8  # tokens that are named beside a small map
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
    influence: Any = None,
) -> Picture:
    """Every head of a Trace or Sight.

    measure    entropy, peak or distance; or a column of `measures`
    measures   rows with layer, head and numbers, such as those of transom.heads
    maps       whether each head's weights are drawn small
    influence  what transom.influence found: the measure is the change without each head
    """
    if influence is not None:
        measure, measures = "estimate", head_estimates(influence)
    attentions = [(name or "attention", sight) for name, sight in attentions_of(thing)]
    receipts = receipts_summary(attentions)
    numbers = compute_measure(attentions, measure, batch) if measures is None else read_measure(measures, measure)
    side = map_side(attentions) if maps else 0
    tiles = []
    for row, (name, sight) in enumerate(attentions):
        for head in range(sight.shape[1]):
            number = numbers.get((name, head), numbers.get((row, head)))
            tiles.append(Tile(row, head, number, small_map(sight, head, batch, side) if side else ()))
    panel = Tiles(
        rows=tuple(name for name, _ in attentions),
        columns=tuple(str(head) for head in range(max(sight.shape[1] for _, sight in attentions))),
        tiles=tuple(tiles),
        measure=measure_title(measures, measure),
        heat=fit_scale([value for tile in tiles for row in tile.values for value in row], colours, top=1.0),
        **small_labels(thing, attentions, batch, bool(side)),
    )
    note = f"Each small map holds at most {side} × {side} cells, each the largest of its weights; dark is 1."
    return Picture(
        view="heads",
        title=f"{count_noun(len(tiles), 'head')} at a glance",
        panels=(panel,),
        source=Source(model=model, receipt=receipts),
        notes=(note,) if side else (),
        table=Table(
            ("layer", "head", measure), tuple((attentions[tile.row][0], tile.column, tile.number) for tile in tiles)
        ),
    )


def head_estimates(influence: Any) -> list[dict[str, Any]]:
    """The estimate for each head, from a table of heads or by (layer, head)."""
    found = influence.heads()
    if isinstance(found, Mapping):
        return [{"layer": layer, "head": head, "estimate": value} for (layer, head), value in found.items()]
    return list(map(vars, found))


def small_labels(thing: Any, attentions: list[tuple[str, Any]], batch: int, has_maps: bool) -> dict[str, Any]:
    """The tokens beside the small maps, if all of them are small and of the same tokens; otherwise nothing."""
    shapes = {tuple(sight.shape[2:]) for _, sight in attentions}
    if not has_maps or len(shapes) > 1 or max(next(iter(shapes))) > MOST_NAMED:
        return {}
    found = {tuple(map(tuple_or_none, trace_labels(thing, name, sight, batch, False))) for name, sight in attentions}
    rows, keys = next(iter(found))
    queries, columns = next(iter(shapes))
    fits = len(found) == 1 and rows is not None and keys is not None and (len(rows), len(keys)) == (queries, columns)
    return {"tokens": rows, "keys": keys} if fits else {}


def tuple_or_none(labels: Any) -> tuple[str, ...] | None:
    return None if labels is None else tuple(labels)


def measure_title(measures: Any, measure: str) -> str:
    """What the numbers are, in words: the entropy of transom.heads is not that of a Sight."""
    from transom.lens.metrics.head_measures import display_name
    from transom.lens.metrics.head_table import HeadTable

    if measures is None:
        return STATISTICS[measure]
    return display_name(measure) if isinstance(measures, HeadTable) else measure.replace("_", " ")


def compute_measure(attentions: list[tuple[str, Any]], measure: str, batch: int) -> dict[tuple[Any, int], float | None]:
    """The mean of a statistic over all rows, by (number of the layer, head)."""
    if measure not in STATISTICS or not all(hasattr(sight, measure) for _, sight in attentions):
        raise Misfit(f"measure must be one of {', '.join(STATISTICS)}, but got {measure!r}; give others as measures")
    numbers = {}
    for row, (_, sight) in enumerate(attentions):
        for head, mean in enumerate(mean_of_heads(sight, measure, batch)):
            numbers[row, head] = mean
    return numbers


def read_measure(measures: Any, measure: str) -> dict[tuple[Any, int], float | None]:
    """One column of rows that were measured elsewhere, by (layer, head)."""
    rows = [row if isinstance(row, Mapping) else vars(row) for row in getattr(measures, "rows", measures)]
    rows = [{**row, **row["values"]} if isinstance(row.get("values"), Mapping) else row for row in rows]
    if not rows or measure not in rows[0]:
        known = ", ".join(key for key in (rows[0] if rows else {}) if key not in {"layer", "head", "values"}) or "none"
        raise Misfit(f"measure must be a column of measures, one of {known}, but got {measure!r}; name one of them")
    return {(row["layer"], int(row["head"])): row[measure] for row in rows}


def map_side(attentions: list[tuple[str, Any]]) -> int:
    """The side of each small map, in cells; 0 if weights were not stored."""
    if any(sight.full is None for _, sight in attentions):
        return 0
    count = sum(sight.shape[1] for _, sight in attentions)
    return max(4, min(24, int((CELLS / max(1, count)) ** 0.5)))


def small_map(sight: Any, head: int, batch: int, side: int) -> tuple[tuple[float, ...], ...]:
    is_lesson = isinstance(sight, StepsSight)
    weights = sight.all_weights[batch, head] if is_lesson else sight.map(head, side, batch=batch).values
    return tuple(map(tuple, weights.double().tolist()))
