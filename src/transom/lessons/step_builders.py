"""Builders of steps, one for each kind: the values, their labels, and the arithmetic of each cell."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from transom.lessons.arithmetic import Term
from transom.lessons.steps import CellTerms, Labels, Matrix, Step, no_terms


@dataclass(frozen=True)
class StepInfo:
    """The name of a step, the head and layer it belongs to, and what a mistake makes of its values (None: nothing)."""

    name: str
    title: str
    equation: str
    head: int | None = None
    layer: int = 0
    change: "StepChange | None" = None

    def build(self, values: Matrix, rows: Labels, columns: Labels, kind: str, terms: CellTerms = no_terms) -> Step:
        values = values if self.change is None else self.change(self, values)
        return Step(self.name, self.title, self.equation, values, rows, columns, self.head, self.layer, kind, terms)


StepChange = Callable[[StepInfo, Matrix], Matrix]  # a mistake: other values for a step before the next one


def number_labels(width: int, first: int = 1) -> Labels:
    """Labels for the numbers of a vector: 1, 2, 3 …"""
    return tuple(str(first + place) for place in range(width))


def table_step(name: str, title: str, columns: Sequence[object], rows: Mapping[str, Iterable[float | int]]) -> Step:
    """The table of an experiment: a label for each row and column, and the measured numbers."""
    values = np.array([list(row) for row in rows.values()], dtype=np.float64)
    return StepInfo(name, title, "").build(values, tuple(rows), tuple(map(str, columns)), "measured")


def given_step(info: StepInfo, values: Matrix, rows: Labels) -> Step:
    """Numbers that the lesson or the model gives; no mistake changes them."""
    return replace(info, change=None).build(values, rows, number_labels(values.shape[1]), "given")


def product_step(
    info: StepInfo,
    left: Matrix,
    right: Matrix,
    rows: Labels,
    columns: Labels | None = None,
    inner: Labels | None = None,
    bias: Matrix | None = None,
) -> Step:
    """left · right (+ bias): each cell is a dot product of a row and a column; `inner` labels its terms."""
    terms_of = inner or number_labels(len(right))

    def terms(i: int, j: int) -> tuple[Term, ...]:
        products = tuple((label, float(left[i, k]), float(right[k, j])) for k, label in enumerate(terms_of))
        return products if bias is None else (*products, ("bias", float(bias[j])))

    values = left @ right if bias is None else left @ right + bias
    return info.build(values, rows, columns or number_labels(right.shape[1]), "dot", terms)


def quotient_step(info: StepInfo, before: Step, divisor: float, divisor_text: str) -> Step:
    """Every number of a step divided by the same number."""

    def terms(i: int, j: int) -> tuple[Term, ...]:
        return ("score", float(before.values[i, j])), (divisor_text, divisor)

    return info.build(before.values / divisor, before.rows, before.columns, "quotient", terms)


def mask_step(info: StepInfo, before: Step, allowed: NDArray[np.bool_]) -> Step:
    """Scores with −∞ where a row may not look."""
    values = np.where(allowed, before.values, -math.inf)
    return info.build(values, before.rows, before.columns, "unchanged")


def softmax_step(info: StepInfo, before: Step, axis: int | None = -1) -> Step:
    """Each row of scores as weights that sum to 1; a fully masked row gets 0 everywhere.

    The other axis, or both (None), is a common mistake: `check` tries it.
    """

    def terms(i: int, j: int) -> tuple[Term, ...]:
        row = [(label, float(score)) for label, score in zip(before.columns, before.values[i], strict=True)]
        return row[j], *row

    values = softmax_of(before.values, axis) if info.change is None else changed_softmax(info, before.values, axis)
    return info.build(values, before.rows, before.columns, "softmax", terms)


def changed_softmax(info: StepInfo, scores: Matrix, axis: int | None) -> Matrix:
    """The softmax with a mistake in its powers e^score, which a change knows as `powers`, or in their `total`."""
    assert info.change is not None
    powers = np.exp(scores)
    changed = info.change(replace(info, name="powers"), powers)
    total = changed.sum(axis=axis, keepdims=True)
    changed_total = info.change(replace(info, name="total"), total)
    exact = changed is powers and changed_total is total
    return softmax_of(scores, axis) if exact else changed / changed_total


def softmax_of(scores: Matrix, axis: int | None = -1) -> Matrix:
    """exp(s) / Σ exp(s) along an axis, in float64; the largest score is subtracted first, so that nothing overflows."""
    if scores.size == 0:
        return scores
    highest = scores.max(axis=axis, keepdims=True)
    powers = np.exp(scores - np.where(np.isneginf(highest), 0.0, highest))
    total = powers.sum(axis=axis, keepdims=True)
    return powers / np.where(total == 0.0, 1.0, total)


def weighted_sum_step(info: StepInfo, weights: Step, V: Matrix) -> Step:
    """The values summed up, each times its weight. Values of weight 0 are left out: NaN behind a mask cannot leak."""

    def terms(i: int, j: int) -> tuple[Term, ...]:
        row = weights.values[i]
        return tuple((weights.columns[k], float(row[k]), float(V[k, j])) for k in np.flatnonzero(row))

    keys = [np.flatnonzero(row) for row in weights.values]
    sums = [row[used] @ V[used] for row, used in zip(weights.values, keys, strict=True)]
    values = np.array(sums).reshape(len(sums), V.shape[1])
    return info.build(values, weights.rows, number_labels(V.shape[1]), "dot", terms)


def concat_step(info: StepInfo, contexts: list[Matrix], rows: Labels) -> Step:
    """The heads side by side; a column is labelled by its head, from 0, and its number within it: 0.1."""
    columns = (f"{head}.{label}" for head, values in enumerate(contexts) for label in number_labels(values.shape[1]))
    return info.build(np.concatenate(contexts, axis=1), rows, tuple(columns), "unchanged")


def sum_step(info: StepInfo, parts: dict[str, Matrix], rows: Labels, columns: Labels) -> Step:
    """Matrices of one shape added up, each with its name."""

    def terms(i: int, j: int) -> tuple[Term, ...]:
        return tuple((name, float(part[i, j])) for name, part in parts.items())

    return info.build(np.sum(list(parts.values()), axis=0), rows, columns, "sum", terms)


def rotation_step(info: StepInfo, before: Step, angles: Matrix) -> Step:
    """Each pair of neighbouring numbers turned by its angle (Su et al. 2021, equation 34)."""
    x, cos, sin = before.values, np.cos(angles), np.sin(angles)
    partners = np.stack([-x[:, 1::2], x[:, 0::2]], axis=-1).reshape(x.shape)
    cos, sin = np.repeat(cos, 2, axis=1), np.repeat(sin, 2, axis=1)

    def terms(i: int, j: int) -> tuple[Term, ...]:
        return ("cos", float(x[i, j]), float(cos[i, j])), ("sin", float(partners[i, j]), float(sin[i, j]))

    return info.build(x * cos + partners * sin, before.rows, before.columns, "dot", terms)


def stacked_step(info: StepInfo, above: Matrix, below: Step, rows: Labels) -> Step:
    """Rows that were kept, and new ones below them."""
    return info.build(np.concatenate([above, below.values]), rows, below.columns, "unchanged")


NORMS = ("none", "layer", "rms")


def norm_step(info: StepInfo, before: Step, gain: Matrix, bias: Matrix, centred: bool = True) -> Step:
    """(x − mean) / √(variance + 10⁻⁵) · gain + bias, over each row; without centring it is the root mean square."""
    x = before.values
    mean = x.mean(axis=1, keepdims=True) if centred else np.zeros((len(x), 1))
    spread = np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + 1e-5)
    pieces = {"x": x, "mean": mean, "spread": spread, "gain": gain, "bias": bias}

    def terms(i: int, j: int) -> tuple[Term, ...]:
        return tuple((name, float(np.broadcast_to(piece, x.shape)[i, j])) for name, piece in pieces.items())

    return info.build((x - mean) / spread * gain + bias, before.rows, before.columns, "norm", terms)


def gelu(x: Matrix) -> Matrix:
    """x times the share of a normal distribution that lies below it (Hendrycks and Gimpel 2016)."""
    return x * 0.5 * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0)))


ACTIVATIONS: dict[str, Callable[[Matrix], Matrix]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "gelu": gelu,
    "silu": lambda x: x / (1.0 + np.exp(-x)),
}


def function_step(info: StepInfo, before: Step, values: Matrix, function: str) -> Step:
    """A function of every number of a step; `function` is how it is written."""

    def terms(i: int, j: int) -> tuple[Term, ...]:
        return ((function, float(before.values[i, j])),)

    return info.build(values, before.rows, before.columns, "function", terms)
