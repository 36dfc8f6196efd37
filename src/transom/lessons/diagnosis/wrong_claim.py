"""A wrong claim, compared with what a mistake would give: which entries fit, and how many digits that explains."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from transom.lessons.claims import Quantity, claim_matches, claimed_decimals, flatten_claim, measure_claim, select_step
from transom.lessons.compute import compute_steps
from transom.lessons.lesson import Claim, Lesson
from transom.lessons.lesson_setup import LessonSetup
from transom.lessons.steps import Matrix, Step, Steps
from transom.names import Misfit

MASKED_DIGITS = 2.0  # that count for a number where “masked” is right, or the other way round
MOST_DIGITS = 6.0
LARGE = 20_000  # numbers in all steps of a case
STEPS_OF_MISTAKES: WeakKeyDictionary[Lesson, dict[tuple[str, str], Steps]] = WeakKeyDictionary()


class Explanation(NamedTuple):
    """A mistake in words, the numbers that it gives in place of the claimed ones, and its own cost in digits."""

    words: str
    values: NDArray[np.float64]
    cost: float = 0.0


@dataclass(frozen=True, eq=False)
class WrongClaim:
    """A claim that is wrong, and what is right."""

    lesson: Lesson
    claim: Claim
    right: Quantity

    @property
    def setup(self) -> LessonSetup | None:
        """What the claimed step is computed from; None for a table of an experiment."""
        return None if self.step.kind == "measured" else self.lesson.cases[self.claim.case].setup

    @property
    def steps(self) -> Steps:
        return self.lesson.steps(self.claim.case)

    @cached_property
    def is_large(self) -> bool:
        """Whether the case has so many numbers that only the most common mistakes are tried."""
        return sum(step.values.size for step in self.steps) > LARGE

    @cached_property
    def step(self) -> Step:
        """The step that the claim is about."""
        return self.steps[self.claim.of, self.claim.head, self.claim.layer]

    @cached_property
    def cells(self) -> list[tuple[int, int]]:
        """Row and column of each claimed number, in the order in which they are written; of a claim about values."""
        step, claim = self.step, self.claim
        rows = range(len(step.rows)) if claim.row is None else [step.index_of(claim.row, "row")]
        columns = range(len(step.columns)) if claim.column is None else [step.index_of(claim.column, "column")]
        return [(row, column) for row in rows for column in columns]

    @cached_property
    def decimals(self) -> int:
        return max(claimed_decimals(self.claim.value), default=0)

    @cached_property
    def figures(self) -> NDArray[np.float64]:
        numbers = [float(number) for number in flatten_claim(self.claim.value)]
        return np.array(numbers).reshape(self.right.values.shape)

    @cached_property
    def units(self) -> NDArray[np.float64]:
        """The unit of the last printed digit of each number."""
        return (10.0 ** -np.array(claimed_decimals(self.claim.value))).reshape(self.right.values.shape)

    @cached_property
    def matches(self) -> NDArray[np.bool_]:
        """For each number whether the claim is right."""
        return claim_matches(self.claim, self.right)

    def matches_with(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """For each number whether the claim would be right if `values` were."""
        near = np.abs(values - self.figures) <= 0.5 * self.units * (1 + 1e-9) + 1e-14 * np.abs(values)
        return np.asarray((near & np.isfinite(values)) | (values == self.figures))

    def error_digits(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far each claimed number is from a value: log10(1 + 2 · units of its last digit)."""
        errors = np.where(values == self.figures, 0.0, np.abs(values - self.figures)) / self.units
        digits = np.where(np.isfinite(errors), np.log10(1.0 + 2.0 * errors), MASKED_DIGITS)
        return np.asarray(np.minimum(digits, MOST_DIGITS))

    def measure_in(self, steps: Steps, claim: Claim | None = None) -> Matrix | None:
        """What the claim is about in other steps, or in another place that `claim` names; None if that is no match."""
        try:
            computed = measure_claim(
                claim or self.claim, lambda case: steps if case == self.claim.case else self.lesson.steps(case)
            )
        except Misfit:  # these steps have nothing in that place
            return None
        return computed.values if computed.values.shape == self.right.values.shape else None

    def explain_by(
        self, steps: Steps, words: str, cost: float = 0.0, claim: Claim | None = None
    ) -> Iterator[Explanation]:
        """The explanation that the claimed numbers are those of other steps, unless these say the same."""
        values = self.measure_in(steps, claim)
        if values is not None and not np.array_equal(values, self.right.values):
            yield Explanation(words, values, cost)

    @cached_property
    def earlier(self) -> tuple[Claim, ...]:
        """The claims about numbers of earlier steps of the same case, in the order of the computation."""
        order = {id(step): place for place, step in enumerate(self.steps)}
        found: list[tuple[int, Claim]] = []
        for claim in self.lesson.claims:
            if claim.case != self.claim.case or claim.measure != "value" or claim.value is None:
                continue
            if claim.slip and not self.claim.slip:
                continue
            try:
                place = order[id(select_step(self.steps, claim))]
                shape = measure_claim(claim, self.lesson.steps).values.shape
            except Misfit:  # a malformed claim is reported by itself
                continue
            if place < order[id(self.step)] and has_shape(claim, shape):
                found.append((place, claim))
        return tuple(claim for _, claim in sorted(found, key=lambda pair: pair[0]))

    def line_of(self, claim: Claim) -> str:
        """The line of the figure of a claim."""
        return self.lesson.source.at((*claim.path, "value")).rpartition(" ")[2]

    def is_right(self, claim: Claim) -> bool:
        """Whether another claim of the lesson is right."""
        return bool(claim_matches(claim, measure_claim(claim, self.lesson.steps)).all())

    def mistaken_steps(self, words: str, setup: LessonSetup) -> Steps:
        """The steps of a setup with a mistake; kept, since every claim of a lesson is compared with them."""
        known = {} if self.is_large else STEPS_OF_MISTAKES.setdefault(self.lesson, {})
        key = (self.claim.case, words)
        if key not in known:
            try:
                known[key] = compute_steps(setup)
            except ValueError:  # the mistake cannot be made with matrices of these sizes
                known[key] = Steps((), ())
        return known[key]


def has_shape(claim: Claim, shape: tuple[int, ...]) -> bool:
    """Whether as many numbers are claimed as there are."""
    try:
        return np.shape(claim.value) == shape
    except ValueError:  # rows of different lengths
        return False


FindExplanations = Callable[[WrongClaim], Iterator[Explanation]]
