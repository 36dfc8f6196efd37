"""Attention row by row in float64 with numpy, written without a line of Transom, and how far rounding may be from it.

Only the keys that a row sees are ever touched, so that what is masked cannot matter here.
"""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Numbers:
    """One attention as float64 arrays: `visible` and `bias` are (batch, heads, queries, keys)."""

    Q: Array
    K: Array
    V: Array
    visible: Array
    bias: Array | None
    scale: float
    softcap: float | None


@dataclass(frozen=True)
class Precision:
    """Of the numbers that come in and go out, of the sums between, and the largest number of the sums."""

    given: float
    sums: float
    largest: float
    step: float  # the smallest number of those that come in and go out


TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Row:
    """One row: `keys` are those it sees; weights, scores and capped scores are of these alone.

    judged   whether float arithmetic is bound to come near: every number it sees is finite and no sum overflows
    error    how far rounding may move a score
    """

    keys: Array
    scores: Array
    capped: Array
    weights: Array
    output: Array
    judged: bool
    error: float

    @property
    def relative(self) -> float:
        """How far, as a share of itself, rounding may move a weight."""
        return float(np.expm1(min(2.0 * self.error, 50.0)))


def compute_row(numbers: Numbers, place: tuple[int, int, int], precision: Precision) -> Row:
    """One row of an attention."""
    b, h, i = place
    g = h // max(1, numbers.Q.shape[1] // numbers.K.shape[1])
    keys = np.nonzero(numbers.visible[b, h, i])[0]
    q, K, V = numbers.Q[b, h, i], numbers.K[b, g, keys], numbers.V[b, g, keys]
    bias = np.zeros(len(keys)) if numbers.bias is None else numbers.bias[b, h, i, keys]
    with np.errstate(all="ignore"):
        raw = (K * q).sum(axis=1) * numbers.scale
        capped = raw if numbers.softcap is None else numbers.softcap * np.tanh(raw / numbers.softcap)
        scores = capped + bias
        highest = scores.max(initial=-np.inf)
        grown = np.exp(scores - highest) if highest > -np.inf else np.zeros(len(keys))
        weights = grown / grown.sum() if len(keys) and grown.sum() > 0 else grown
        output = np.zeros(V.shape[1])
        for weight, value in zip(weights, V, strict=True):
            if weight != 0.0:
                output = output + weight * value
        judged, error = judge(numbers, (q, K, V, bias), precision)
    return Row(keys, scores, capped, weights, output, judged, error)


def judge(numbers: Numbers, seen: tuple[Array, Array, Array, Array], precision: Precision) -> tuple[bool, float]:
    """Whether float arithmetic is bound to come near, and by how much a score may be off."""
    q, K, V, bias = seen
    if not len(K):
        return True, 0.0
    products = (np.abs(K) * np.abs(q)).sum(axis=1)
    scaled = products * abs(numbers.scale)
    room = precision.largest / 8.0
    finite = bool(np.isfinite(q).all() and np.isfinite(K).all() and np.isfinite(V).all())
    given = bias[bias > -np.inf]
    finite = finite and bool(np.isfinite(given).all())
    largest = max(np.abs(q).max(initial=0.0) * max(1.0, abs(numbers.scale)), products.max(), scaled.max())
    tiny = TINY * np.abs(K).sum(axis=1).max()  # scaled queries may be flushed to 0
    error = precision.sums * (len(q) + 16) * scaled.max() + tiny
    error += 3.0 * precision.sums * np.abs(given).max(initial=0.0)
    if numbers.softcap is not None:
        error += 4.0 * precision.sums * min(numbers.softcap, scaled.max()) + TINY * numbers.softcap
        largest = max(largest, scaled.max() / numbers.softcap)
    # Weights smaller than the sums can hold are 0 there; they count for nothing against the row's highest.
    judged = finite and largest < room and np.abs(V).sum(axis=0).max(initial=0.0) < room and error < 0.1
    return bool(judged), float(error)


def output_tolerance(row: Row, V: Array, precision: Precision) -> Array:
    """How far each number of the output may be from the row's own."""
    reach = (row.weights[:, None] * np.abs(V[row.keys])).sum(axis=0)
    share = 4.0 * precision.given + row.relative + (8.0 + len(row.keys) / 8.0) * precision.sums
    return share * reach + precision.given * np.abs(V[row.keys]).max(axis=0, initial=0.0) * 1e-2 + precision.sums


@dataclass(frozen=True)
class Slopes:
    """Gradients of Q, K, V and of the dense bias; `sizes` are sums of what the terms could be at most."""

    Q: Array
    K: Array
    V: Array
    bias: Array


def compute_gradients(numbers: Numbers, of_output: Array, precision: Precision) -> tuple[Slopes, Slopes]:
    """The gradients of Σ output · of_output, and for each the tolerance rounding asks for."""
    shapes = [x.shape for x in (numbers.Q, numbers.K, numbers.V, numbers.visible)]
    found, near = (Slopes(*map(np.zeros, shapes)) for _ in range(2))
    for place in np.ndindex(*numbers.Q.shape[:3]):
        add_row(numbers, place, of_output[place], precision, (found, near))
    return found, near


def add_row(numbers: Numbers, place: tuple, of_row: Array, precision: Precision, to: tuple[Slopes, Slopes]) -> None:
    """What one row sends back, and its tolerance."""
    (b, h, _), (found, near) = place, to
    g = h // max(1, numbers.Q.shape[1] // numbers.K.shape[1])
    row = compute_row(numbers, place, precision)
    keys, weights, scale = row.keys, row.weights, numbers.scale
    q, K, V = numbers.Q[place], numbers.K[b, g, keys], numbers.V[b, g, keys]
    slope = np.ones(len(keys)) if numbers.softcap is None else 1.0 - (row.capped / numbers.softcap) ** 2
    of_weights, most = V @ of_row, np.abs(V) @ np.abs(of_row)
    of_scores = weights * (of_weights - (weights * of_weights).sum())
    largest = weights * (most + (weights * most).sum())
    share = 8.0 * precision.given + 4.0 * row.relative + (16.0 + len(keys) / 4.0) * precision.sums
    # Beside its own rounding, that of the cap's slope: 1 − tanh² near ±1 is a difference of near numbers.
    bent = np.abs(of_scores) * (8.0 * precision.sums + 2.0 * row.error / (numbers.softcap or np.inf))
    # Weights and gradients of scores may have been half precision on the way, which has no smaller steps.
    unsure = share * largest + bent + precision.step
    found.bias[(*place, keys)] += of_scores
    near.bias[(*place, keys)] += share * largest + precision.step
    found.Q[place] += scale * (of_scores * slope) @ K
    near.Q[place] += abs(scale) * unsure @ np.abs(K)
    found.K[b, g, keys] += scale * (of_scores * slope)[:, None] * q
    near.K[b, g, keys] += abs(scale) * unsure[:, None] * np.abs(q)
    found.V[b, g, keys] += weights[:, None] * of_row
    near.V[b, g, keys] += (share * weights + precision.step)[:, None] * np.abs(of_row)
