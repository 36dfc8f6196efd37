"""A lesson as plain text, page by page: a step with its numbers and one worked out; then what was checked."""

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap

import numpy as np

from transom.lessons.arithmetic import NOTES, format_number
from transom.lessons.check_claims import Finding, check_claim
from transom.lessons.claims import claim_subject
from transom.lessons.lesson import Claim, Lesson, LessonCase
from transom.lessons.steps import Step, Steps
from transom.names import count_noun

MOST_COLUMNS, MOST_ROWS = 9, 16


@dataclass(frozen=True)
class PageText:
    """A paragraph, which may be wrapped anywhere, or a line of figures, which may not."""

    text: str
    prose: bool = False
    indents: tuple[str, str] = ("", "")  # of a paragraph's first line, and of the others

    def wrap(self, width: int) -> list[str]:
        if not self.prose:
            return [self.text]
        return wrap(self.text, width, initial_indent=self.indents[0], subsequent_indent=self.indents[1])


@dataclass(frozen=True)
class LessonPage:
    """What is shown at one time."""

    title: str
    parts: tuple[PageText, ...]

    def wrap(self, width: int) -> tuple[str, ...]:
        return tuple(line for part in self.parts for line in part.wrap(width))


def pages(lesson: Lesson) -> Iterator[LessonPage]:
    """The whole lesson, page by page."""
    yield LessonPage(lesson.title, tuple(paragraphs(lesson.about)))
    for case in lesson.cases.values():
        claims = [claim for claim in lesson.claims if claim.case == case.name]
        if case.name:
            yield LessonPage(f"Case: {case.name}", tuple(paragraphs(case.says)))
        for step in visible_steps(case, claims):
            yield LessonPage(page_title(step, case.steps), tuple(step_text(step)))
        if claims:
            title = "What this proves" if not case.name else f"What “{case.name}” proves"
            yield LessonPage(title, tuple(part for claim in claims for part in claim_text(check_claim(lesson, claim))))
    if lesson.closing:
        yield LessonPage("To take away", tuple(paragraphs(lesson.closing)))


def paragraphs(text: str) -> Iterator[PageText]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield PageText("")
        yield PageText(" ".join(paragraph.split()), prose=True)


def visible_steps(case: LessonCase, claims: list[Claim]) -> Iterator[Step]:
    """The steps that `show` names; by default all of the lesson itself, or those that a case makes claims about."""
    shown = case.show
    if shown is None:
        shown = {claim.of for claim in claims} if case.name else case.steps.names
    return (step for step in case.steps if step.name in shown)


def page_title(step: Step, steps: Steps) -> str:
    """The step and its meaning; layer and head, from 0, if there are several."""
    parts = [f"layer {step.layer}"] if len(steps.layers) > 1 else []
    parts += [f"head {step.head}"] if step.head is not None and len(steps.heads) > 1 else []
    where = f" ({', '.join(parts)})" if parts else ""
    return f"{step.name}{where}: {step.title}"


def step_text(step: Step, digits: int = 4) -> Iterator[PageText]:
    """A step as a table, and one of its numbers worked out."""
    if step.equation:
        yield PageText(f"   {step.equation}")
    yield from map(PageText, table_lines(step, digits))
    if step.kind not in NOTES and step.values.size:
        cell = step.cell(*example_cell(step))
        yield PageText(f"{cell.subject}: {cell.to_text(digits, most=6)}", prose=True, indents=("   ", ""))


def example_cell(step: Step) -> tuple[int, int]:
    """The cell that is worked out: the largest one."""
    sizes = np.where(np.isfinite(step.values), np.abs(step.values), -1.0)
    row, column = np.unravel_index(int(sizes.argmax()), sizes.shape)
    return int(row), int(column)


def table_lines(step: Step, digits: int) -> Iterator[str]:
    """Rows and columns with their labels, as far as they fit."""
    corner = "from ↓ at →" if step.by_key else ""
    labels = [corner, *step.rows[:MOST_ROWS]]
    cells = [step.columns[:MOST_COLUMNS], *(row[:MOST_COLUMNS] for row in step.to_strings(digits)[:MOST_ROWS])]
    left = max(len(label) for label in labels)
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    for label, row in zip(labels, cells, strict=True):
        yield f"   {label:<{left}}  {'  '.join(f'{cell:>{width}}' for cell, width in zip(row, widths, strict=True))}"
    more = [
        count_noun(len(axis) - most, f"more {noun}")
        for axis, most, noun in ((step.rows, MOST_ROWS, "row"), (step.columns, MOST_COLUMNS, "column"))
        if len(axis) > most
    ]
    if more:
        yield f"   … and {' and '.join(more)}"


def claim_text(finding: Finding) -> Iterator[PageText]:
    """A claim, what is computed, and for a slip the cause of it."""
    mark = {"right": "✓", "slip": "✗", "wrong": "✗ WRONG", "no slip": "✗ NOT A SLIP"}[finding.verdict]
    claim = finding.claim
    if claim.says:
        yield PageText(f"{mark} {claim.says}", prose=True, indents=("", "  "))
        mark = " "
    for number, line in enumerate(figure_lines(finding)):
        yield PageText(f"{mark if number == 0 else ' ' * len(mark)} {line}")
    for words in finding.causes.values() if claim.value is not None else ():
        yield PageText(f"why: {words}", prose=True, indents=("  ", "  "))


def figure_lines(finding: Finding) -> Iterator[str]:
    """The claimed figure and the right one, only the right one if they agree; or the number and its bounds."""
    subject, values = claim_subject(finding.claim), finding.computed.values
    if finding.claim.value is None:
        signs = {"above": ">", "below": "<"}
        bounds = " and ".join(f"{signs[name]} {bound}" for name, bound in finding.claim.bounds.items())
        yield f"{subject} = {format_number(float(values.ravel()[0]), 4)} ({bounds})"
        return
    width = values.shape[-1] if values.ndim else 1
    if finding.matches.all():
        yield from number_lines(subject, finding.right_texts, width)
    else:
        yield from number_lines(f"{subject}, as printed", finding.claimed_texts, width)
        yield from number_lines(f"{subject}, right", finding.right_texts, width)


def number_lines(name: str, numbers: list[str], width: int) -> Iterator[str]:
    """`name = 1 2 3`, a line for each row; a long row is cut."""
    for start in range(0, len(numbers), width):
        row = numbers[start : start + width]
        shown = row if len(row) <= 12 else [*row[:12], f"… {len(row) - 12} more"]
        yield f"{' ' * (len(name) + 3) if start else f'{name} = '}{' '.join(shown)}"
