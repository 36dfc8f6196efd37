"""A lesson screen by screen as plain data for the page: text, question, matrices, pictures, a number to change."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from transom.names import Misfit

if TYPE_CHECKING:
    from transom.lessons import Lesson
    from transom.lessons.check_claims import Finding
    from transom.lessons.lesson import LessonCase, LessonStep, NumberChange, Prediction
    from transom.lessons.steps import Step, Steps

MOST_ROWS, MOST_COLUMNS, DIGITS = 16, 12, 4
PLAYED = ("Q", "K", "V", "scores", "weights", "sum")  # the steps that the stage draws
HEAD_LEVEL, ROW_LEVEL = 3, 4  # of the stage, where it begins
EMPTY = {"says": [], "predict": None, "matrices": [], "worked": "", "claims": [], "pictures": [], "motion": None}
EMPTY |= {"change": None, "error": ""}


def lesson_page(lesson: "Lesson") -> dict[str, Any]:
    """A lesson as JSON: its question, and its screens in order."""
    screens = scripted_screens(lesson) if lesson.script else computed_screens(lesson)
    return {
        "name": lesson.name,
        "title": lesson.title,
        "question": lesson.question,
        "next": lesson.next,
        "screens": [{**EMPTY, **screen} for screen in screens],
    }


def paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def scripted_screens(lesson: "Lesson") -> Iterator[dict[str, Any]]:
    """The screens in which a lesson is taught; one that cannot be built says why, and the others are shown."""
    from transom.lessons.lesson_screens import belongs

    yield {"title": lesson.title, "says": paragraphs(lesson.about)}
    proved = set[Any]()
    for number, step in enumerate(lesson.script):
        claims = [claim for claim in lesson.claims if belongs(claim, step) and claim.path not in proved]
        proved |= {claim.path for claim in claims}
        try:
            yield scripted_screen(lesson, number, claims)
        except Misfit as error:
            yield {"title": step.title, "says": paragraphs(step.says), "error": with_line(lesson, step.path, error)}
    yield {"title": "To remember", "says": paragraphs(lesson.closing)}


def scripted_screen(lesson: "Lesson", number: int, claims: Sequence[Any]) -> dict[str, Any]:
    from transom.lessons.check_claims import check_claim
    from transom.lessons.lesson_screens import find_steps

    step = lesson.script[number]
    case = lesson.cases.get(step.case)
    if case is None:
        raise Misfit("this screen needs the lesson's own numbers, which cannot be computed; mend the lesson first")
    shown = find_steps(case, step)
    several = len(case.steps.heads) > 1
    return {
        "title": step.title,
        "says": paragraphs(step.says),
        "case": step.case,
        "predict": None if step.predict is None else prediction_to_dict(lesson, step.predict),
        "matrices": [matrix_to_dict(each, several) for each in shown],
        "worked": worked_number(shown),
        "claims": [claim_to_dict(check_claim(lesson, claim)) for claim in claims],
        "pictures": step_pictures(lesson, step),
        "motion": stage_of(case.steps, step, shown),
        "change": None if step.change is None else change_to_dict(lesson, number),
    }


def with_line(lesson: "Lesson", path: Any, error: Misfit) -> str:
    """A complaint that begins with file and line, those of the path if it names none."""
    message, name = str(error), lesson.source.name
    return message if message.startswith(f"{name}, line ") else f"{lesson.source.at(path)}: {message}"


def computed_screens(lesson: "Lesson") -> Iterator[dict[str, Any]]:
    """A lesson without a script, step by step as it is computed; then what it proves."""
    yield {"title": lesson.title, "says": paragraphs(lesson.about)}
    for case in lesson.cases.values():
        try:
            yield from case_screens(lesson, case)
        except Misfit as error:
            title = f"Case: {case.name}" if case.name else lesson.title
            yield {"title": title, "error": with_line(lesson, (), error)}
    if lesson.picture != "steps":
        yield own_picture(lesson)
    if lesson.closing:
        yield {"title": "To remember", "says": paragraphs(lesson.closing)}


def case_screens(lesson: "Lesson", case: "LessonCase") -> Iterator[dict[str, Any]]:
    from transom.lessons.check_claims import check_claims
    from transom.lessons.lesson import MalformedPart
    from transom.lessons.lesson_pages import page_title, visible_steps

    claims = [claim for claim in lesson.claims if claim.case == case.name]
    if case.name:
        yield {"title": f"Case: {case.name}", "says": paragraphs(case.says), "case": case.name}
    for step in visible_steps(case, claims):
        title, matrix = page_title(step, case.steps), matrix_to_dict(step, len(case.steps.heads) > 1)
        yield {"title": title, "case": case.name, "matrices": [matrix], "worked": worked_number([step])}
    paths = {claim.path for claim in claims}
    found = [one for one in check_claims(lesson) if not isinstance(one, MalformedPart) and one.path in paths]
    if found:
        title = "What this proves" if not case.name else f"What “{case.name}” proves"
        yield {"title": title, "case": case.name, "claims": [claim_to_dict(one) for one in found]}


def own_picture(lesson: "Lesson") -> dict[str, Any]:
    from transom.show.lesson_document import draw_from_file

    try:
        picture = draw_from_file(lesson, ("draws",), lesson.picture, lesson, lesson.draws)
        return {"title": "Picture", "pictures": [picture.svg()]}
    except Misfit as error:
        return {"title": "Picture", "error": with_line(lesson, ("picture",), error)}


def step_pictures(lesson: "Lesson", step: "LessonStep") -> list[str]:
    """The picture of a screen as SVG, or one for each token that looks."""
    from transom.show.lesson_document import draw_step

    return [picture.svg() for picture in draw_step(lesson, step)] if step.picture else []


def matrix_to_dict(step: "Step", name_head: bool, opens: bool = True) -> dict[str, Any]:
    """A step as a grid, its first rows and columns; each cell with its arithmetic."""
    from transom.show.panels import without_infinities
    from transom.show.views.steps import fewest_decimals, step_grid

    height, width = step.values.shape
    grid = step_grid(step, range(min(height, MOST_ROWS)), min(width, MOST_COLUMNS), DIGITS, opens, name_head)
    grid = msgspec.structs.replace(grid, digits=fewest_decimals(grid, DIGITS))
    left_out = f"the first {min(height, MOST_ROWS)} × {min(width, MOST_COLUMNS)} of {height} × {width} numbers"
    is_whole = height <= MOST_ROWS and width <= MOST_COLUMNS
    head = f" (head {step.head})" if name_head and step.head is not None else ""
    found = {"name": step.name + head, "about": step.title, "note": "" if is_whole else left_out}
    return {**without_infinities(msgspec.to_builtins(grid)), **found}


def worked_number(steps: Iterable["Step"]) -> str:
    """One number of the last matrix that is computed, written out."""
    from transom.lessons.lesson_screens import worked_cell

    return " ".join(part.text for part in worked_cell(list(steps)))


def claim_to_dict(finding: "Finding") -> dict[str, Any]:
    """A claim and its verdict; the figures unless they are right and already on the screen."""
    from transom.lessons.lesson_pages import figure_lines

    is_plain = finding.verdict == "right" and finding.claim.measure == "value" and finding.claim.says
    return {
        "verdict": finding.verdict,
        "line": int(finding.where.rpartition(" ")[2]),
        "says": finding.claim.says,
        "figures": [] if is_plain else list(figure_lines(finding)),
        "causes": list(finding.causes.values()),
    }


def prediction_to_dict(lesson: "Lesson", prediction: "Prediction") -> dict[str, Any]:
    """A question with its right answer, and for each choice what the checker says of it."""
    from transom.lessons.predictions import answer_choices, judge_answer, right_answer

    verdicts = [(text, judge_answer(lesson, prediction, text)) for text in answer_choices(lesson, prediction)]
    choices = [{"says": text, "right": verdict.is_right, "causes": list(verdict.causes)} for text, verdict in verdicts]
    return {
        "ask": prediction.ask,
        "choices": choices,
        "digits": prediction.digits,
        "right": right_answer(lesson, prediction),
        "because": prediction.because,
    }


def change_to_dict(lesson: "Lesson", number: int, to: Decimal | None = None) -> dict[str, Any]:
    """A number to change: where it stands, what it was and is, and the steps that follow, before and after."""
    from transom.lessons.lesson_screens import visible_changes
    from transom.lessons.predictions import changed_steps, number_before

    step = lesson.script[number]
    change = step.change
    if change is None:
        raise Misfit(f"the screen “{step.title}” has no number to change; choose one that has")
    before, case = number_before(lesson, change, step.case), lesson.cases[step.case]
    after = changed_steps(lesson, change, step.case, to)
    return {
        "says": change.says,
        "of": number_name(change),
        "before": None if before is None else str(before),
        "to": str(change.to if to is None else to),
        "matrices_before": change_matrices(step, case.steps, visible_changes),
        "matrices_after": change_matrices(step, after, visible_changes),
    }


def change_matrices(step: "LessonStep", steps: "Steps", visible: Any) -> list[dict[str, Any]]:
    several = len(steps.heads) > 1
    return [matrix_to_dict(each, several, opens=False) for each in visible(step, steps)]


def number_name(change: "NumberChange") -> str:
    """`embeddings, row The, column 1`."""
    places = (("row", change.row), ("column", change.column))
    named = [f"{axis} {place + 1 if isinstance(place, int) else place}" for axis, place in places if place is not None]
    return ", ".join([".".join(change.setting), *named])


def stage_of(steps: "Steps", step: "LessonStep", shown: "Sequence[Step]") -> dict[str, Any] | None:
    """The attention of a screen for the stage, if the screen shows a part of it, and the level where it begins."""
    names = {one.name for one in shown}
    if not step.frames and not names & {"scores", "scaled", "masked", "weights", "sum"}:
        return None
    found = played_steps(steps, step)
    level = HEAD_LEVEL if "weights" in names and not step.frames else ROW_LEVEL
    return None if found is None else {"level": level, **found}


def played_steps(steps: "Steps", step: "LessonStep") -> dict[str, Any] | None:
    """The numbers of one attention, row by row; None if some are missing or scores are no dot products. A masked score
    is None; `scale` is what the dot product is multiplied by; `head` is named if there are several."""
    import numpy as np

    if any(name not in steps for name in PLAYED):
        return None
    head, layer = step.head or 0, step.layer
    try:
        parts = {name: steps[name, head, layer] for name in PLAYED}
        Q, K, scores = (parts[name].values for name in ("Q", "K", "scores"))
    except Misfit:
        return None  # several attentions of one name
    if Q.shape[1] != K.shape[1] or not np.allclose(Q @ K.T, scores):
        return None
    last = next((name for name in ("biased", "capped", "scaled") if name in steps), "scores")
    taken = steps["masked" if "masked" in steps else last, head, layer].to_dict()["values"]
    place = np.unravel_index(np.abs(scores).argmax(), scores.shape)
    scaled = steps["scaled", head, layer].values if "scaled" in steps else scores
    scale = float(scaled[place] / scores[place]) if scores[place] else 1.0
    found = {name: part.to_dict()["values"] for name, part in parts.items()}
    named = head if len(steps.heads) > 1 else None
    return {"head": named, "tokens": steps.tokens, "keys": steps.at_tokens, "taken": taken, "scale": scale, **found}
