"""The table of every head: the means of its measures, and what it does in words."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from transom.files.html_table import DisplayedTable
from transom.files.strict_settings import suggest
from transom.files.terminal import escape_controls
from transom.lens.metrics.head_descriptions import NEEDED, describe_head
from transom.lens.metrics.head_measures import DISPLAY_NAMES
from transom.lens.metrics.head_sums import HeadSums
from transom.names import Misfit, check_index, integer_or_none

NO_ROWS = "no row has what it asks for"
HEADINGS = {"entropy": DISPLAY_NAMES["entropy"], "entropy_without_sink": "without sink", "largest_sink": "any sink"}
DESCRIPTION = "what it does"


@dataclass(frozen=True)
class HeadRow:
    """One head: its measures by name, None where there is none, and how many rows each is the mean of."""

    layer: str
    head: int
    cross: bool
    values: dict[str, float | None]
    counts: dict[str, int]

    def __getitem__(self, measure: str) -> float | None:
        if measure not in self.values:
            raise Misfit(f"{measure!r} was not measured; {suggest(measure, self.values)}")
        return self.values[measure]

    @property
    def description(self) -> str | None:
        """What the head does, in words; None if not all measures are there that say it."""
        return describe_head(self.values, self.counts, self.cross)


class HeadTable(DisplayedTable):
    """Rows of heads, in the order of the layers.

    `missing` says why a measure of a layer is None, and `unseen` which attention of the model is not in the table.
    """

    def __init__(
        self, measures: Sequence[str], rows: Sequence[HeadRow], missing: dict[tuple[str, str], str], unseen: str = ""
    ) -> None:
        self.measures, self.rows, self.missing, self.unseen = tuple(measures), list(rows), missing, unseen

    @classmethod
    def from_sums(cls, sums: HeadSums) -> "HeadTable":
        """The table of means from sums."""
        rows = [
            HeadRow(
                name,
                head,
                layer.cross,
                {measure: layer.mean(measure, head) for measure in sums.measures},
                {measure: layer.count(measure, head) for measure in sums.measures},
            )
            for name, layer in sums.layers.items()
            for head in range(layer.heads)
        ]
        missing = {
            (name, measure): layer.missing.get(measure, NO_ROWS)
            for name, layer in sums.layers.items()
            for measure in sums.measures
            if not any(layer.counts.get(measure, ()))
        }
        return cls(sums.measures, rows, missing, sums.unseen)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[HeadRow]:
        return iter(self.rows)

    def __getitem__(self, key: tuple[str, int] | int) -> HeadRow:
        """The row of a (layer, head), or a row by its number in the table."""
        if integer_or_none(key) is not None:
            return self.rows[check_index(key, "rows", len(self.rows))]
        if not isinstance(key, tuple):
            raise Misfit(
                f"a row is asked for by (layer, head) or by its number, but got {key!r:.60}; only(…) picks several"
            )
        row = next((row for row in self.rows if (row.layer, row.head) == key), None)
        if row is None:
            layers = list(dict.fromkeys(row.layer for row in self.rows))
            raise Misfit(f"there is no head {key!r}; {suggest(str(key[0]) if key else '', layers)}")
        return row

    def sorted(self, by: str, most: int | None = None) -> "HeadTable":
        """The heads with the highest measure first, or only so many of them; those without it come last."""
        if by not in self.measures:
            raise Misfit(f"{by!r} was not measured; {suggest(by, self.measures)}")

        def rank(row: HeadRow) -> tuple[bool, float]:
            value = row.values[by]
            return (value is None, 0.0 if value is None else -value)

        return HeadTable(self.measures, sorted(self.rows, key=rank)[:most], self.missing, self.unseen)

    def only(self, wanted: Callable[[HeadRow], bool]) -> "HeadTable":
        """The heads for which a function is true: `table.only(lambda row: row.cross)`."""
        return HeadTable(self.measures, [row for row in self.rows if wanted(row)], self.missing, self.unseen)

    @property
    def is_described(self) -> bool:
        """Whether all measures are there that say in words what a head does."""
        return all(measure in self.measures for measure in NEEDED)

    def to_dicts(self) -> list[dict[str, object]]:
        """A plain dict per head."""
        rows = []
        for row in self.rows:
            described = {"description": row.description} if self.is_described else {}
            head = {"layer": row.layer, "head": row.head, "cross": row.cross}
            rows.append({**head, **row.values, "rows": row.counts, **described})
        return rows

    def json(self) -> str:
        """The rows, and why measures are missing."""
        missing = [{"layer": layer, "measure": measure, "why": why} for (layer, measure), why in self.missing.items()]
        table = {"heads": self.to_dicts(), "missing": missing, "unseen": self.unseen or None}
        return json.dumps(table, indent=2, ensure_ascii=False)

    def csv(self) -> str:
        """A line per head; empty where there is no number."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(["layer", "head", "cross", *self.measures, *(["description"] if self.is_described else [])])
        for row in self.rows:
            numbers = ("" if value is None else repr(value) for value in row.values.values())
            described = [row.description or ""] if self.is_described else []
            lines.writerow([row.layer, row.head, int(row.cross), *numbers, *described])
        return text.getvalue()

    def __str__(self) -> str:
        return self.text()

    def table_cells(self) -> tuple[list[str], list[list[str]]]:
        head = ["layer", "head", *(HEADINGS.get(measure, measure) for measure in self.measures)]
        rows = [
            [row.layer, str(row.head), *("–" if value is None else f"{value:.3f}" for value in row.values.values())]
            for row in self.rows
        ]
        if not self.is_described:
            return head, rows
        described = [[*cells, row.description or "–"] for cells, row in zip(rows, self.rows, strict=True)]
        return [*head, DESCRIPTION], described

    def table_notes(self) -> list[str]:
        return self.notes()

    def text(self, width: int | None = None) -> str:
        """Aligned columns, and below them why measures are missing; columns beyond `width` follow underneath."""
        head, rows = self.table_cells()
        cells = [head, *rows]
        widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
        lines = []
        for columns in fit_columns(widths, width):
            lines += [""] if lines else []
            for line in cells:
                lines.append("  ".join(self.align(line[column], widths[column], column) for column in columns).rstrip())
        return escape_controls("\n".join([*lines, *self.notes()]))

    def align(self, cell: str, width: int, column: int) -> str:
        """Numbers to the right, words to the left."""
        is_words = column == 0 or column == len(self.measures) + 2
        return cell.ljust(width) if is_words else cell.rjust(width)

    def notes(self) -> list[str]:
        """Why measures are missing, one line for all layers and measures that share a reason."""
        shown = {row.layer for row in self.rows}
        layers_by_reason: dict[tuple[str, str], list[str]] = {}
        for (layer, measure), why in self.missing.items():
            if layer in shown:
                layers_by_reason.setdefault((measure, why), []).append(layer)
        measures_by_reason: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for (measure, why), layers in layers_by_reason.items():
            measures_by_reason.setdefault((why, tuple(layers)), []).append(measure)
        lines = [
            f"– {', '.join(measures)} of {layers[0]}{f' and {len(layers) - 1} more' if len(layers) > 1 else ''}: {why}"
            for (why, layers), measures in measures_by_reason.items()
        ]
        return [*lines, self.unseen] if self.unseen else lines


def fit_columns(widths: list[int], most: int | None) -> list[list[int]]:
    """Columns in groups that fit, each with layer and head in front and at least one measure."""
    front = sum(widths[:2]) + 2
    groups, used = [[0, 1]], front
    for column in range(2, len(widths)):
        used += widths[column] + 2
        if most is not None and used > most and len(groups[-1]) > 2:
            groups.append([0, 1])
            used = front + widths[column] + 2
        groups[-1].append(column)
    return groups
