"""A misread value as the cause of a wrong weighted sum: told only where chance can hardly have made it fit."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from transom.lessons.arithmetic import number
from transom.lessons.claims import agree, flat
from transom.lessons.setup import Rounding
from transom.lessons.steps import Matrix

if TYPE_CHECKING:
    from transom.lessons.causes import Wrong

LARGER = 3.0  # times the largest number among the values: nobody misreads 10 as 60,000
CHANCE = 0.01  # with which some value may fit a figure that has nothing to do with it
WAYS = 3  # weights exact, rounded or cut


def value_vector(wrong: "Wrong") -> Iterator[str]:
    """A value as simple as the others that would explain every weighted sum, with weights exact, rounded or cut."""
    claim = wrong.claim
    if claim.of != "sum" or claim.measure != "value" or claim.column is not None:
        return
    steps = wrong.lesson.steps(claim.case)
    if "V" not in steps:
        return
    head = (claim.head or 0, claim.layer or 0)
    step, V = steps["weights", *head], steps["V", *head].values
    target = np.array([float(one) for one in flat(claim.value)]).reshape(-1, V.shape[1])
    rows = list(range(len(step.rows))) if claim.row is None else [step.place(claim.row, "row", step.rows)]
    right = agree(claim, wrong.right).reshape(target.shape)
    if len(target) != len(rows) or not np.isfinite(target).all():
        return
    found = [one for key in range(len(V)) for one in misreadings(wrong, step.values[rows], V, key, target, right)]
    if found:
        yield " or ".join(f"the value of {step.columns[key]} was taken as {text}" for key, text in found)


def misreadings(
    wrong: "Wrong", weights: Matrix, V: Matrix, key: int, target: Matrix, right: np.ndarray
) -> Iterator[tuple[int, str]]:
    """The value of one key that would explain all rows of the target, if it is as simple and as small as the others."""
    places = simplicity(V)
    row = int(np.argmax(np.where(right.all(axis=1), -1.0, weights[:, key])))  # the wrong row that says most of it
    if weights[row, key] < 1e-9 or chance_of_a_fit(wrong.decimals, places, weights[:, key], right) * len(V) > CHANCE:
        return
    others = np.delete(weights[row], key) @ np.delete(V, key, axis=0)
    misread = V.copy()
    misread[key] = np.round((target[row] - others) / weights[row, key], places)
    if np.array_equal(misread[key], V[key]) or np.abs(misread[key]).max() > LARGER * np.abs(V).max():
        return
    unit = 0.5 * 10.0**-wrong.decimals * (1 + 1e-9)
    for how, used in rounded_ways(weights, wrong.decimals):
        if (np.abs(used @ misread - target) <= unit).all():
            numbers = " ".join(number(float(one)) for one in misread[key])
            was = " ".join(number(float(one)) for one in V[key])
            yield key, f"[{numbers}] instead of [{was}]{how}"
            return


def chance_of_a_fit(decimals: int, places: int, weights: Matrix, right: np.ndarray) -> float:
    """How likely it is that some value with so many decimals fits figures that no such value made.

    A value moves a sum in steps of weight · 10^−places, and each wrong figure has 10^−decimals to be met by one.
    """
    steps = np.maximum(weights, 1e-300)[:, None] * 10.0**-places
    chances = np.minimum(1.0, 10.0**-decimals / np.broadcast_to(steps, right.shape))
    return float(WAYS * np.prod(chances[~right]))


def simplicity(V: Matrix) -> int:
    """How many decimals the values have, up to 9."""
    return next((places for places in range(9) if np.allclose(V, np.round(V, places), rtol=0, atol=1e-12)), 9)


def rounded_ways(weights: Matrix, places: int) -> Iterator[tuple[str, Matrix]]:
    yield "", weights
    yield f", with weights rounded to {places} decimals", np.round(weights, places)
    yield f", with weights cut to {places} decimals", Rounding(places, cut=True)(weights)
