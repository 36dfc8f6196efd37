"""A lesson told in plain text, a page at a time: a step with its numbers, one of them worked out; then what holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap

import numpy as np

from transom.lessons.arithmetic import number
from transom.lessons.checking import Finding, finding, fixed, said
from transom.lessons.claims import digits, flat
from transom.lessons.lesson import Case, Claim, Lesson
from transom.lessons.steps import Step, Steps

WIDTH, MOST_COLUMNS, MOST_ROWS = 100, 9, 16
EDGES = {"scores", "scaled", "capped", "biased", "masked", "weights"}


@dataclass(frozen=True)
class Part:
    """A paragraph, which may be wrapped anywhere, or a line of figures, which may not."""

    text: str
    prose: bool = False
    indents: tuple[str, str] = ("", "")  # of a paragraph's first line, and of the others

    def fitted(self, width: int) -> list[str]:
        if not self.prose:
            return [self.text]
        return wrap(self.text, width, initial_indent=self.indents[0], subsequent_indent=self.indents[1])


@dataclass(frozen=True)
class Page:
    """What is shown at a time."""

    title: str
    parts: tuple[Part, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        return self.fitted(WIDTH)

    def fitted(self, width: int) -> tuple[str, ...]:
        return tuple(line for part in self.parts for line in part.fitted(width))


def pages(lesson: Lesson) -> Iterator[Page]:
    """The whole lesson, page by page."""
    yield Page(lesson.title, tuple(paragraphs(lesson.about)))
    for case in lesson.cases.values():
        claims = [claim for claim in lesson.claims if claim.case == case.name]
        if case.name:
            yield Page(f"Case: {case.name}", tuple(paragraphs(case.says)))
        for step in shown(case, claims):
            yield Page(heading(step, case.steps), tuple(drawn(step)))
        if claims:
            title = "What this proves" if not case.name else f"What “{case.name}” proves"
            yield Page(title, tuple(part for claim in claims for part in told(finding(lesson, claim))))
    if lesson.closing:
        yield Page("To take away", tuple(paragraphs(lesson.closing)))


def paragraphs(text: str) -> Iterator[Part]:
    for place, part in enumerate(text.split("\n\n")):
        if place:
            yield Part("")
        yield Part(" ".join(part.split()), prose=True)


def shown(case: Case, claims: list[Claim]) -> Iterator[Step]:
    """The steps that are shown: those named, or all of the lesson itself, or those that a case claims something of."""
    about = {claim.of for claim in claims}
    for step in case.steps:
        if step.name in case.show if case.show is not None else not case.name or step.name in about:
            yield step


def heading(step: Step, steps: Steps) -> str:
    """The step and its meaning; layer and head, from 0, where there are several."""
    where = [f"layer {step.layer}"] if len(steps.layers) > 1 else []
    where += [f"head {step.head}"] if step.head is not None and len(steps.heads) > 1 else []
    place = f" ({', '.join(where)})" if where else ""
    return f"{step.name}{place}: {step.title}"


def drawn(step: Step, digits: int = 4) -> Iterator[Part]:
    """A step as a table, and one of its numbers worked out."""
    if step.equation:
        yield Part(f"   {step.equation}")
    yield from map(Part, table(step, digits))
    if step.how is not None and step.values.size:
        place = opened(step)
        cell = step.cell(*place)
        if cell.kind not in ("given", "measured", "unchanged", "masked"):
            yield Part(f"{cell.what}: {cell.written(digits, most=6)}", prose=True, indents=("   ", ""))


def opened(step: Step) -> tuple[int, int]:
    """The cell that is worked out: the largest one."""
    sizes = np.where(np.isfinite(step.values), np.abs(step.values), -1.0)
    row, column = np.unravel_index(int(sizes.argmax()), sizes.shape)
    return int(row), int(column)


def table(step: Step, digits: int) -> Iterator[str]:
    """Rows and columns with their labels, as far as they fit."""
    columns, rows = list(step.columns[:MOST_COLUMNS]), list(step.rows[:MOST_ROWS])
    cells = [row[:MOST_COLUMNS] for row in step.shown(digits)[:MOST_ROWS]]
    corner = "from ↓ at →" if step.name in EDGES else ""
    left = max(len(label) for label in (corner, *rows))
    widths = [max(len(one) for one in (columns[j], *(row[j] for row in cells))) for j in range(len(columns))]
    for label, row in zip((corner, *rows), (columns, *cells), strict=True):
        yield f"   {label:<{left}}  {'  '.join(f'{one:>{width}}' for one, width in zip(row, widths, strict=True))}"
    hidden = [
        f"{len(all_) - most} more {word}{'' if len(all_) - most == 1 else 's'}"
        for all_, most, word in ((step.rows, MOST_ROWS, "row"), (step.columns, MOST_COLUMNS, "column"))
        if len(all_) > most
    ]
    if hidden:
        yield f"   … and {' and '.join(hidden)}"


def told(finding: Finding) -> Iterator[Part]:
    """A claim, what is computed, and for a slip the cause of it."""
    mark = {"right": "✓", "slip": "✗", "wrong": "✗ WRONG", "no slip": "✗ NOT A SLIP"}[finding.verdict]
    claim = finding.claim
    if claim.says:
        yield Part(f"{mark} {claim.says}", prose=True, indents=("", "  "))
        mark = " "
    if claim.value is None:
        bounds = ((">", claim.above), ("<", claim.below))
        asked = " and ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)
        yield Part(f"{mark} {named(claim)} = {number(float(finding.found.values.ravel()[0]), 4)} ({asked})")
        return
    for place, line in enumerate(figures(claim, finding)):
        yield Part(f"{mark if place == 0 else ' ' * len(mark)} {line}")
    for words in finding.causes.values():
        yield Part(f"why: {words}", prose=True, indents=("  ", "  "))


def figures(claim: Claim, finding: Finding) -> Iterator[str]:
    """The claimed figure beside the computed one; only the computed one where they agree."""
    places = digits(claim.value)
    found = [fixed(float(one), place) for one, place in zip(finding.found.values.ravel(), places, strict=True)]
    claimed = [said(str(one)) for one in flat(claim.value)]
    width = finding.found.values.shape[-1] if finding.found.values.ndim else 1
    if finding.verdict in ("right", "no slip"):
        yield from rows(named(claim), found, width)
    else:
        yield from rows(f"{named(claim)}, as printed", claimed, width)
        yield from rows(f"{named(claim)}, right", found, width)


def rows(name: str, numbers: list[str], width: int) -> Iterator[str]:
    for start in range(0, len(numbers), width):
        part = numbers[start : start + width]
        cut = part if len(part) <= 12 else [*part[:12], f"… {len(part) - 12} more"]
        yield f"{f'{name} = ' if not start else ' ' * (len(name) + 3)}{' '.join(cut)}"


def named(claim: Claim) -> str:
    """What a claim is about, in few words: weights of The, sat."""
    asked = (("row", claim.row), ("column", claim.column))
    places = [f"{word} {one + 1}" if isinstance(one, int) else one for word, one in asked if one is not None]
    words = claim.of if claim.measure == "value" else f"{claim.measure} of {claim.of}"
    words += f" in layer {claim.layer}" if claim.layer is not None else ""
    words += f" in head {claim.head}" if claim.head is not None else ""
    words += f" of {', '.join(places)}" if places else ""
    other = f"row {claim.other + 1}" if isinstance(claim.other, int) else claim.other
    words += f" and {other}" if other is not None else ""
    words += (
        f" against “{claim.against}”" if claim.against else " against the lesson itself" if claim.against == "" else ""
    )
    return words
