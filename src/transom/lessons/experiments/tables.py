"""What comes of an experiment, as a step: a table with its labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from transom.lessons.arithmetic import Arithmetic
from transom.lessons.steps import Step


def measured(name: str, title: str, columns: Sequence[object], rows: Mapping[str, Iterable[float | int]]) -> Step:
    """A table: a label for each row and column, and numbers that came out."""
    values = np.array([list(row) for row in rows.values()], dtype=np.float64)
    step = Step(name, title, "", values, tuple(rows), tuple(str(one) for one in columns))

    def how(i: int, j: int) -> Arithmetic:
        return Arithmetic("measured", f"{name} of {step.rows[i]}, {step.columns[j]}", (), float(values[i, j]))

    return replace(step, how=how)
