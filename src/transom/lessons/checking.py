"""Every claim of a lesson, right or wrong: the wrong entries, the right values, and the likely cause."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from transom.lessons.arithmetic import number
from transom.lessons.causes import causes
from transom.lessons.claims import Quantity, agree, check_shape, digits, flat, quantity
from transom.lessons.lesson import Claim, Lesson, MalformedPart
from transom.lessons.lines import Path as LinePath
from transom.names import Misfit

WrongEntry = tuple[str, str, str]  # where a number stands, what is claimed of it, and what is right
Verdict = Literal["right", "wrong", "slip", "no slip"]


@dataclass(frozen=True, eq=False)
class Finding:
    """What came of a claim.

    verdict   "right"; "wrong"; "slip" for a figure shown as wrong, and it is; "no slip" where it is not, or not so
    first     place, claimed and right text of the first wrong entry
    causes    what may have gone wrong, by name, in words
    wrong     place, claimed and right text of every wrong entry, in the order of the file
    worst     which of them is furthest off
    """

    claim: Claim
    where: str
    verdict: Verdict
    found: Quantity
    first: WrongEntry | None
    causes: dict[str, str]
    wrong: tuple[WrongEntry, ...] = ()
    worst: int = 0

    def few_wrong(self, most: int = 3) -> list[WrongEntry]:
        """The first wrong entries, and the one that is furthest off, if it is not among them."""
        few = list(self.wrong[:most])
        return few if self.worst < most else [*few[: most - 1], self.wrong[self.worst]]

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
            "entries": self.found.values.size,
            "wrong": [dict(zip(("place", "claimed", "right"), entry, strict=True)) for entry in self.wrong],
            "complaint": None,
        }


def nested(values: Any) -> Any:
    """An array as lists, where a masked number is None: JSON knows no infinity."""
    if values.ndim:
        return [nested(one) for one in values]
    return float(values) if np.isfinite(values) else None


def checked(lesson: Lesson) -> list[Finding]:
    """Every claim of a lesson, computed; a claim that cannot be is raised."""
    return [finding(lesson, claim) for claim in lesson.claims]


def check_each(lesson: Lesson) -> list[Finding | MalformedPart]:
    """Every claim of a lesson by itself, in the order of the file, and what of it is malformed beside the others."""
    found: list[tuple[LinePath, Finding | MalformedPart]] = [(part.path, part) for part in lesson.malformed]
    for claim in lesson.claims:
        try:
            found.append((claim.path, finding(lesson, claim)))
        except Misfit as error:
            found.append((claim.path, MalformedPart.from_error(lesson.source, claim.path, error)))
    return [one for _, one in sorted(found, key=lambda pair: lesson.source.start_of(pair[0]))]


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
    wrong = tuple(entry(claim, found, tuple(int(index) for index in place)) for place in np.argwhere(~right))
    return Finding(claim, where, verdict, found, wrong[0], fitting, wrong, furthest_off(claim, found, right))


FIGURES = ("value", "above", "below")


def entry(claim: Claim, found: Quantity, place: tuple[int, ...]) -> WrongEntry:
    """Where a wrong number stands, what is claimed of it, and what is right."""
    value = float(found.values[place])
    if claim.value is None:
        bounds = [
            f"{word} {bound}" for word, bound in (("above", claim.above), ("below", claim.below)) if bound is not None
        ]
        return found.named(place), " and ".join(bounds), number(value, 6)
    flat_place = int(np.ravel_multi_index(place, found.values.shape)) if place else 0
    claimed = str(flat(claim.value)[flat_place])
    return found.named(place), said(claimed), fixed(value, digits(claim.value)[flat_place])


def furthest_off(claim: Claim, found: Quantity, right: NDArray[np.bool_]) -> int:
    """Which of the wrong entries differs most from what is right; one that is masked, or should be, counts as most."""
    if claim.value is None:
        bounds = [float(bound) for bound in (claim.above, claim.below) if bound is not None]
        gaps = np.min([np.abs(found.values - bound) for bound in bounds], axis=0)
    else:
        claimed = np.array([float(one) for one in flat(claim.value)]).reshape(found.values.shape)
        gaps = np.abs(np.where(right, 0.0, claimed) - np.where(right, 0.0, found.values))
    return int(np.argmax(gaps[~right]))


def said(claimed: str) -> str:
    return "masked" if claimed == "-Infinity" else claimed


def fixed(value: float, places: int) -> str:
    """A right number with as many decimals as the claim had."""
    return "masked" if value == -np.inf else f"{value + 0.0:.{places}f}"


def right_texts(finding: Finding) -> list[str]:
    """Every number of a claim as it should be printed, in the order of the file."""
    places = digits(finding.claim.value)
    return [fixed(float(value), one) for value, one in zip(finding.found.values.ravel(), places, strict=True)]
