"""Tables of estimates and true changes: of heads, of passages, of single edges."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, TypeVar

from transom.files.html_table import DisplayedTable
from transom.files.terminal import escape_controls

LEFT = ("layer", "name")  # columns that are aligned to the left
SIGNED = ("estimate", "change")


@dataclass(frozen=True)
class HeadInfluence:
    """A head: the estimated change without it, and the true one if it was knocked out."""

    layer: str
    head: int
    estimate: float
    change: float | None = None


@dataclass(frozen=True)
class EdgeInfluence:
    """An edge: its weight, the estimated change without it, and the true one if it was knocked out."""

    layer: str
    head: int
    query: int
    key: int
    weight: float
    estimate: float
    change: float | None = None


@dataclass(frozen=True)
class SourceInfluence:
    """A passage: its attention from one row, the estimated change if no later row could read it, and the true one."""

    name: str
    first: int
    last: int
    mass: float
    estimate: float
    change: float | None = None


Row = TypeVar("Row", HeadInfluence, EdgeInfluence, SourceInfluence)


@dataclass(frozen=True, repr=False)
class InfluenceTable(DisplayedTable, Generic[Row]):
    """Rows of one kind, the most important first, and what their changes are changes of."""

    rows: Sequence[Row]
    note: str

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, number: int) -> Row:
        return self.rows[number]

    def to_dict(self) -> dict[str, Any]:
        return {"rows": [asdict(row) for row in self.rows], "note": self.note}

    def json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def csv(self) -> str:
        """A line per row; empty for a change that was not measured."""
        text = io.StringIO()
        rows = [asdict(row) for row in self.rows]
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def table_cells(self) -> tuple[list[str], list[list[str]]]:
        names = [field.name for field in fields(self.rows[0])] if self.rows else []
        return names, [[format_cell(getattr(row, name), name) for name in names] for row in self.rows]

    def table_notes(self) -> list[str]:
        return [self.note]

    def __str__(self) -> str:
        columns = []
        for name in [field.name for field in fields(self.rows[0])] if self.rows else []:
            cells = [name, *(format_cell(getattr(row, name), name) for row in self.rows)]
            width = max(map(len, cells))
            columns.append([cell.ljust(width) if name in LEFT else cell.rjust(width) for cell in cells])
        lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
        return escape_controls("\n".join([*lines, self.note]))


def format_cell(value: str | int | float | None, name: str) -> str:
    if not isinstance(value, float):
        return "–" if value is None else str(value)
    return f"{value:{'+' if name in SIGNED else ''}.4f}"
