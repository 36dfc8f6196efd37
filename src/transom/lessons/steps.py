"""The steps of attention as matrices of numbers, any cell of which opens its arithmetic."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from transom.files.strict import nearest
from transom.lessons.arithmetic import Arithmetic, number
from transom.names import Misfit

Matrix = NDArray[np.float64]
Cell = Callable[[int, int], Arithmetic]


@dataclass(frozen=True, eq=False)
class Step:
    """One step: a matrix with a label for each row and column.

    name       which step it is: "Q", "scores", "weights" …
    title      the same in plain words
    equation   as the paper writes it
    values     (rows, columns) in float64; a masked score is −∞
    head       counted from 0; None where a step belongs to all heads
    layer      counted from 0
    """

    name: str
    title: str
    equation: str
    values: Matrix
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    head: int | None = None
    layer: int = 0
    how: Cell | None = field(default=None, repr=False)

    def cell(self, row: int | str, column: int | str) -> Arithmetic:
        """How one number of this step came about; row and column by index or by label."""
        i, j = self.place(row, "row", self.rows), self.place(column, "column", self.columns)
        if self.how is None:
            return Arithmetic("given", f"{self.name} of {self.rows[i]}", (), float(self.values[i, j]))
        return self.how(i, j)

    def place(self, asked: int | str, axis: str, labels: tuple[str, ...]) -> int:
        """The index of a row or column; a label that stands there more than once must be asked for by index."""
        if isinstance(asked, str):
            if labels.count(asked) > 1:
                raise Misfit(
                    f"{self.name} has {labels.count(asked)} {axis}s {asked!r}, so the label does not say which;"
                    f" give the index, {labels.index(asked)} for the first"
                )
            if asked not in labels:
                raise Misfit(f"{self.name} has no {axis} {asked!r}; {nearest(asked, dict.fromkeys(labels))}")
            return labels.index(asked)
        if not -len(labels) <= asked < len(labels):
            raise Misfit(f"{self.name} has {len(labels)} {axis}s, so {asked} is none of them; count from 0")
        return asked % len(labels)

    def shown(self, digits: int = 4) -> list[list[str]]:
        """Every number as text, masked ones by that word."""
        return [[number(float(value), digits) for value in row] for row in self.values]

    def plain(self) -> dict[str, object]:
        """The step as plain data, for JSON; a masked score is None."""
        values = [[float(one) if np.isfinite(one) else None for one in row] for row in self.values]
        named = {"name": self.name, "title": self.title, "equation": self.equation, "head": self.head}
        return {**named, "layer": self.layer, "rows": self.rows, "columns": self.columns, "values": values}


class Steps:
    """The steps of one attention or of several, in order.

    `steps["weights"]` is a step by its name, `steps["weights", 2]` that of head 2 and `steps["weights", 2, 1]` that of
    head 2 in layer 1, both counted from 0. `tokens` are looked from, `at_tokens` looked at. `notes` say what is not
    shown, and why.
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
        """The heads there are steps of, counted from 0."""
        return tuple(sorted({step.head for step in self.steps if step.head is not None}))

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(sorted({step.layer for step in self.steps}))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in the order in which they are first taken."""
        return tuple(dict.fromkeys(step.name for step in self.steps))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __contains__(self, name: object) -> bool:
        return any(step.name == name for step in self.steps)

    def __getitem__(self, key: str | tuple[str, int | None] | tuple[str, int | None, int]) -> Step:
        name, head, layer = (key, None, None) if isinstance(key, str) else (*key, None)[:3]
        alike = [step for step in self.steps if step.name == name]
        if not alike:
            raise Misfit(f"there is no step {name!r}; {nearest(str(name), self.names)}")
        found = [step for step in alike if head is None or step.head in (head, None)]
        if not found:
            raise Misfit(f"{name} is there for heads {listed(self.heads)}, but head {head} was asked for; count from 0")
        layered = [step for step in found if layer is None or step.layer == layer]
        if not layered:
            raise Misfit(f"there are layers {listed(self.layers)}, but layer {layer} was asked for; count from 0")
        return layered[0]

    def narrowed(self, head: int | None = None, layer: int | None = None) -> "Steps":
        """Only the steps of one head, of one layer; those that belong to all heads stay."""
        kept = [s for s in self.steps if head is None or s.head in (head, None)]
        found = (s for s in kept if layer is None or s.layer == layer)
        return Steps(found, self.tokens, self.at_tokens, self.notes)


def listed(numbers: Iterable[int]) -> str:
    return ", ".join(str(one) for one in numbers) or "none"
