"""A value vector misread: one as simple as the others that explains every claimed weighted sum."""

import numpy as np
from numpy.typing import NDArray

from transom.lessons.arithmetic import format_number
from transom.lessons.lesson_setup import Rounding
from transom.lessons.steps import Matrix

LARGER = 3.0  # times the largest number among the values: nobody misreads 10 as 60,000
CHANCE = 0.01  # the highest probability that some value fits a wrong figure by chance
WAYS = 3  # weights exact, rounded or cut


def find_misreading(
    weights: Matrix, V: Matrix, key: int, claimed: Matrix, matches: NDArray[np.bool_], decimals: int
) -> str:
    """The value of a key that would explain all claimed weighted sums, in words; "" if there is no plausible one.

    It must be as simple and as small as the other values, and unlikely to fit by chance.
    """
    value_decimals = count_value_decimals(V)
    row = int(np.argmax(np.where(matches.all(axis=1), -1.0, weights[:, key])))  # the wrong row with the largest weight
    chance = chance_of_fit(decimals, value_decimals, weights[:, key], matches)
    if weights[row, key] < 1e-9 or chance * len(V) > CHANCE:
        return ""
    others = np.delete(weights[row], key) @ np.delete(V, key, axis=0)
    misread = V.copy()
    misread[key] = np.round((claimed[row] - others) / weights[row, key], value_decimals)
    if np.array_equal(misread[key], V[key]) or np.abs(misread[key]).max() > LARGER * np.abs(V).max():
        return ""
    tolerance = 0.5 * 10.0**-decimals * (1 + 1e-9)
    for suffix, used in (
        ("", weights),
        (f", with weights rounded to {decimals} decimals", np.round(weights, decimals)),
        (f", with weights cut to {decimals} decimals", Rounding(decimals, cut=True).round_values(weights)),
    ):
        if (np.abs(used @ misread - claimed) <= tolerance).all():
            numbers, right = (" ".join(format_number(float(number)) for number in x[key]) for x in (misread, V))
            return f"[{numbers}] instead of [{right}]{suffix}"
    return ""


def chance_of_fit(decimals: int, value_decimals: int, weights: Matrix, matches: NDArray[np.bool_]) -> float:
    """How likely it is that some value with so many decimals fits figures that no such value made.

    A value moves a sum in steps of weight · 10^−value_decimals; each wrong figure is hit within 10^−decimals.
    """
    steps = np.maximum(weights, 1e-300)[:, None] * 10.0**-value_decimals
    chances = np.minimum(1.0, 10.0**-decimals / np.broadcast_to(steps, matches.shape))
    return float(WAYS * np.prod(chances[~matches]))


def count_value_decimals(V: Matrix) -> int:
    """How many decimals the values have, up to 9."""
    return next((places for places in range(9) if np.allclose(V, np.round(V, places), rtol=0, atol=1e-12)), 9)
