"""How each kind of step is made: its matrix, and the arithmetic of each of its cells."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from transom.lessons.arithmetic import Arithmetic, Term
from transom.lessons.steps import Matrix, Step

Labels = tuple[str, ...]
JOINED = "joined = head 0, head 1 …"  # heads are counted from 0


@dataclass(frozen=True)
class Said:
    """What a step is called, and where it belongs."""

    name: str
    title: str
    equation: str
    head: int | None = None
    layer: int = 0

    def step(self, values: Matrix, rows: Labels, columns: Labels) -> Step:
        return Step(self.name, self.title, self.equation, values, rows, columns, self.head, self.layer)


def counted(width: int) -> Labels:
    """Labels for numbers that have no name of their own: 1, 2, 3 …"""
    return tuple(str(place + 1) for place in range(width))


def cell_name(step: Step, i: int, j: int) -> str:
    return f"{step.name} of {step.rows[i]}, {step.columns[j]}"


def edge_name(step: Step, i: int, j: int) -> str:
    return f"{step.name} from {step.rows[i]} at {step.columns[j]}"


def given(said: Said, values: Matrix, rows: Labels) -> Step:
    """Numbers that come from outside."""
    step = said.step(values, rows, counted(values.shape[1]))
    return replace(step, how=lambda i, j: Arithmetic("given", cell_name(step, i, j), (), float(values[i, j])))


def product(
    said: Said, left: Matrix, right: Matrix, rows: Labels, columns: Labels, inner: Labels, bias: Matrix | None = None
) -> Step:
    """left · right (+ bias): each cell is a dot product of a row and a column."""
    values = left @ right if bias is None else left @ right + bias
    step = said.step(values, rows, columns)
    return replace(step, how=partial(dot_cell, step, left, right, inner, bias))


def dot_cell(step: Step, left: Matrix, right: Matrix, inner: Labels, bias: Matrix | None, i: int, j: int) -> Arithmetic:
    name = edge_name if step.name == "scores" else cell_name
    terms: tuple[Term, ...] = tuple((inner[k], float(left[i, k]), float(right[k, j])) for k in range(len(inner)))
    if bias is not None:
        terms = (*terms, ("bias", float(bias[j])))
    return Arithmetic("dot", name(step, i, j), terms, float(step.values[i, j]))


def quotient(said: Said, before: Step, divisor: float, spelled: str) -> Step:
    """Every number of a step divided by the same one, which is written as `spelled`."""
    values = before.values / divisor
    step = said.step(values, before.rows, before.columns)
    return replace(step, how=partial(quotient_cell, step, before, divisor, spelled))


def quotient_cell(step: Step, before: Step, divisor: float, spelled: str, i: int, j: int) -> Arithmetic:
    terms = (("score", float(before.values[i, j])), (spelled, divisor))
    return Arithmetic("quotient", edge_name(step, i, j), terms, float(step.values[i, j]))


def masked(said: Said, before: Step, allowed: NDArray[np.bool_]) -> Step:
    """Scores with −∞ where a row may not look."""
    values = np.where(allowed, before.values, -math.inf)
    step = said.step(values, before.rows, before.columns)
    return replace(step, how=partial(masked_cell, step, allowed))


def masked_cell(step: Step, allowed: NDArray[np.bool_], i: int, j: int) -> Arithmetic:
    if allowed[i, j]:
        return Arithmetic("unchanged", edge_name(step, i, j), (), float(step.values[i, j]))
    return Arithmetic("masked", f"{step.rows[i]} may not look at {step.columns[j]}", (), -math.inf)


def softmax(said: Said, before: Step, axis: int = -1) -> Step:
    """Each row of scores as weights that sum to 1; a row that may look nowhere gets 0 everywhere.

    The other axis is a mistake people make: `check` tries it.
    """
    values = softmax_of(before.values, axis)
    step = said.step(values, before.rows, before.columns)
    return replace(step, how=partial(softmax_cell, step, before))


def softmax_cell(step: Step, before: Step, i: int, j: int) -> Arithmetic:
    row = [(label, float(score)) for label, score in zip(before.columns, before.values[i], strict=True)]
    return Arithmetic("softmax", edge_name(step, i, j), (row[j], *row), float(step.values[i, j]))


def weighted(said: Said, weights: Step, V: Matrix) -> Step:
    """The values summed up, each times its weight. What has no weight is left out, so that nothing masked leaks."""
    parts = [np.flatnonzero(row) for row in weights.values]
    sums = [row[part] @ V[part] for row, part in zip(weights.values, parts, strict=True)]
    values = np.array(sums).reshape(len(sums), V.shape[1])
    step = said.step(values, weights.rows, counted(V.shape[1]))
    return replace(step, how=partial(weighted_cell, step, weights, V))


def weighted_cell(step: Step, weights: Step, V: Matrix, i: int, j: int) -> Arithmetic:
    shares = weights.values[i]
    terms = tuple((weights.columns[k], float(shares[k]), float(V[k, j])) for k in np.flatnonzero(shares))
    return Arithmetic("dot", cell_name(step, i, j), terms, float(step.values[i, j]))


def side_by_side(said: Said, sums: list[Matrix], rows: Labels) -> Step:
    """What each head found, one after the other; a column is named by its head, from 0, and its place in it."""
    columns = tuple(f"{head}.{place}" for head, values in enumerate(sums) for place in counted(values.shape[1]))
    values = np.concatenate(sums, axis=1)
    step = said.step(values, rows, columns)
    return replace(step, how=lambda i, j: Arithmetic("unchanged", cell_name(step, i, j), (), float(values[i, j])))


def softmax_of(scores: Matrix, axis: int = -1) -> Matrix:
    """exp(s) / Σ exp(s) along an axis, in float64; the largest score is taken off first, so that nothing overflows."""
    if scores.shape[axis] == 0:
        return scores
    highest = scores.max(axis=axis, keepdims=True)
    grown = np.exp(scores - np.where(np.isneginf(highest), 0.0, highest))
    total = grown.sum(axis=axis, keepdims=True)
    return grown / np.where(total == 0.0, 1.0, total)


def added(said: Said, parts: dict[str, Matrix], rows: Labels, columns: Labels) -> Step:
    """Matrices of one shape added up, each with its name."""
    values = np.sum(list(parts.values()), axis=0)
    step = said.step(values, rows, columns)
    return replace(step, how=partial(sum_cell, step, parts))


def sum_cell(step: Step, parts: dict[str, Matrix], i: int, j: int) -> Arithmetic:
    terms = tuple((name, float(part[i, j])) for name, part in parts.items())
    return Arithmetic("sum", cell_name(step, i, j), terms, float(step.values[i, j]))


def normalised(said: Said, before: Step, gain: Matrix, bias: Matrix, centred: bool = True) -> Step:
    """(x − mean) / √(variance + 10⁻⁵) · gain + bias, over each row; without centring it is the root mean square."""
    x = before.values
    mean = x.mean(axis=1, keepdims=True) if centred else np.zeros((len(x), 1))
    spread = np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + 1e-5)
    values = (x - mean) / spread * gain + bias
    step = said.step(values, before.rows, before.columns)
    rows = {"x": x, "mean": np.broadcast_to(mean, x.shape), "spread": np.broadcast_to(spread, x.shape)}
    columns = {"gain": np.broadcast_to(gain, x.shape), "bias": np.broadcast_to(bias, x.shape)}
    return replace(step, how=partial(norm_cell, step, {**rows, **columns}))


def norm_cell(step: Step, pieces: dict[str, Matrix], i: int, j: int) -> Arithmetic:
    terms = tuple((name, float(piece[i, j])) for name, piece in pieces.items())
    return Arithmetic("norm", cell_name(step, i, j), terms, float(step.values[i, j]))


def applied(said: Said, before: Step, values: Matrix, function: str) -> Step:
    """A function of every number of a step; `function` is how it is written."""
    step = said.step(values, before.rows, before.columns)
    return replace(step, how=partial(function_cell, step, before, function))


def function_cell(step: Step, before: Step, function: str, i: int, j: int) -> Arithmetic:
    terms = ((function, float(before.values[i, j])),)
    return Arithmetic("function", cell_name(step, i, j), terms, float(step.values[i, j]))
