"""Answers to the questions of a lesson, judged by the checker; and a lesson with one number changed."""

from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from transom.files.documents import decode_toml
from transom.files.strict_settings import suggest
from transom.lessons.arithmetic import format_number
from transom.lessons.check_claims import check_claim
from transom.lessons.claims import compute_quantity
from transom.lessons.lesson import Lesson, NumberChange, Prediction
from transom.lessons.lesson_file import build_lesson, parse_decimal
from transom.lessons.steps import Steps
from transom.lessons.toml_source import TomlTable, count_decimals, parse_number
from transom.names import Misfit


@dataclass(frozen=True)
class AnswerVerdict:
    """Whether an answer is right, what is right, and for a wrong one the causes that the checker finds."""

    is_right: bool
    right: str
    causes: tuple[str, ...] = ()


def predicted_number(lesson: Lesson, prediction: Prediction) -> float:
    """The number that is asked for."""
    values = compute_quantity(lesson, prediction.claim).values
    if values.size != 1:
        where = lesson.source.at(prediction.claim.path)
        raise Misfit(f"{where}: a prediction is of one number, but there are {values.size}; give row and column")
    return float(values.ravel()[0])


def answer_choices(lesson: Lesson, prediction: Prediction) -> tuple[str, ...]:
    """The answers to choose from; none if a number is typed."""
    if prediction.which:
        return tuple(dict.fromkeys(compute_quantity(lesson, prediction.claim).columns))
    return tuple(choice.says for choice in prediction.choices)


def right_answer(lesson: Lesson, prediction: Prediction) -> str:
    """The answer that the computed numbers give; a question without exactly one right choice is an error."""
    if prediction.which:
        quantity = compute_quantity(lesson, prediction.claim)
        place = quantity.values.argmax() if prediction.which == "largest" else quantity.values.argmin()
        return quantity.columns[int(place)]
    number = predicted_number(lesson, prediction)
    if not prediction.choices:
        return f"{number:.{prediction.digits}f}"
    right = [
        choice.says
        for choice in prediction.choices
        if (choice.holds(number) if choice.value is None else is_figure(lesson, prediction, choice.value))
    ]
    if len(right) != 1:
        where = lesson.source.at((*prediction.claim.path, "choices"))
        shown = format_number(number, 6)
        raise Misfit(f"{where}: one choice must be right, but {len(right)} are: the number is {shown}; mend choices")
    return right[0]


def is_figure(lesson: Lesson, prediction: Prediction, value: Decimal) -> bool:
    """Whether a figure is right to the digits that are asked for."""
    return (
        check_claim(lesson, replace(prediction.claim, value=with_digits(value, prediction.digits))).verdict == "right"
    )


def with_digits(value: Decimal, digits: int) -> Decimal:
    """A figure with at least so many decimals: 0.5 as 0.50."""
    return value if count_decimals(value) >= digits else value.quantize(Decimal(1).scaleb(-digits))


def judge_answer(lesson: Lesson, prediction: Prediction, text: str) -> AnswerVerdict:
    """An answer as a person types it: a number, or one of the choices by its number or its words."""
    right, choices, text = right_answer(lesson, prediction), answer_choices(lesson, prediction), text.strip()
    if choices:
        chosen = choices[int(text) - 1] if text.isdigit() and text not in choices and is_index(text, choices) else text
        if chosen not in choices:
            raise Misfit(f"an answer must be one of {', '.join(choices)}, but got {text!r}; type it, or its number")
        figure = next((choice.value for choice in prediction.choices if choice.says == chosen), None)
        if chosen == right or figure is None:
            return AnswerVerdict(chosen == right, right)
    else:
        figure = parse_answer(text)
    finding = check_claim(lesson, replace(prediction.claim, value=with_digits(figure, prediction.digits)))
    if finding.verdict == "right":
        return AnswerVerdict(True, finding.right_texts[0])
    return AnswerVerdict(False, right, tuple(finding.causes.values()))


def is_index(text: str, choices: tuple[str, ...]) -> bool:
    return 1 <= int(text) <= len(choices)


def parse_answer(text: str) -> Decimal:
    """A number with a point or a comma."""
    try:
        number = parse_number(Decimal(text.replace(",", ".")))
    except InvalidOperation:
        number = None
    if number is None:
        raise Misfit(f"an answer must be a number, but got {text!r}; type digits, like 0.25")
    return number


OF_KEYS = ("at_embeddings", "value_embeddings", "K", "V")  # settings with a row for each token looked at


def change_lesson(lesson: Lesson, change: NumberChange, case: str = "", to: Decimal | None = None) -> Lesson:
    """The lesson with one number changed, in a case or in the lesson itself."""
    content, holder, key = locate_number(lesson, change, case)
    number = change.to if to is None else to
    is_whole = isinstance(entry_of(holder, str(key)), int) and number == number.to_integral_value()
    holder[key] = int(number) if is_whole else number
    return build_lesson(TomlTable(content, (), lesson.source), lesson.source.name)


def number_before(lesson: Lesson, change: NumberChange, case: str = "") -> Decimal | None:
    """The number that a change replaces; None for a setting that the lesson leaves out."""
    _, holder, key = locate_number(lesson, change, case)
    return parse_number(entry_of(holder, str(key)))


def locate_number(lesson: Lesson, change: NumberChange, case: str) -> tuple[dict[str, Any], Any, Any]:
    """The lesson as plain data, the table or row in it that holds a number, and the key or index of the number."""
    where = lesson.source.at((*change.setting,))
    content = decode_toml(lesson.source.text, parse_float=parse_decimal)
    table = next((part for part in content.get("case", []) if part.get("name") == case), content) if case else content
    if change.setting[0] not in table or not holds(table, change.setting):
        table = content
    for name in change.setting[:-1]:
        table = entry_of(table, name)
    if not isinstance(table, dict):
        raise Misfit(f"{where}: there is no {'.'.join(change.setting)} to change; name a setting of the lesson")
    if change.row is None and change.column is None:
        return content, table, change.setting[-1]
    owner = next((part for part in content.get("case", []) if part.get("name") == case), content)
    tokens, at = (owner.get(name, content.get(name, [])) for name in ("tokens", "at"))
    labels = at if change.setting[-1] in OF_KEYS and at else tokens
    return content, *locate_cell(table.get(change.setting[-1]), change, labels, where)


def entry_of(table: Any, name: str) -> Any:
    """A setting of a table, or a table of a list by its index; None if there is none."""
    if isinstance(table, list) and name.isdecimal() and int(name) < len(table):
        return table[int(name)]
    return table.get(name) if isinstance(table, dict) else None


def holds(table: Any, keys: tuple[str, ...]) -> bool:
    """Whether a setting is written in a table."""
    for name in keys:
        if not isinstance(table, dict) or name not in table:
            return False
        table = table[name]
    return True


def locate_cell(value: Any, change: NumberChange, labels: list[str], where: str) -> tuple[list[Any], int]:
    """The row of a matrix that holds the number, and its place in it."""
    name, places = change.setting[-1], [place for place in (change.row, change.column) if place is not None]
    unknown = [place for place in places if isinstance(place, str) and place not in labels]
    if unknown:
        raise Misfit(f"{where}: {name} has no row {unknown[0]!r}; {suggest(unknown[0], labels)}")
    path = [labels.index(place) if isinstance(place, str) else place for place in places]
    for place in path[:-1]:
        value = value[place] if isinstance(value, list) and place < len(value) else None
    if not isinstance(value, list) or path[-1] >= len(value) or isinstance(value[path[-1]], list):
        raise Misfit(
            f"{where}: {name} has no such number to change; give row and column of a matrix that is written out"
        )
    return value, path[-1]


def changed_steps(lesson: Lesson, change: NumberChange, case: str = "", to: Decimal | None = None) -> Steps:
    """Every step after a number was changed."""
    return change_lesson(lesson, change, case, to).steps(case)


def largest_move(before: Steps, after: Steps, name: str) -> float:
    """How far the number of a step that moved furthest moved; the steps must have one shape."""
    old, new = before[name].values, after[name].values
    both = np.isfinite(old) & np.isfinite(new)
    return float(np.abs(np.where(both, new - old, 0.0)).max(initial=0.0))
