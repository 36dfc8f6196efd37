"""A lesson as screens: a question, a prediction, matrices side by side, a number to change, what to remember."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from transom.lessons.arithmetic import NOTES
from transom.lessons.check_claims import check_claim
from transom.lessons.lesson import Claim, Lesson, LessonCase, LessonStep, NumberChange, Prediction
from transom.lessons.lesson_pages import LessonPage, PageText, claim_text, example_cell, pages, paragraphs
from transom.lessons.parameter_steps import parameter_steps
from transom.lessons.predictions import answer_choices, changed_steps, right_answer
from transom.lessons.step_builders import number_labels
from transom.lessons.steps import Step, Steps
from transom.names import Misfit

WIDTH = 76  # columns that matrices side by side may take
MOST_ROWS, MOST_COLUMNS = 10, 12


@dataclass(frozen=True)
class LessonScreen(LessonPage):
    """A page in the order in which it is shown: `parts`, the answer, the matrices with what they prove, the change."""

    answer: tuple[PageText, ...] = ()
    shown: tuple[PageText, ...] = ()
    changed: tuple[PageText, ...] = ()
    step: LessonStep | None = None

    @property
    def all_parts(self) -> tuple[PageText, ...]:
        return (*self.parts, *self.answer, *self.shown, *self.changed)

    def wrap(self, width: int) -> tuple[str, ...]:
        return tuple(line for part in self.all_parts for line in part.wrap(width))


def screens(lesson: Lesson) -> Iterator[LessonScreen]:
    """The screens of a lesson; one without a script is shown step by step as it is computed."""
    if not lesson.script:
        yield from (LessonScreen(page.title, page.parts) for page in pages(lesson))
        return
    question = [PageText(f"Question: {lesson.question}", True), PageText("")] if lesson.question else []
    yield LessonScreen(lesson.title, (*question, *paragraphs(lesson.about)))
    proved = set[tuple[str | int, ...]]()
    for step in lesson.script:
        claims = [claim for claim in lesson.claims if belongs(claim, step) and claim.path not in proved]
        proved |= {claim.path for claim in claims}
        yield build_screen(lesson, step, claims)
    closing = [*paragraphs(lesson.closing)]
    if lesson.next:
        closing += [PageText(""), PageText(f"Next: {lesson.next}", True)]
    yield LessonScreen("To remember", tuple(closing))


def build_screen(lesson: Lesson, step: LessonStep, claims: Sequence[Claim]) -> LessonScreen:
    before, answer = [*paragraphs(step.says)] if step.says else [], list[PageText]()
    if step.predict is not None:
        before += [PageText("")] if before else []
        before.append(PageText(f"Predict: {step.predict.ask}", True, ("", "  ")))
        choices = answer_choices(lesson, step.predict)
        if choices:
            before.append(PageText("  " + "   ".join(f"{n}) {says}" for n, says in enumerate(choices, 1)), True))
        because = f" {step.predict.because}" if step.predict.because else ""
        answer.append(PageText(f"Answer: {right_answer(lesson, step.predict)}.{because}", True, ("", "  ")))
    shown, changed = tuple(matrix_text(lesson, step, claims)), tuple(change_text(lesson, step))
    return LessonScreen(step.title, tuple(before), tuple(answer), shown, changed, step)


def belongs(claim: Claim, step: LessonStep) -> bool:
    """Whether a claim is proved on a screen: it is about a step that is shown there."""
    same_place = claim.head in (None, step.head) or step.head is None
    same_layer = claim.layer in (None, step.layer) or step.layer is None
    return claim.case == step.case and claim.of in step.show and same_place and same_layer


def matrix_text(lesson: Lesson, step: LessonStep, claims: Sequence[Claim]) -> Iterator[PageText]:
    """The matrices, one number worked out, and what they prove."""
    case = lesson.cases[step.case]
    shown = find_steps(case, step)
    if shown:
        yield PageText("")
        yield from map(PageText, side_by_side(shown, case.steps))
        yield from worked_cell(shown)
    for claim in claims:
        yield from short_claim(lesson, claim)


def change_text(lesson: Lesson, step: LessonStep, to: Decimal | None = None) -> Iterator[PageText]:
    """A number to change, and what follows; `to` is the learner's own number."""
    if step.change is None:
        return
    yield PageText("")
    if to is None:
        yield PageText(f"Change: {step.change.says}", True, ("", "  "))
    after = changed_steps(lesson, step.change, step.case, to)
    yield from map(PageText, side_by_side(visible_changes(step, after), after))


def visible_changes(step: LessonStep, after: Steps) -> list[Step]:
    """The steps in which a change is seen; only the row that matters, if the lesson names one."""
    assert step.change is not None
    seen = [after[name, step.head, step.layer] for name in step.change.see]
    if step.change.see_row is None:
        return seen
    rows = [each.index_of(step.change.see_row, "row") for each in seen]
    return [
        replace(each, values=each.values[[row]], rows=(each.rows[row],)) for each, row in zip(seen, rows, strict=True)
    ]


def find_steps(case: LessonCase, step: LessonStep) -> list[Step]:
    """The steps and parameters that a screen shows, in the order in which it names them."""
    parameters, found = parameter_steps(case.setup), list[Step]()
    for name in step.show:
        source = parameters if name in parameters else case.steps
        if name not in source:
            raise Misfit(f"there is no step {name!r} to show; the steps are {', '.join(case.steps.names)}")
        of_name = [each for each in source if each.name == name]
        found += [
            each
            for each in of_name
            if step.head in (None, each.head) or each.head is None
            if step.layer in (None, each.layer)
        ]
    return found


def side_by_side(steps: Sequence[Step], among: Steps) -> list[str]:
    """Matrices beside each other, as many as fit; each under its name."""
    lines, row = list[str](), list[list[str]]()
    for block in (matrix_block(step, among) for step in steps):
        if row and sum(len(other[0]) + 4 for other in row) + len(block[0]) > WIDTH:
            lines += join_blocks(row)
            row = []
        row.append(block)
    return lines + (join_blocks(row) if row else [])


def join_blocks(blocks: Sequence[list[str]]) -> list[str]:
    height = max(map(len, blocks))
    widths = [len(block[0]) for block in blocks]
    padded = [[*block, *[""] * (height - len(block))] for block in blocks]
    return [
        "  " + "    ".join(f"{line:<{width}}" for line, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*padded, strict=True)
    ]


def matrix_block(step: Step, among: Steps, digits: int = 4) -> list[str]:
    """A matrix under its name: labels of rows and columns where they say something, all lines of one width."""
    is_parameter = step.title.startswith("learned")
    left_out = len(step.rows) > MOST_ROWS or len(step.columns) > MOST_COLUMNS
    rows, columns = step.rows[:MOST_ROWS], step.columns[:MOST_COLUMNS]
    cells = [row[:MOST_COLUMNS] for row in step.to_strings(digits)[:MOST_ROWS]]
    named = not all(label.isdigit() for label in columns)
    table = [list(columns), *cells] if named else cells
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    hidden = is_parameter and not named and rows == number_labels(len(rows))
    labels = [""] * len(table) if hidden else [*([""] * named), *rows]
    left = max(len(label) for label in labels)
    lines = [
        f"{label:<{left}}{' ' if left else ''}{' '.join(f'{c:>{w}}' for c, w in zip(row, widths, strict=True))}"
        for label, row in zip(labels, table, strict=True)
    ]
    several_heads = step.head is not None and len(among.heads) > 1
    where = [f"head {step.head}"] if several_heads else []
    where += [f"layer {step.layer}"] if len(among.layers) > 1 else []
    title = step.name + (f" ({', '.join(where)})" if where else "") + (" (part)" if left_out else "")
    width = max(len(title), *map(len, lines))
    return [f"{line:<{width}}" for line in [title, *lines]]


def worked_cell(steps: Sequence[Step]) -> Iterator[PageText]:
    """One number of the last matrix that is computed, written out."""
    computed = [step for step in steps if step.kind not in NOTES and step.values.size]
    if computed:
        cell = computed[-1].cell(*example_cell(computed[-1]))
        yield PageText(f"{cell.subject}: {cell.to_text(4, most=4)}", True, ("  ", "    "))


def short_claim(lesson: Lesson, claim: Claim) -> Iterator[PageText]:
    """A claim whose numbers are on the screen: its sentence; a slip with its figures and its cause."""
    finding = check_claim(lesson, claim)
    if finding.verdict == "right" and claim.measure == "value":
        if claim.says:
            yield PageText(f"✓ {claim.says}", True, ("", "  "))
        return
    yield from claim_text(finding)


def script_to_dict(lesson: Lesson) -> list[dict[str, Any]]:
    """Every screen as plain data, its question and its change among them, so that a page can offer the same."""
    found = []
    for step in lesson.script:
        screen = {"title": step.title, "says": step.says, "case": step.case, "show": step.show, "picture": step.picture}
        screen["predict"] = None if step.predict is None else prediction_to_dict(lesson, step.predict)
        screen["change"] = None if step.change is None else change_to_dict(step.change)
        found.append(screen)
    return found


def prediction_to_dict(lesson: Lesson, prediction: Prediction) -> dict[str, Any]:
    return {
        "ask": prediction.ask,
        "choices": answer_choices(lesson, prediction),
        "digits": prediction.digits,
        "right": right_answer(lesson, prediction),
        "because": prediction.because,
    }


def change_to_dict(change: NumberChange) -> dict[str, Any]:
    return {
        "says": change.says,
        "set": ".".join(change.setting),
        "row": change.row,
        "column": change.column,
        "to": float(change.to),
        "see": change.see,
        "see_row": change.see_row,
    }
