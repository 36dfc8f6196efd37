"""What a claim may be about, beside the numbers of a step themselves."""

from collections.abc import Callable

import numpy as np

from transom.lessons.steps import Matrix

Result = Matrix | np.float64  # of many rows, or of one


def total(values: Matrix) -> Result:
    """The sum of each row."""
    return values.sum(axis=-1)


def entropy(values: Matrix) -> Result:
    """How spread out each row of weights is, in nats."""
    return -(values * np.log(np.where(values > 0.0, values, 1.0))).sum(axis=-1)


def length(values: Matrix) -> Result:
    """The length of each row as a vector."""
    return np.sqrt((values**2).sum(axis=-1))


def largest(values: Matrix) -> Result:
    return values.max(axis=-1)


def smallest(values: Matrix) -> Result:
    return values.min(axis=-1)


def cosine(values: Matrix, others: Matrix) -> Result:
    """1 where two rows point the same way, 0 where they have nothing in common, −1 where they are opposite."""
    return (values * others).sum(axis=-1) / np.maximum(length(values) * length(others), 1e-300)


def distance(values: Matrix, others: Matrix) -> Result:
    """How far two rows are apart, as points."""
    return length(values - others)


def difference(values: Matrix, others: Matrix) -> Result:
    """The largest difference between two numbers that stand in the same place."""
    return np.abs(values - others).max(axis=-1)


def rank(values: Matrix) -> Result:
    """How many independent directions the rows have."""
    return np.float64(np.linalg.matrix_rank(values))


ALONE: dict[str, Callable[[Matrix], Result]] = {
    "total": total,
    "entropy": entropy,
    "length": length,
    "largest": largest,
    "smallest": smallest,
    "rank": rank,
}
BETWEEN: dict[str, Callable[[Matrix, Matrix], Result]] = {
    "cosine": cosine,
    "distance": distance,
    "difference": difference,
}
MEASURES = ("value", *ALONE, *BETWEEN)
