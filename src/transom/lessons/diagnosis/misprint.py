"""Misprints: a figure that differs from the right one by a digit, a sign, a decimal place or two digits exchanged."""

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from transom.lessons.claims import flatten_claim, rounds_to
from transom.lessons.diagnosis.wrong_claim import Explanation, WrongClaim

FEWEST_DIGITS = 3  # a figure of two digits is one digit away from too many others
BONUS = 1.0  # digits: a figure that looks like the right one is seldom something else


class Misprint(NamedTuple):
    """What a misprint did, in words, and its cost in digits."""

    words: str
    cost: float


def find_misprint(printed: Decimal, right: float, decimals: int) -> Misprint | None:
    """The misprint that turns the right number into the printed one."""
    correct = f"{right + 0.0:.{decimals}f}"
    shown = f"{printed:.{decimals}f}"
    text = f"{shown} is printed for {correct}"
    digits = len(correct.lstrip("-0.").replace(".", ""))
    if rounds_to(-right, float(printed), decimals) and digits >= 2:
        return Misprint(f"the sign is wrong: {text}", 0.3)
    for shift in (1, -1, 2, -2, 3, -3):
        places = "one place" if abs(shift) == 1 else f"{abs(shift)} places"
        if digits >= 2 and rounds_to(right * 10.0**shift, float(printed), decimals):
            return Misprint(f"the decimal point is {places} too far {'right' if shift > 0 else 'left'}: {text}", 0.4)
    if max(digits, len(shown.lstrip("-0.").replace(".", ""))) < FEWEST_DIGITS:
        return None
    return compare_digits(shown, correct, text)


def compare_digits(shown: str, correct: str, text: str) -> Misprint | None:
    """A digit that differs, or two neighbours that are exchanged."""
    if len(shown) != len(correct):
        return None
    differing = [place for place, pair in enumerate(zip(shown, correct, strict=True)) if pair[0] != pair[1]]
    if len(differing) == 1 and shown[differing[0]].isdigit() and correct[differing[0]].isdigit():
        return Misprint(f"one digit is wrong: {text}", 0.9)
    if len(differing) == 2:
        one, two = differing
        if (shown[one], shown[two]) == (correct[two], correct[one]) and not shown[one + 1 : two].strip("."):
            return Misprint(f"two digits are exchanged: {text}", 0.7)
    return None


def misprint(wrong: WrongClaim) -> Iterator[Explanation]:
    """A misprint in each wrong entry, of which there are one or two."""
    places = np.flatnonzero(~wrong.matches).tolist()
    if len(places) > 2 or not np.isfinite(wrong.right.values).all():
        return
    numbers, found = flatten_claim(wrong.claim.value), list[Misprint]()
    for place in places:
        decimals = round(-np.log10(wrong.units.ravel()[place]))
        slip = find_misprint(numbers[place], float(wrong.right.values.ravel()[place]), decimals)
        if slip is None:
            return
        found.append(slip)
    words, cost = " and ".join(slip.words for slip in found), sum(slip.cost for slip in found)
    cost -= BONUS if len(found) == 1 else 0.0
    yield Explanation(words, np.where(wrong.matches, wrong.right.values, wrong.figures), cost)
