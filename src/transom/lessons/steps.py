"""The steps of attention as matrices; each cell can show its arithmetic."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transom.files.strict_settings import suggest
from transom.lessons.arithmetic import Arithmetic, Term, format_number
from transom.names import Misfit

Matrix = NDArray[np.float64]
Labels = tuple[str, ...]
CellTerms = Callable[[int, int], tuple[Term, ...]]
BY_KEY = ("scores", "scaled", "capped", "biased", "masked", "weights")  # steps with a number for each query and key


def no_terms(row: int, column: int) -> tuple[Term, ...]:
    return ()


@dataclass(frozen=True, eq=False)
class Step:
    """One step: a matrix with a label for each row and column.

    name       which step it is: "Q", "scores", "weights" …
    title      the same in plain words
    equation   as the paper writes it
    values     (rows, columns) in float64; a masked score is −∞
    head       counted from 0; None if the step belongs to all heads
    layer      counted from 0
    kind       the arithmetic behind each cell, as in Arithmetic
    terms      the terms of that arithmetic for a row and a column
    """

    name: str
    title: str
    equation: str
    values: Matrix
    rows: Labels
    columns: Labels
    head: int | None = None
    layer: int = 0
    kind: str = "given"
    terms: CellTerms = field(default=no_terms, repr=False)

    @property
    def by_key(self) -> bool:
        """Whether the columns are keys: of weights, and of cross_weights too."""
        return self.name.rpartition("_")[2] in BY_KEY

    def cell(self, row: int | str, column: int | str) -> Arithmetic:
        """How one number of this step was computed; row and column by index or by label."""
        i, j = self.index_of(row, "row"), self.index_of(column, "column")
        row_label, column_label, value = self.rows[i], self.columns[j], float(self.values[i, j])
        if self.kind == "unchanged" and value == -math.inf:
            return Arithmetic("masked", f"{row_label} may not look at {column_label}", (), value)
        place = f"from {row_label} at {column_label}" if self.by_key else f"of {row_label}, {column_label}"
        return Arithmetic(self.kind, f"{self.name} {place}", self.terms(i, j), value)

    def index_of(self, key: int | str, axis: str, first: int = 0) -> int:
        """The index of a "row" or "column"; an error counts from `first`. A label used twice is an error."""
        labels = self.rows if axis == "row" else self.columns
        if isinstance(key, int):
            if not -len(labels) <= key < len(labels):
                raise Misfit(
                    f"{self.name} has {len(labels)} {axis}s, so {key + first} is none of them; count from {first}"
                )
            return key % len(labels)
        if labels.count(key) > 1:
            raise Misfit(
                f"{self.name} has {labels.count(key)} {axis}s {key!r}, so the label does not say which;"
                f" give its number, {labels.index(key) + first} for the first"
            )
        if key not in labels:
            raise Misfit(f"{self.name} has no {axis} {key!r}; {suggest(key, dict.fromkeys(labels))}")
        return labels.index(key)

    def to_strings(self, digits: int = 4) -> list[list[str]]:
        """Every number as text; a masked one is “masked”."""
        return [[format_number(float(value), digits) for value in row] for row in self.values]

    def to_dict(self) -> dict[str, object]:
        """The step as plain data, for JSON; a masked score is None."""
        values = to_nested_lists(self.values)
        info = {"name": self.name, "title": self.title, "equation": self.equation, "head": self.head}
        return {**info, "layer": self.layer, "rows": self.rows, "columns": self.columns, "values": values}


class Steps:
    """The steps of one or more attentions, in order.

    `steps["weights"]` is a step by its name, `steps["weights", 2]` the one of head 2, and `steps["weights", 2, 1]` the
    one of head 2 in layer 1, both counted from 0. `tokens` label the queries, `at_tokens` the keys. `notes` say what
    is not shown, and why.
    """

    def __init__(
        self,
        steps: Iterable[Step],
        tokens: Iterable[str],
        at_tokens: Iterable[str] | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        self.steps = list(steps)
        self.tokens = tuple(tokens)
        self.at_tokens = self.tokens if at_tokens is None else tuple(at_tokens)
        self.notes = tuple(notes)

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads that have steps, counted from 0."""
        return tuple(sorted({step.head for step in self.steps if step.head is not None}))

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(sorted({step.layer for step in self.steps}))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in order of their first use."""
        return tuple(dict.fromkeys(step.name for step in self.steps))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __contains__(self, name: object) -> bool:
        return any(step.name == name for step in self.steps)

    def __getitem__(self, key: str | tuple[str, int | None] | tuple[str, int | None, int | None]) -> Step:
        name, head, layer = (key, None, None) if isinstance(key, str) else (*key, None)[:3]
        of_name = [step for step in self.steps if step.name == name]
        if not of_name:
            raise Misfit(f"there is no step {name!r}; {suggest(str(name), self.names)}")
        of_head = [step for step in of_name if head is None or step.head in (head, None)]
        if not of_head:
            raise Misfit(f"there are heads {join_numbers(self.heads)}, but head {head} was asked for; count from 0")
        of_layer = [step for step in of_head if layer is None or step.layer == layer]
        if not of_layer:
            raise Misfit(f"there are layers {join_numbers(self.layers)}, but layer {layer} was asked for; count from 0")
        return of_layer[0]

    def select(self, head: int | None = None, layer: int | None = None) -> "Steps":
        """The steps of one head or layer; those that belong to all heads are included."""
        of_head = [step for step in self.steps if head is None or step.head in (head, None)]
        of_layer = [step for step in of_head if layer is None or step.layer == layer]
        return Steps(of_layer, self.tokens, self.at_tokens, self.notes)


def to_nested_lists(values: NDArray[np.float64]) -> Any:
    """An array as lists for JSON, which has no infinity: None for a masked number."""
    numbers = values.astype(object)
    numbers[~np.isfinite(values)] = None
    return numbers.tolist()


def join_numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
