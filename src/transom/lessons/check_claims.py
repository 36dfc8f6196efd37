"""Check every claim of a lesson: the wrong entries, the right values, the likely cause, and a corrected file."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transom.lessons.arithmetic import format_number
from transom.lessons.claims import (
    MASKED,
    Quantity,
    check_claim_shape,
    claim_matches,
    claimed_decimals,
    compute_quantity,
    flatten_claim,
    suggest_step,
)
from transom.lessons.diagnosis import find_causes
from transom.lessons.lesson import FIGURES, Claim, Lesson, MalformedPart
from transom.lessons.steps import to_nested_lists
from transom.lessons.toml_source import STRING_OR_COMMENT, Path
from transom.names import Misfit

Verdict = Literal["right", "wrong", "slip", "no slip"]


class WrongEntry(NamedTuple):
    """A wrong number: where it stands, what is claimed, and what is right."""

    place: str
    claimed: str
    right: str


@dataclass(frozen=True, eq=False)
class Finding:
    """The result of checking a claim.

    where      file and line of its figure
    verdict    "right"; "wrong"; "slip" if a figure marked as wrong is wrong; "no slip" if it is right, or wrong for
               another cause
    matches    for each computed number whether the claim is right
    causes     what may have gone wrong, by name, in words
    """

    claim: Claim
    where: str
    verdict: Verdict
    computed: Quantity
    matches: NDArray[np.bool_]
    causes: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.claim.path

    @property
    def fine(self) -> bool:
        return self.verdict in ("right", "slip")

    @cached_property
    def claimed_texts(self) -> list[str]:
        """Every claimed number as it is printed, or the bounds of each."""
        if self.claim.value is None:
            return [" and ".join(f"{name} {bound}" for name, bound in self.claim.bounds.items())] * self.matches.size
        return ["masked" if number == MASKED else str(number) for number in flatten_claim(self.claim.value)]

    @cached_property
    def right_texts(self) -> list[str]:
        """Every computed number, with as many decimals as the claim has."""
        values = [float(value) for value in self.computed.values.ravel()]
        if self.claim.value is None:
            return [format_number(value, 6) for value in values]
        printed = zip(values, claimed_decimals(self.claim.value), strict=True)
        return ["masked" if value == -np.inf else f"{value + 0.0:.{decimals}f}" for value, decimals in printed]

    @cached_property
    def wrong(self) -> tuple[WrongEntry, ...]:
        """Every wrong entry, in the order of the file."""
        places = [self.computed.position_text(tuple(index)) for index in np.argwhere(~self.matches).tolist()]
        flat = np.flatnonzero(~self.matches).tolist()
        return tuple(
            WrongEntry(place, self.claimed_texts[index], self.right_texts[index])
            for place, index in zip(places, flat, strict=True)
        )

    @property
    def first(self) -> WrongEntry | None:
        return self.wrong[0] if self.wrong else None

    def to_dict(self) -> dict[str, Any]:
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
            "computed": to_nested_lists(self.computed.values),
            "entries": self.computed.values.size,
            "wrong": [entry._asdict() for entry in self.wrong],
            "complaint": None,
        }


def check_lesson(lesson: Lesson) -> list[Finding]:
    """Every claim of a lesson, computed; a claim that cannot be computed raises an error."""
    return [check_claim(lesson, claim) for claim in lesson.claims]


def check_claims(lesson: Lesson) -> list[Finding | MalformedPart]:
    """Every claim of a lesson and its malformed parts, in the order of the file."""
    findings: list[Finding | MalformedPart] = [*lesson.malformed, *unknown_shown_steps(lesson)]
    for claim in lesson.claims:
        try:
            findings.append(check_claim(lesson, claim))
        except Misfit as error:
            findings.append(MalformedPart.from_error(lesson.source, claim.path, error))
    return sorted(findings, key=lambda part: int(part.where.rpartition(" ")[2]))


def unknown_shown_steps(lesson: Lesson) -> Iterator[MalformedPart]:
    """The cases whose `show` names a step that they do not have; without effect, it is an error."""
    for case in lesson.cases.values():
        try:
            unknown = [name for name in case.show or () if name not in case.steps]
        except Misfit:  # what cannot be computed is reported with its claims
            continue
        if unknown:
            complaint = f"show names {unknown[0]!r}, which is no step here; {suggest_step(unknown[0], case.steps)}"
            message = f"{lesson.source.at(case.show_path)}: {complaint}"
            yield MalformedPart(case.show_path, lesson.source.at(case.show_path), complaint, message)


def check_claim(lesson: Lesson, claim: Claim) -> Finding:
    computed = compute_quantity(lesson, claim)
    if claim.value is not None:
        check_claim_shape(lesson, claim, computed)
    matches = claim_matches(claim, computed)
    where = lesson.source.at((*claim.path, next(name for name in FIGURES if getattr(claim, name) is not None)))
    if matches.all():
        return Finding(claim, where, "no slip" if claim.slip else "right", computed, matches)
    causes = find_causes(lesson, claim, computed, most=20 if claim.slip else 3)
    if not claim.slip:
        return Finding(claim, where, "wrong", computed, matches, causes)
    verdict = "slip" if claim.slip in ("unknown", *causes) else "no slip"
    causes = {claim.slip: causes[claim.slip]} if claim.slip in causes else causes
    return Finding(claim, where, verdict, computed, matches, causes)


NUMBER = r"[+-]?\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?"
FIGURE = re.compile(f"{STRING_OR_COMMENT}|{NUMBER}", re.DOTALL)  # “masked” is a string


def corrected_text(lesson: Lesson, findings: list[Finding]) -> str:
    """The text of the lesson with every wrong `value` corrected; slips shown on purpose stay.

    A claim with `above` or `below` has no right number, so it stays too.
    """
    text = lesson.source.text
    changes: list[tuple[int, int, str]] = []
    for finding in findings:
        if finding.verdict == "wrong" and finding.claim.value is not None:
            changes += corrections(lesson, finding)
    for start, end, right in sorted(changes, reverse=True):
        text = text[:start] + right + text[end:]
    return text


def corrections(lesson: Lesson, finding: Finding) -> Iterator[tuple[int, int, str]]:
    """Start, end and right text of each wrong number of one claim."""
    statement = lesson.source.statement((*finding.claim.path, "value"))
    assert statement is not None
    text = lesson.source.text
    tokens = FIGURE.finditer(text, text.index("=", statement.start) + 1, statement.end)
    figures = [token for token in tokens if not token.group().startswith("#")]
    for figure, matches, right in zip(figures, finding.matches.ravel(), finding.right_texts, strict=True):
        if not matches:
            yield *figure.span(), f'"{right}"' if right == "masked" else right
