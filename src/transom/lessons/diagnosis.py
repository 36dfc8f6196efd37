"""Why a claim may be wrong: each cause makes one mistake on purpose, and fits if it yields the claim."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from transom.lessons import mistakes
from transom.lessons.claims import (
    Quantity,
    claim_matches,
    claimed_decimals,
    flatten_claim,
    measure_claim,
)
from transom.lessons.compute import compute_steps
from transom.lessons.lesson import Claim, Lesson
from transom.lessons.lesson_setup import LessonSetup
from transom.lessons.steps import Steps
from transom.names import Misfit


@dataclass(frozen=True, eq=False)
class WrongClaim:
    """A claim that is wrong, and what is right."""

    lesson: Lesson
    claim: Claim
    right: Quantity

    @property
    def setup(self) -> LessonSetup | None:
        return self.lesson.cases[self.claim.case].setup

    @property
    def decimals(self) -> int:
        return max(claimed_decimals(self.claim.value), default=0)

    @property
    def significant_digits(self) -> int:
        """The digits of all wrong figures together, without leading zeros: a single one fits too much by chance."""
        matches = claim_matches(self.claim, self.right).ravel()
        numbers = zip(flatten_claim(self.claim.value), matches, strict=True)
        return sum(len(number.as_tuple().digits) for number, is_right in numbers if not is_right)

    def follows_from(self, setup: LessonSetup) -> bool:
        """Whether a setup with a mistake gives the claimed numbers."""
        return self.fits(compute_steps(setup))

    def fits(self, steps: Steps, claim: Claim | None = None) -> bool:
        """Whether the claimed numbers are those of other steps, or of another place in them that `claim` names."""
        try:
            computed = measure_claim(
                claim or self.claim, lambda case: steps if case == self.claim.case else self.lesson.steps(case)
            )
        except Misfit:  # these steps have nothing in that place
            return False
        return computed.values.shape == self.right.values.shape and bool(claim_matches(self.claim, computed).all())


Cause = Callable[[WrongClaim], Iterator[str]]


def in_setup(mistakes_of: Callable[[LessonSetup], mistakes.Mistakes]) -> Cause:
    """A cause that fits if the claim follows from a setup with the mistake."""

    def cause(wrong: WrongClaim) -> Iterator[str]:
        if wrong.setup is not None:
            yield from (words for words, setup in mistakes_of(wrong.setup) if wrong.follows_from(setup))

    return cause


def early_rounding(wrong: WrongClaim) -> Iterator[str]:
    """The first rounding that fits is enough."""
    return islice(in_setup(lambda setup: mistakes.rounded_steps(setup, wrong.decimals))(wrong), 1)


def cut_digits(wrong: WrongClaim) -> Iterator[str]:
    """The right numbers, cut instead of rounded."""
    values = wrong.right.values
    if not np.isfinite(values).all():
        return
    units = 10.0 ** np.array(claimed_decimals(wrong.claim.value)).reshape(values.shape)
    cut = np.asarray(np.trunc(values * units + np.sign(values) * 1e-9) / units)
    if (claim_matches(wrong.claim, wrong.right) | claim_matches(wrong.claim, replace(wrong.right, values=cut))).all():
        yield "the digits were cut off, not rounded"


def wrong_total(wrong: WrongClaim) -> Iterator[str]:
    """Weights that do not sum to 1."""
    claim = wrong.claim
    if claim.of != "weights" or claim.measure != "value" or claim.column is not None:
        return
    one_row = np.ndim(claim.value) == 1
    rows, labels = ([claim.value], [str(claim.row)]) if one_row else (claim.value, wrong.right.rows)
    for label, row in zip(labels, rows, strict=True):
        total = sum(flatten_claim(row))
        if abs(float(total) - 1.0) > 0.5 * len(row) * 10.0 ** -max(claimed_decimals(row)) * (1 + 1e-9):
            yield f"the claimed weights of {label} sum to {total}, and weights sum to 1"
            return


def other_step(wrong: WrongClaim) -> Iterator[str]:
    """The numbers of another step in the same place."""
    steps = wrong.lesson.steps(wrong.claim.case)
    for name in steps.names:
        if name != wrong.claim.of and wrong.fits(steps, replace(wrong.claim, of=name)):
            yield f"these are the numbers of {name}, not of {wrong.claim.of}"


def swapped_axes(wrong: WrongClaim) -> Iterator[str]:
    """Another row, or rows for columns."""
    steps, claim, values = wrong.lesson.steps(wrong.claim.case), wrong.claim, wrong.right.values
    if values.ndim == 2 and values.shape[0] == values.shape[1]:
        if claim_matches(claim, replace(wrong.right, values=values.T)).all():
            yield "rows and columns were swapped"
        return
    if claim.row is None or claim.measure != "value":
        return
    for row, label in enumerate(steps[claim.of].rows):
        if wrong.fits(steps, replace(claim, row=row)):
            yield f"this is the row of {label}"
    if claim.column is None and wrong.fits(steps, replace(claim, row=None, column=claim.row)):
        yield "a column was taken for a row"


def misread_value(wrong: WrongClaim) -> Iterator[str]:
    """A value as simple as the others that would explain every weighted sum."""
    claim, steps = wrong.claim, wrong.lesson.steps(wrong.claim.case)
    if claim.of != "sum" or claim.measure != "value" or claim.column is not None or "V" not in steps:
        return
    head = (claim.head or 0, claim.layer or 0)
    weights, V = steps["weights", *head], steps["V", *head].values
    claimed = np.array([float(number) for number in flatten_claim(claim.value)]).reshape(-1, V.shape[1])
    rows = list(range(len(weights.rows))) if claim.row is None else [weights.index_of(claim.row, "row")]
    matches = claim_matches(claim, wrong.right).reshape(claimed.shape)
    if len(claimed) != len(rows) or not np.isfinite(claimed).all():
        return
    readings = []
    for key, label in enumerate(weights.columns):
        text = mistakes.find_misreading(weights.values[rows], V, key, claimed, matches, wrong.decimals)
        if text:
            readings.append(f"the value of {label} was taken as {text}")
    if readings:
        yield " or ".join(readings)


CAUSES: dict[str, Cause] = {  # the likeliest first
    "cut off": cut_digits,
    "not one": wrong_total,
    "unscaled": in_setup(mistakes.wrong_scaling),
    "wrong divisor": in_setup(mistakes.wrong_divisor),
    "wrong axis": in_setup(mistakes.wrong_axis),
    "mask forgotten": in_setup(mistakes.forgotten_mask),
    "mask turned": in_setup(mistakes.turned_mask),
    "transposed": in_setup(mistakes.transposed_parameter),
    "left out": in_setup(mistakes.omitted_part),
    "other step": other_step,
    "swapped": swapped_axes,
    "value vector": misread_value,
    "rounded early": early_rounding,
}
LEAST_DIGITS = 2  # of the wrong figures of a claim; fewer fit too much by chance


def find_causes(lesson: Lesson, claim: Claim, right: Quantity, most: int = 3) -> dict[str, str]:
    """The causes that fit a wrong claim, by name, each in words; the likeliest first."""
    if claim.value is None:
        return {}
    wrong, causes = WrongClaim(lesson, claim, right), dict[str, str]()
    too_few_digits = wrong.significant_digits < LEAST_DIGITS
    for name, cause in CAUSES.items():
        if too_few_digits and name != "not one":
            continue
        with np.errstate(all="ignore"):
            words = list(islice(cause(wrong), 2))
        if words:
            causes[name] = " or ".join(words)
        if len(causes) == most:
            break
    return causes
