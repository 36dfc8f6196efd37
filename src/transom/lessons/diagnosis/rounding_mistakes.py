"""Steps rounded, or cut, before the next one: all of them, one of them, or those that are printed."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from transom.lessons.claims import claimed_decimals
from transom.lessons.compute import compute_steps
from transom.lessons.diagnosis.own_figures import PrintedFigures
from transom.lessons.diagnosis.setup_mistakes import Mistake
from transom.lessons.diagnosis.wrong_claim import Explanation, WrongClaim
from transom.lessons.lesson import Claim
from transom.lessons.lesson_setup import LessonSetup, Rounding
from transom.lessons.steps import Matrix, Step

HAND_MADE = ("scaled", "powers", "weights")  # the steps of a softmax by hand, which are often rounded together


def rounded_steps(wrong: WrongClaim, setup: LessonSetup) -> Iterator[Mistake]:
    """The setups in which someone who prints so many decimals rounded before the end, the likeliest first."""
    # Someone who prints four decimals may have computed with three or five, but not with one.
    for distance, places in enumerate(range(wrong.decimals + 1, max(0, wrong.decimals - 2), -1)):
        unlikely = (0.3, 0.0, 0.2)[distance]
        for cut, word in ((False, "rounded"), (True, "cut")):
            decimals = f"{places} decimal{'s' * (places != 1)}"
            for cost, steps in rounded_sets(wrong):
                names = " and ".join(("the powers e^score" if name == "powers" else name) for name in steps)
                subject = f"{names} {'was' if len(steps) == 1 and not names.endswith('s') else 'were'}"
                words = f"{subject if steps else 'each step was'} {word} to {decimals} before the next"
                change = Rounding(places, cut, frozenset(steps))
                finer = any(is_printed_finer(claim, steps, places) for claim in wrong.earlier)
                yield Mistake(words, replace(setup, change=change), cost + unlikely + 0.2 * cut + 0.4 * finer)


def printed_figures(wrong: WrongClaim, setup: LessonSetup) -> Iterator[Explanation]:
    """The earlier figures, all right, taken as printed."""
    earlier = tuple(filter(wrong.is_right, wrong.earlier))
    for number, claims in enumerate(dict.fromkeys((earlier[-1:], earlier))):
        if claims:
            names = " and ".join(f"{claim.of} as printed in line {wrong.line_of(claim)}" for claim in claims[-2:])
            steps = compute_steps(PrintedFigures(claims, wrong.steps).apply(setup))
            yield from wrong.explain_by(steps, f"it was computed from {names}, rounded", 0.1 * number - 0.3)


def is_printed_finer(claim: Claim, steps: tuple[str, ...], places: int) -> bool:
    """Whether a claim prints more decimals of a step than it is said to have been rounded to."""
    return (not steps or claim.of in steps) and max(claimed_decimals(claim.value)) > places


def rounded_terms(wrong: WrongClaim) -> Iterator[Explanation]:
    """Each product rounded before it was added, with exact figures or with the earlier ones as printed."""
    if wrong.setup is None or wrong.claim.measure != "value":
        return
    printed = [PrintedFigures(wrong.earlier, wrong.steps).apply(wrong.setup)] if wrong.earlier else []
    for steps in (wrong.steps, *map(compute_steps, printed)):
        values = sum_rounded_terms(steps[wrong.claim.of, wrong.claim.head, wrong.claim.layer], wrong)
        if values is not None:
            words = f"each product was rounded to {wrong.decimals} decimals before it was added"
            yield Explanation(words, values, 0.3)


def sum_rounded_terms(step: Step, wrong: WrongClaim) -> Matrix | None:
    """The claimed numbers as sums of rounded products; None if they are no sums of products."""
    if step.kind != "dot" or step.values.shape != wrong.step.values.shape:
        return None
    sums = [sum(round(float(np.prod(term[1:])), wrong.decimals) for term in step.terms(*cell)) for cell in wrong.cells]
    return np.array(sums).reshape(wrong.right.values.shape)


def off_by_one(wrong: WrongClaim) -> Iterator[Explanation]:
    """Two numbers or more that are off by one in their last digit: something was rounded, no matter what."""
    errors = np.abs(wrong.figures - wrong.right.values) / wrong.units
    if (~wrong.matches).sum() > 1 and (errors[~wrong.matches] < 1.5).all():
        words = "every wrong number is off by one in its last digit, as after rounding in an earlier step"
        yield Explanation(words, np.where(wrong.matches, wrong.right.values, wrong.figures), 0.6)


def rounded_sets(wrong: WrongClaim) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Which steps may have been rounded: all (none are named), one before the claim, or those of a softmax by hand."""
    yield 0.0, ()
    if wrong.is_large:
        return
    names = [step.name for step in wrong.steps if step.kind != "given" or step.name == wrong.claim.of]
    before = list(dict.fromkeys(names[: names.index(wrong.claim.of)]))
    if "weights" in before or wrong.claim.of == "weights":
        before.insert(before.index("weights") if "weights" in before else len(before), "powers")
    for name in before:
        yield (0.0 if name == "powers" else 0.4), (name,)
    by_hand = [name for name in HAND_MADE if name in before]
    for first in range(len(by_hand) - 1):
        yield 0.4, tuple(by_hand[first:])
