"""What edges were for, as a table: what each read, what it moved, and what changed without it."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields

from transom.files.terminal import escape_controls

IDLE, VITAL = "thick, does not matter", "thin, but matters"


@dataclass(frozen=True)
class Rule:
    """When an arrow is thick or thin, by its weight, and when it matters: by KL, or the share its output changes by."""

    thick: float = 0.25
    thin: float = 0.05
    matters: float = 0.01
    idle: float = 0.001  # below this it does not matter; in between nothing is said

    def flag(self, weight: float, effect: float) -> str:
        if weight >= self.thick and effect < self.idle:
            return IDLE
        return VITAL if weight <= self.thin and effect >= self.matters else ""


@dataclass(frozen=True)
class Effect:
    """One edge. None where the model does not tell a number, or the output has none of its kind."""

    layer: str
    head: int
    query: int
    key: int
    weight: float  # what the head read
    norm: float | None  # ‖weight · value W_O‖: what it moved
    contribution: float | None  # its signed share of the head's output; those of a row sum to 1
    pull: (
        float | None
    )  # what it adds to the target's logit, or to the output, to first order: weight · ⟨value, gradient⟩
    local_change: float | None  # ‖change of the head's output without it, through W_O‖, in closed form
    change: float  # of the target's logit, or of the output, when it is knocked out
    probability_change: float | None  # of the target
    kl: float | None  # KL(with ‖ without) in nats
    flag: str
    looking: str | None = None  # the word of the query, where words were given …
    at: str | None = None  # … and that of the key


NAMES = tuple(field.name for field in fields(Effect))
NUMBERS = tuple(name for name in NAMES if name not in ("looking", "at"))
SHOWN = {"local_change": "local", "probability_change": "probability"}


@dataclass(frozen=True)
class EffectTable:
    """Effects in the order in which the edges were asked for, and what they were measured by."""

    rows: list[Effect]
    how: str  # before or after the softmax
    target: int | None  # whose logit and probability are meant; None where the output is one number
    value: float  # its logit, or the output, with all edges
    probability: float | None  # its probability with all edges
    notes: list[str]
    word: str | None = None  # that of the target, where it is known

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.rows)

    def sorted(self) -> "EffectTable":
        """The rows that change the output most first."""
        key = lambda row: abs(row.change) if row.kl is None else row.kl  # noqa: E731
        return EffectTable(sorted(self.rows, key=key, reverse=True), *list(vars(self).values())[1:])

    def told(self) -> dict[str, object]:
        """All of it as plain data."""
        return asdict(self)

    def json(self) -> str:
        return json.dumps(self.told(), indent=2, ensure_ascii=False)

    def csv(self) -> str:
        """A line per edge; empty where there is no number."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(NAMES)
        for row in self.rows:
            lines.writerow(["" if value is None else value for value in asdict(row).values()])
        return text.getvalue()

    def __str__(self) -> str:
        cells = [[SHOWN.get(name, name) for name in NUMBERS], *(shown(row) for row in self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(NUMBERS))]
        lines = ["  ".join(aligned(*one) for one in zip(NUMBERS, line, widths, strict=True)).rstrip() for line in cells]
        return escape_controls("\n".join([*lines, self.measured(), *self.notes]))

    def measured(self) -> str:
        """What the changes are changes of."""
        knocked = f"knocked out {self.how} the softmax"
        if self.target is None:
            return f"change: of the output, {self.value:.4f} with all edges; {knocked}"
        token = f"token id {self.target}" + (f" {self.word!r}" if self.word is not None else "")
        return (
            f"change, probability: of {token}, logit {self.value:.4f} and probability"
            f" {self.probability:.4f} with all edges; {knocked}"
        )


def shown(row: Effect) -> list[str]:
    """A row as text, each place with its word."""
    words = {"query": row.looking, "key": row.at}
    return [
        f"{value} {word.strip()}" if (word := words.get(name)) else cell(name, value)
        for name, value in asdict(row).items()
        if name in NUMBERS
    ]


def cell(name: str, value: object) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    sign = "+" if name in ("pull", "change", "probability_change") else ""
    return f"{value:.1e}" if name == "kl" and 0.0 < value < 5e-5 else f"{value:{sign}.4f}"


def aligned(name: str, text: str, width: int) -> str:
    return text.ljust(width) if name in ("layer", "flag", "query", "key") else text.rjust(width)
