"""Every claim of a lesson, right or wrong: the first wrong entry, the right value, and the likely cause."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from transom.lessons.arithmetic import number
from transom.lessons.causes import causes
from transom.lessons.claims import Quantity, agree, check_shape, digits, flat, quantity
from transom.lessons.lesson import Claim, Lesson

Verdict = Literal["right", "wrong", "slip", "no slip"]


@dataclass(frozen=True, eq=False)
class Finding:
    """What came of a claim.

    verdict   "right"; "wrong"; "slip" for a figure shown as wrong, and it is; "no slip" where it is not, or not so
    first     place, claimed and right text of the first wrong entry
    causes    what may have gone wrong, by name, in words
    """

    claim: Claim
    where: str
    verdict: Verdict
    found: Quantity
    first: tuple[str, str, str] | None
    causes: dict[str, str]

    @property
    def fine(self) -> bool:
        return self.verdict in ("right", "slip")

    def plain(self) -> dict[str, Any]:
        """The finding as plain data, for JSON."""
        place, claimed, right = self.first or (None, None, None)
        return {
            "where": self.where,
            "of": self.claim.of,
            "says": self.claim.says,
            "verdict": self.verdict,
            "place": place,
            "claimed": claimed,
            "right": right,
            "causes": self.causes,
            "computed": nested(self.found.values),
        }


def nested(values: Any) -> Any:
    """An array as lists, where a masked number is None: JSON knows no infinity."""
    if values.ndim:
        return [nested(one) for one in values]
    return float(values) if np.isfinite(values) else None


def checked(lesson: Lesson) -> list[Finding]:
    """Every claim of a lesson, computed."""
    return [finding(lesson, claim) for claim in lesson.claims]


def finding(lesson: Lesson, claim: Claim) -> Finding:
    found = quantity(lesson, claim)
    if claim.value is not None:
        check_shape(lesson, claim, found)
    right = agree(claim, found)
    where = lesson.source.at((*claim.path, next(name for name in FIGURES if getattr(claim, name) is not None)))
    if right.all():
        return Finding(claim, where, "no slip" if claim.slip else "right", found, None, {})
    fitting = causes(lesson, claim, found, most=20 if claim.slip else 3)
    verdict: Verdict = "wrong"
    if claim.slip:
        verdict = "slip" if claim.slip in ("unknown", *fitting) else "no slip"
        fitting = {claim.slip: fitting[claim.slip]} if claim.slip in fitting else fitting
    return Finding(claim, where, verdict, found, first_wrong(claim, found, right), fitting)


FIGURES = ("value", "above", "below")


def first_wrong(claim: Claim, found: Quantity, right: Any) -> tuple[str, str, str]:
    """Where the first wrong number stands, what is claimed of it, and what is right."""
    place = tuple(int(index) for index in np.argwhere(~right)[0])
    value = float(found.values[place])
    if claim.value is None:
        bounds = [
            f"{word} {bound}" for word, bound in (("above", claim.above), ("below", claim.below)) if bound is not None
        ]
        return found.named(place), " and ".join(bounds), number(value, 6)
    flat_place = int(np.ravel_multi_index(place, right.shape)) if place else 0
    claimed = str(flat(claim.value)[flat_place])
    return found.named(place), said(claimed), fixed(value, digits(claim.value)[flat_place])


def said(claimed: str) -> str:
    return "masked" if claimed == "-Infinity" else claimed


def fixed(value: float, places: int) -> str:
    """A right number with as many decimals as the claim had."""
    return "masked" if value == -np.inf else f"{value + 0.0:.{places}f}"


def right_texts(finding: Finding) -> list[str]:
    """Every number of a claim as it should be printed, in the order of the file."""
    places = digits(finding.claim.value)
    return [fixed(float(value), one) for value, one in zip(finding.found.values.ravel(), places, strict=True)]
