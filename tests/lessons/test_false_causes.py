"""Figures spoilt at random, which no mistake made: hardly any of them may be explained by a cause."""

import random
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from transom.lessons import parsed
from transom.lessons.causes import causes
from transom.lessons.checking import check_each
from transom.lessons.claims import agree, digits, flat, quantity
from transom.lessons.shelf import paths, shipped

TRAINED = 6  # the lesson with a small training, which takes seconds
KINDS = ("one", "some", "all", "near", "large")


def figures(numbers):
    """Every figure of the lessons that may be spoilt: a lesson, a claim of it, and what is right."""
    found = []
    for lesson in map(shipped, numbers):
        for claim in lesson.claims:
            right = quantity(lesson, claim)
            if claim.value is not None and not claim.slip and np.isfinite(right.values).all():
                found.append((lesson, claim, right))
    return found


def like(value, numbers):
    """Numbers in the shape of a claim."""
    return next(numbers) if isinstance(value, Decimal) else tuple(like(one, numbers) for one in value)


def spoilt(draw, claim, right, kind):
    """The claim with random numbers of the size of the right ones; near them; or far too large."""
    numbers, places = flat(claim.value), digits(claim.value)
    largest = 1.0 if claim.of == "weights" else 1.5 * max(1.0, float(np.abs(right.values).max(initial=0.0)))
    lowest = 0.0 if (right.values >= 0).all() else -largest
    count = {"all": len(numbers), "some": draw.randint(1, len(numbers))}.get(kind, 1)
    for place in draw.sample(range(len(numbers)), count):
        if kind == "near":
            numbers[place] += draw.choice([-1, 1]) * draw.randint(1, 30) * Decimal(10) ** -places[place]
        else:
            size = draw.uniform(1, 10) * 10 ** draw.uniform(1, 8) if kind == "large" else draw.uniform(lowest, largest)
            numbers[place] = Decimal(f"{size:.{places[place]}f}")
    return replace(claim, value=like(claim.value, iter(numbers)))


def explained(pool, tries, seed=1):
    """The causes told of so many spoilt figures. That weights do not sum to 1 is no guess, so it does not count."""
    draw, found, spoilt_ones = random.Random(seed), [], 0
    while spoilt_ones < tries:
        lesson, claim, right = draw.choice(pool)
        wrong = spoilt(draw, claim, right, draw.choice(KINDS))
        if agree(wrong, right).all():
            continue
        spoilt_ones += 1
        told = {name: words for name, words in causes(lesson, wrong, right).items() if name != "not one"}
        found += [told] if told else []
    return found


def test_hardly_any_random_figure_of_a_sum_is_explained():
    pool = [one for one in figures([1, 4, 5, 12, 16]) if one[1].of == "sum"]
    assert len(explained(pool, 25)) <= 1


@pytest.mark.slow
def test_hardly_any_of_two_thousand_random_figures_is_explained():
    """In an interpreter of its own, without the checks of shapes that the tests turn on: it is five times as fast."""
    done = subprocess.run([sys.executable, __file__, "2000"], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 20


TABLE = """title = "x"
tokens = ["query"]
at = ["red", "green", "blue"]
[given]
Q = [[0.9, 0.1, 0.2]]
K = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
V = [[10], [20], [30]]
[attention]
scale = false
temperature = 0.05
[[claim]]
of = "sum"
value = [[{value}]]
"""


@pytest.mark.parametrize("value", ["3.095", "9.993", "28.950", "118.799", "79975208.000"])
def test_no_absurd_value_is_told(value):
    (found,) = check_each(parsed(TABLE.format(value=value), "x.toml"))
    assert (found.verdict, found.causes) == ("wrong", {})


SUMS = """title = "x"
tokens = ["a", "b"]
[given]
Q = [[1, 0], [0, 1]]
K = [[1, 0], [0, 1]]
V = [[1, 2], [3, 4]]
[[claim]]
of = "sum"
value = {value}
"""


def test_a_misread_value_must_explain_every_row():
    scores = np.eye(2) / np.sqrt(2)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    sums = weights @ np.array([[1, 2], [5, 4]])  # the value of b misread in both rows
    rows = [[f"{one:.4f}" for one in row] for row in sums]
    (found,) = check_each(parsed(SUMS.format(value=str(rows).replace("'", "")), "x.toml"))
    assert found.causes == {"value vector": "the value of b was taken as [5 4] instead of [3 4]"}
    rows[1][0] = "3.1415"
    (found,) = check_each(parsed(SUMS.format(value=str(rows).replace("'", "")), "x.toml"))
    assert (found.verdict, found.causes) == ("wrong", {})


def test_no_division_by_the_root_of_a_d_model_that_is_not_there():
    """Scores that are given have no d_model: √1 would be no division at all."""
    text = SUMS.replace('of = "sum"', 'of = "scaled"').format(value="[[1.0, 0.0], [0.0, 1.0]]")
    (found,) = check_each(parsed(text, "x.toml"))
    assert "wrong divisor" not in found.causes


if __name__ == "__main__":
    everything = figures(number for number in range(1, len(paths()) + 1) if number != TRAINED)
    print(len(explained(everything, int(sys.argv[1]))))
