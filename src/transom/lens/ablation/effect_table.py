"""The table that `effect` returns: what each edge read, what it moved, and what changed without it."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace

from transom.files.html_table import DisplayedTable
from transom.files.terminal import escape_controls

IDLE, VITAL = "thick, does not matter", "thin, but matters"


@dataclass(frozen=True)
class EffectRule:
    """When an edge is thick or thin, by its weight, and when it matters: by KL, or by relative change."""

    thick: float = 0.25
    thin: float = 0.05
    matters: float = 0.01
    idle: float = 0.001  # below this it does not matter; in between it gets no flag

    def flag(self, weight: float, effect: float) -> str:
        if weight >= self.thick and effect < self.idle:
            return IDLE
        return VITAL if weight <= self.thin and effect >= self.matters else ""


@dataclass(frozen=True)
class Effect:
    """One edge; None for a number that cannot be known of this model, or that this output does not have."""

    layer: str
    head: int
    query: int
    key: int
    weight: float  # what the head read
    norm: float | None  # ‖weight · value W_O‖: what it moved
    contribution: float | None  # its signed share of the head's output; those of a row sum to 1
    pull: float | None  # weight · ⟨value, gradient⟩: what it adds to the target's logit, or the output, to first order
    local_change: float | None  # ‖change of the head's output without it, through W_O‖, in closed form
    change: float  # of the target's logit, or of the output, when it is knocked out
    probability_change: float | None  # of the target
    kl: float | None  # KL(with ‖ without) in nats
    flag: str
    looking: str | None = None  # the token of the query, if tokens were given …
    at: str | None = None  # … and that of the key


COLUMNS = tuple(field.name for field in fields(Effect))
SHOWN = tuple(name for name in COLUMNS if name not in ("looking", "at"))  # columns of the printed table
HEADINGS = {"local_change": "local", "probability_change": "probability"}
LEFT_ALIGNED = ("layer", "flag", "query", "key")


@dataclass(frozen=True, repr=False)
class EffectTable(DisplayedTable):
    """Effects in the order of the edges, and what they were measured by."""

    rows: list[Effect]
    how: str  # before or after the softmax
    target: int | None  # the token whose logit and probability change; None if the output is one number
    value: float  # its logit, or the output, with all edges
    probability: float | None  # its probability with all edges
    notes: list[str]
    word: str | None = None  # the target as text, if it is known

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.rows)

    def sorted(self) -> "EffectTable":
        """The same table, with the rows that change the output most first."""
        key = lambda row: abs(row.change) if row.kl is None else row.kl  # noqa: E731
        return replace(self, rows=sorted(self.rows, key=key, reverse=True))

    def to_dict(self) -> dict[str, object]:
        """All of it as plain data."""
        return asdict(self)

    def json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def csv(self) -> str:
        """A line per edge; empty for a number that is not known."""
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in self.rows)
        return text.getvalue()

    def table_cells(self) -> tuple[list[str], list[list[str]]]:
        heads = [HEADINGS.get(name, name) for name in SHOWN]
        return heads, [[format_effect_cell(row, name) for name in SHOWN] for row in self.rows]

    def table_notes(self) -> list[str]:
        return [self.describe_unit(), *self.notes]

    def __str__(self) -> str:
        columns = []
        for name in SHOWN:
            cells = [HEADINGS.get(name, name), *(format_effect_cell(row, name) for row in self.rows)]
            width = max(map(len, cells))
            columns.append([cell.ljust(width) if name in LEFT_ALIGNED else cell.rjust(width) for cell in cells])
        lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
        return escape_controls("\n".join([*lines, self.describe_unit(), *self.notes]))

    def describe_unit(self) -> str:
        """What the changes are changes of."""
        knocked = f"knocked out {self.how} the softmax"
        if self.target is None:
            return f"change: of the output, {self.value:.4f} with all edges; {knocked}"
        token = f"token id {self.target}" + (f" {self.word!r}" if self.word is not None else "")
        return (
            f"change, probability: of {token}, logit {self.value:.4f} and probability"
            f" {self.probability:.4f} with all edges; {knocked}"
        )


def format_effect_cell(row: Effect, name: str) -> str:
    """A cell of the printed table; the tokens of query and key are beside their positions."""
    value, token = getattr(row, name), {"query": row.looking, "key": row.at}.get(name)
    if token:
        return f"{value} {token.strip()}"
    if value is None or not isinstance(value, float):
        return "–" if value is None else str(value)
    sign = "+" if name in ("pull", "change", "probability_change") else ""
    return f"{value:.1e}" if name == "kl" and 0.0 < value < 5e-5 else f"{value:{sign}.4f}"
