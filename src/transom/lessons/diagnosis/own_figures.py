"""Earlier figures of a lesson taken as they are printed: what follows from them, if one is wrong or rounded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from transom.lessons.claims import claim_subject, flatten_claim, select_step
from transom.lessons.compute import compute_steps
from transom.lessons.diagnosis.wrong_claim import Explanation, WrongClaim
from transom.lessons.lesson import Claim
from transom.lessons.lesson_setup import LessonSetup
from transom.lessons.step_builders import StepChange, StepInfo
from transom.lessons.steps import Matrix, Step, Steps


@dataclass(frozen=True, eq=False)
class PrintedFigures:
    """Claims whose figures take the place of what is computed; `steps` are the right ones, for their labels."""

    claims: tuple[Claim, ...]
    steps: Steps

    def __call__(self, info: StepInfo, values: Matrix) -> Matrix:
        for claim in self.claims:
            step = select_step(self.steps, claim)
            if (step.name, step.head, step.layer) == (info.name, info.head, info.layer):
                values = put_figures(values, step, claim)
        return values

    @property
    def key(self) -> str:
        """The claims by their paths, to tell them from others."""
        return str([claim.path for claim in self.claims])

    def apply(self, setup: LessonSetup) -> LessonSetup:
        """A setup with the printed figures, in its start and in its steps."""
        start = dict(setup.start)
        for claim in self.claims:
            if claim.of in start:
                start[claim.of] = put_figures(start[claim.of], select_step(self.steps, claim), claim)
        change = self if setup.change is None else both_changes(setup.change, self)
        return replace(setup, start=start, change=change)


def both_changes(first: StepChange, second: StepChange) -> StepChange:
    return lambda info, values: second(info, first(info, values))


def put_figures(values: Matrix, step: Step, claim: Claim) -> Matrix:
    """The values of a step with the figures of a claim in their place."""
    numbers = np.array([float(number) for number in flatten_claim(claim.value)])
    rows = slice(None) if claim.row is None else step.index_of(claim.row, "row")
    columns = slice(None) if claim.column is None else step.index_of(claim.column, "column")
    if values.shape != step.values.shape:  # a step of this name elsewhere, as in an encoder
        return values
    changed = values.copy()
    place = changed[rows, columns]
    changed[rows, columns] = numbers.reshape(np.shape(place))
    return changed


def all_printed(wrong: WrongClaim) -> PrintedFigures | None:
    """All earlier figures, if there are any."""
    return PrintedFigures(wrong.earlier, wrong.steps) if wrong.earlier else None


def follow_earlier_figures(wrong: WrongClaim) -> Iterator[Explanation]:
    """The claim is right by an earlier figure that is wrong: by one alone, by all wrong ones, or by all as printed."""
    mistaken = [claim for claim in wrong.earlier if not wrong.is_right(claim)]
    if wrong.setup is None or not mistaken:
        return
    choices = [(claim,) for claim in reversed(mistaken)]
    choices += [tuple(mistaken)] if len(mistaken) > 1 else []
    choices += [wrong.earlier] if len(wrong.earlier) > len(mistaken) else []
    without = measure_printed(wrong, [claim for claim in wrong.earlier if claim not in mistaken])
    for number, claims in enumerate(choices):
        values = measure_printed(wrong, claims)
        first = next(claim for claim in claims if claim in mistaken)
        place = f"{claim_subject(first)} in line {wrong.line_of(first)}"
        words = f"it follows from {place}, which is wrong; by that figure this is right"
        if values is not None and not (without is not None and np.array_equal(values, without)):
            yield Explanation(words, values, 0.1 * number)


def measure_printed(wrong: WrongClaim, claims: Sequence[Claim]) -> Matrix | None:
    """What the claim would be if earlier figures were right as they are printed."""
    assert wrong.setup is not None
    return wrong.measure_in(compute_steps(PrintedFigures(tuple(claims), wrong.steps).apply(wrong.setup)))
