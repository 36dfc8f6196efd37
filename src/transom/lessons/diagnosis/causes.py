"""Why a claim may be wrong: each cause makes a mistake on purpose; those that give the claimed figures are ranked.

How much an explanation explains is counted in digits: an entry that is off by 50 units of its last digit, and that a
mistake gives exactly, counts log10(1 + 2 · 50) = 2 digits. A mistake that is rare, or one of many that were tried,
costs digits, since it fits more often by chance. What is left ranks the explanations, and must reach LEAST_GAIN.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from transom.lessons.claims import Quantity
from transom.lessons.diagnosis import figure_mistakes, own_figures, rounding_mistakes, setup_mistakes
from transom.lessons.diagnosis.misprint import misprint
from transom.lessons.diagnosis.wrong_claim import Explanation, FindExplanations, WrongClaim
from transom.lessons.lesson import Claim, Lesson
from transom.lessons.lesson_setup import LessonSetup

LEAST_GAIN = 0.5  # digits that an explanation must explain beyond its cost
ONE_UNIT = np.log10(3.0)  # digits of an error of one unit, the least that is seen
NEARLY = 0.75  # digits: two units of the last one, since a mistake may come with rounding; only a far error counts so
LEAST_SHARE = 0.65  # of the entries that are wrong, or that an explanation would make wrong


class Cause(NamedTuple):
    """A kind of mistake: how its explanations are found, and what they cost in digits."""

    find: FindExplanations
    cost: float


def in_setup(mistakes_of: Callable[[LessonSetup], setup_mistakes.Mistakes], cost: float) -> Cause:
    """A cause whose mistakes are setups."""

    def find(wrong: WrongClaim) -> Iterator[Explanation]:
        return iter(()) if wrong.setup is None else explain_mistakes(wrong, mistakes_of(wrong.setup))

    return Cause(find, cost)


def early_rounding(wrong: WrongClaim) -> Iterator[Explanation]:
    """Rounding of a step, of the products of a sum, or of something that leaves last digits off by one."""
    if wrong.setup is not None:
        yield from rounding_mistakes.printed_figures(wrong, wrong.setup)
        yield from explain_mistakes(wrong, rounding_mistakes.rounded_steps(wrong, wrong.setup), 0.2)
    yield from rounding_mistakes.rounded_terms(wrong)
    yield from rounding_mistakes.off_by_one(wrong)


def explain_mistakes(
    wrong: WrongClaim, found: setup_mistakes.Mistakes, cost_of_printed: float = 0.5
) -> Iterator[Explanation]:
    """Each mistake tried with exact figures, and with the earlier ones as printed."""
    printed, setup = None if wrong.is_large else own_figures.all_printed(wrong), wrong.setup
    assert setup is not None
    for mistake in found:
        alone = wrong.measure_in(wrong.mistaken_steps(mistake.words, mistake.setup))
        if alone is None or np.array_equal(alone, wrong.right.values):
            continue
        yield Explanation(mistake.words, alone, mistake.cost)
        if printed is not None:
            without = wrong.measure_in(wrong.mistaken_steps(printed.key, printed.apply(setup)))
            steps = wrong.mistaken_steps(f"{mistake.words} {printed.key}", printed.apply(mistake.setup))
            both = wrong.measure_in(steps)
            if both is not None and not (without is not None and np.array_equal(both, without)):
                words = f"{mistake.words}, and the earlier figures were taken as printed"
                yield Explanation(words, both, mistake.cost + cost_of_printed)


CAUSES: dict[str, Cause] = {
    "follows": Cause(own_figures.follow_earlier_figures, -0.7),
    "cut off": Cause(figure_mistakes.cut_digits, -0.4),
    "rest of one": Cause(figure_mistakes.rest_of_one, -0.6),
    "not one": Cause(figure_mistakes.wrong_total, 0.0),
    "unscaled": in_setup(setup_mistakes.wrong_scaling, 0.6),
    "wrong divisor": in_setup(setup_mistakes.wrong_divisor, 0.9),
    "wrong axis": in_setup(setup_mistakes.wrong_axis, 0.6),
    "no softmax": in_setup(setup_mistakes.wrong_softmax, 0.8),
    "mask forgotten": in_setup(setup_mistakes.forgotten_mask, 0.6),
    "mask turned": in_setup(setup_mistakes.turned_mask, 0.7),
    "mask misplaced": in_setup(setup_mistakes.misplaced_mask, 0.8),
    "transposed": in_setup(setup_mistakes.transposed_parameter, 0.8),
    "parameters exchanged": in_setup(setup_mistakes.exchanged_parameters, 0.9),
    "left out": in_setup(setup_mistakes.omitted_part, 0.9),
    "wrong head": Cause(figure_mistakes.other_head, 0.7),
    "other step": Cause(figure_mistakes.other_step, 0.7),
    "other case": Cause(figure_mistakes.other_case, 0.8),
    "swapped": Cause(figure_mistakes.swapped_axes, 0.7),
    "exchanged": Cause(figure_mistakes.exchanged_places, 0.5),
    "misprint": Cause(misprint, 0.0),
    "wrong term": Cause(figure_mistakes.wrong_term, 0.6),
    "factor": Cause(figure_mistakes.constant_factor, 1.5),
    "value vector": Cause(figure_mistakes.misread_value, 0.5),
    "rounded early": Cause(early_rounding, -0.3),
}


@dataclass(frozen=True)
class RankedExplanation:
    """An explanation, the name of its cause, and how many digits it explains beyond its cost."""

    name: str
    words: str
    gain: float


def find_causes(lesson: Lesson, claim: Claim, right: Quantity, most: int = 3) -> dict[str, str]:
    """The causes that fit a wrong claim, by name, each in words; the one that explains most comes first."""
    if claim.value is None:
        return {}
    ranked = rank_explanations(WrongClaim(lesson, claim, right))
    return {explanation.name: explanation.words for explanation in ranked[:most]}


def rank_explanations(wrong: WrongClaim) -> list[RankedExplanation]:
    """The best explanation of each cause, and a second one that is as good; the best cause first."""
    best: dict[str, RankedExplanation] = {}
    with np.errstate(all="ignore"):
        for name, cause in CAUSES.items():
            for explanation in cause.find(wrong):
                gain = weigh_explanation(wrong, explanation, cause.cost)
                if gain is None:
                    continue
                found = RankedExplanation(name, with_share(wrong, explanation), gain)
                best[name] = better_of(best.get(name), found)
    return sorted(best.values(), key=lambda found: -found.gain)


def better_of(known: RankedExplanation | None, found: RankedExplanation) -> RankedExplanation:
    """The one that explains more; two that explain as much are joined by “or”."""
    if known is None or found.gain > known.gain + 1e-9:
        return found
    if found.gain < known.gain - 1e-9 or " or " in known.words or known.words == found.words:
        return known
    return replace(known, words=f"{known.words} or {found.words}")


def weigh_explanation(wrong: WrongClaim, explanation: Explanation, cost: float) -> float | None:
    """The digits that an explanation explains beyond its cost; None if it does not fit, or may fit by chance."""
    fits = wrong.matches_with(explanation.values)
    before, after = wrong.error_digits(wrong.right.values), wrong.error_digits(explanation.values)
    before = np.where(wrong.matches, before, np.maximum(before, ONE_UNIT))
    nearly = ~fits & (after <= NEARLY) & (before - after >= 1.0)
    explained, missed = (fits | nearly) & ~wrong.matches, ~(fits | nearly)
    concerned = ~wrong.matches | missed
    if explained.sum() < LEAST_SHARE * concerned.sum() or not explained.any():
        return None
    digits = before[explained].sum() - after[nearly].sum()
    losses = after[missed & wrong.matches].sum() + 0.5 * missed.sum() + 0.4 * nearly.any()
    gain = float(digits - losses) - cost - explanation.cost
    return gain if gain >= LEAST_GAIN else None


def with_share(wrong: WrongClaim, explanation: Explanation) -> str:
    """The words of an explanation, and how many of the wrong entries it explains, if not all."""
    fits = wrong.matches_with(explanation.values) | (wrong.error_digits(explanation.values) <= NEARLY)
    count, total = int((fits & ~wrong.matches).sum()), int((~wrong.matches).sum())
    return explanation.words if count == total else f"{explanation.words} (this explains {count} of {total})"
