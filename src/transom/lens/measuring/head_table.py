"""The measures of every head as a table: to sort, to filter, to print, as CSV and as JSON."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from transom.files.strict import nearest
from transom.files.terminal import escape_controls
from transom.lens.measuring.head_sums import HeadSums
from transom.lens.measuring.measures import SPOKEN
from transom.names import Misfit, whole_number

UNTOLD = "no row has what it asks for"
HEADINGS = {"entropy": SPOKEN["entropy"], "entropy_without_sink": "without sink"}


@dataclass(frozen=True)
class HeadRow:
    """One head: its measures by name, None where there is none, and the rows each is the mean of."""

    layer: str
    head: int
    cross: bool
    values: dict[str, float | None]
    counts: dict[str, int]

    def __getitem__(self, measure: str) -> float | None:
        if measure not in self.values:
            raise Misfit(f"{measure!r} was not measured; {nearest(measure, self.values)}")
        return self.values[measure]


class HeadTable:
    """Rows of heads, in the order of the layers; `missing` says why a measure of a layer is None."""

    def __init__(self, measures: Sequence[str], rows: Sequence[HeadRow], missing: dict[tuple[str, str], str]) -> None:
        self.measures, self.rows, self.missing = tuple(measures), list(rows), missing

    @classmethod
    def of(cls, sums: HeadSums) -> "HeadTable":
        """The means that sums tell."""
        rows = [
            HeadRow(
                name,
                head,
                layer.cross,
                {measure: layer.mean(measure, head) for measure in sums.measures},
                {measure: layer.counts[measure][head] if measure in layer.counts else 0 for measure in sums.measures},
            )
            for name, layer in sums.layers.items()
            for head in range(layer.heads)
        ]
        missing = {
            (name, measure): layer.missing.get(measure, UNTOLD)
            for name, layer in sums.layers.items()
            for measure in sums.measures
            if not any(layer.counts.get(measure, ()))
        }
        return cls(sums.measures, rows, missing)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[HeadRow]:
        return iter(self.rows)

    def __getitem__(self, place: tuple[str, int] | int) -> HeadRow:
        """The row of a (layer, head), or that of a number, counted as the table lists them."""
        if (number := whole_number(place)) is not None:
            if not -len(self.rows) <= number < len(self.rows):
                raise Misfit(f"the table has {len(self.rows)} rows, so {number} is none of them; ask for (layer, head)")
            return self.rows[number]
        if not isinstance(place, tuple):
            raise Misfit(
                f"a row is asked for by (layer, head) or by its number, but got {place!r:.60}; only(…) picks several"
            )
        found = next((row for row in self.rows if (row.layer, row.head) == place), None)
        if found is None:
            layers = list(dict.fromkeys(row.layer for row in self.rows))
            raise Misfit(f"there is no head {place!r}; {nearest(str(place[0]) if place else '', layers)}")
        return found

    def sorted(self, by: str, most: int | None = None) -> "HeadTable":
        """The heads with the highest measure first, or only so many of them; those without it come last."""
        if by not in self.measures:
            raise Misfit(f"{by!r} was not measured; {nearest(by, self.measures)}")

        def place(row: HeadRow) -> tuple[bool, float]:
            value = row.values[by]
            return (value is None, 0.0 if value is None else -value)

        return HeadTable(self.measures, sorted(self.rows, key=place)[:most], self.missing)

    def only(self, wanted: Callable[[HeadRow], bool]) -> "HeadTable":
        """The heads that are wanted: `table.only(lambda row: row.cross)`."""
        return HeadTable(self.measures, [row for row in self.rows if wanted(row)], self.missing)

    def told(self) -> list[dict[str, object]]:
        """A plain dict per head."""
        return [
            {"layer": row.layer, "head": row.head, "cross": row.cross, **row.values, "rows": row.counts}
            for row in self.rows
        ]

    def json(self) -> str:
        """Rows, and why measures are missing."""
        missing = [{"layer": layer, "measure": measure, "why": why} for (layer, measure), why in self.missing.items()]
        return json.dumps({"heads": self.told(), "missing": missing}, indent=2, ensure_ascii=False)

    def csv(self) -> str:
        """A line per head; empty where there is no number."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(["layer", "head", "cross", *self.measures])
        for row in self.rows:
            numbers = ("" if value is None else repr(value) for value in row.values.values())
            lines.writerow([row.layer, row.head, int(row.cross), *numbers])
        return text.getvalue()

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """Aligned, with the reasons for what is missing below; measures that `width` has no room for come beneath."""
        head = ["layer", "head", *(HEADINGS.get(measure, measure) for measure in self.measures)]
        cells = [head] + [
            [row.layer, str(row.head), *("–" if value is None else f"{value:.3f}" for value in row.values.values())]
            for row in self.rows
        ]
        widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
        lines = []
        for columns in parted(widths, width):
            lines += [""] if lines else []
            for line in cells:
                layer, *others = ((line[column], widths[column]) for column in columns)
                lines.append("  ".join([layer[0].ljust(layer[1]), *(cell.rjust(wide) for cell, wide in others)]))
        return escape_controls("\n".join([*lines, *self.notes()]))

    def notes(self) -> list[str]:
        """Why measures are missing, once for all layers that share a reason."""
        shown = {row.layer for row in self.rows}
        found: dict[tuple[str, str], list[str]] = {}
        for (layer, measure), why in self.missing.items():
            if layer in shown:
                found.setdefault((measure, why), []).append(layer)
        by_reason: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for (measure, why), layers in found.items():
            by_reason.setdefault((why, tuple(layers)), []).append(measure)
        return [
            f"– {', '.join(measures)} of {layers[0]}{f' and {len(layers) - 1} more' if len(layers) > 1 else ''}: {why}"
            for (why, layers), measures in by_reason.items()
        ]


def parted(widths: list[int], most: int | None) -> list[list[int]]:
    """Columns in groups that fit, each with layer and head in front and at least one measure."""
    groups, used = [[0, 1]], sum(widths[:2]) + 2
    taken = used
    for column in range(2, len(widths)):
        taken += widths[column] + 2
        if most is not None and taken > most and len(groups[-1]) > 2:
            groups.append([0, 1])
            taken = used + widths[column] + 2
        groups[-1].append(column)
    return groups
