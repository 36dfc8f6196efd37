"""Parse the screens of a lesson: what each says and shows, what the learner predicts, and what can be changed."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from transom.lessons.claims import MEASURES
from transom.lessons.lesson import Choice, Claim, LessonStep, MalformedPart, NumberChange, Prediction
from transom.lessons.lesson_setup import MOST_HEADS, MOST_LAYERS, MOST_TOKENS
from transom.lessons.toml_source import LARGEST, TomlTable, parse_number, quote
from transom.names import Misfit

STEP = ("title", "says", "case", "show", "head", "layer", "picture", "draws", "frames", "predict", "change")
PREDICT = ("ask", "of", "case", "head", "layer", "row", "column", "measure", "other", "against")
PREDICT += ("digits", "which", "choices", "because")
CHANGE = ("says", "set", "row", "column", "to", "see", "see_row")
CHOICE = ("says", "above", "below")
MOST_SCREENS = 40


def parse_script(
    table: TomlTable, cases: list[str], pictures: Iterable[str]
) -> tuple[tuple[LessonStep, ...], list[MalformedPart]]:
    """Every [[step]] of a lesson in order, and those that are malformed."""
    views, steps, malformed = list(pictures), list[LessonStep](), list[MalformedPart]()
    for step in table.tables("step", MOST_SCREENS):
        try:
            steps.append(parse_step(step, cases, views))
        except Misfit as error:
            malformed.append(MalformedPart.from_error(table.source, step.path, error))
    return tuple(steps), malformed


def parse_step(table: TomlTable, cases: list[str], pictures: list[str]) -> LessonStep:
    table.check_keys(STEP)
    case = parse_case_name(table, cases, "")
    predict = table.table("predict") if "predict" in table else None
    change = table.table("change") if "change" in table else None
    return LessonStep(
        path=table.path,
        title=table.text("title", longest=200),
        says=table.text("says", "").strip(),
        case=case,
        show=parse_names(table, "show"),
        head=table.integer("head", 0, 0, MOST_HEADS - 1) if "head" in table else None,
        layer=table.integer("layer", 0, 0, MOST_LAYERS - 1) if "layer" in table else None,
        picture=table.choice("picture", "", pictures) if "picture" in table else "",
        draws=plain_values(table.table("draws")),
        frames=table.flag("frames", False),
        predict=None if predict is None else parse_prediction(predict, cases, case),
        change=None if change is None else parse_change(change),
    )


def parse_case_name(table: TomlTable, cases: list[str], default: str) -> str:
    """The case that a screen is about; it must exist."""
    if "case" not in table:
        return default
    name = table.text("case", longest=100)
    return name if name in cases else table.choice("case", "", [known for known in cases if known] or ["(no cases)"])


def parse_names(table: TomlTable, name: str) -> tuple[str, ...]:
    value = table.settings.get(name, [])
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise table.error(name, f'{name} must list steps, but got {quote(value)}; write {name} = ["weights"]')
    return tuple(value)


def parse_prediction(table: TomlTable, cases: list[str], case: str) -> Prediction:
    """What is asked before it is shown: a number, one of some choices, or the column with the largest number."""
    table.check_keys(PREDICT)
    which = table.choice("which", "", ("largest", "smallest")) if "which" in table else ""
    if which and "choices" in table:
        raise table.error("choices", "which asks for a column, so all columns are the choices; leave choices out")
    claim = Claim(
        of=table.text("of", longest=100),
        path=table.path,
        case=parse_case_name(table, cases, case),
        head=table.integer("head", 0, 0, MOST_HEADS - 1) if "head" in table else None,
        layer=table.integer("layer", 0, 0, MOST_LAYERS - 1) if "layer" in table else None,
        row=parse_label(table, "row"),
        column=parse_label(table, "column"),
        measure=table.choice("measure", "value", MEASURES),
        other=parse_label(table, "other"),
        against=table.text("against") if "against" in table else None,
    )
    return Prediction(
        ask=table.text("ask", longest=500).strip(),
        claim=claim,
        digits=table.integer("digits", 2, 0, 6),
        which=which,
        choices=tuple(parse_choice(table, entry) for entry in table.settings.get("choices", [])),
        because=table.text("because", "").strip(),
    )


def parse_choice(table: TomlTable, entry: Any) -> Choice:
    """A figure, or { says = "more", above = 0.5 }."""
    number = parse_number(entry)
    if number is not None:
        return Choice(str(number), value=number)
    if not isinstance(entry, Mapping) or set(entry) - set(CHOICE) or not isinstance(entry.get("says"), str):
        hint = 'write choices = [0.1, 0.5], or { says = "more", above = 0.5 }'
        raise table.error("choices", f"a choice is a figure, or words with a bound, but got {quote(entry)}; {hint}")
    bounds = {name: parse_number(entry[name]) for name in ("above", "below") if name in entry}
    if not bounds or None in bounds.values():
        raise table.error("choices", f"words hold above or below a number, but got {quote(entry)}; give a bound")
    return Choice(entry["says"], **bounds)


def parse_change(table: TomlTable) -> NumberChange:
    table.check_keys(CHANGE)
    for name in ("set", "to"):
        if name not in table:
            raise table.error(None, f'a change has set and to, but {name} is not given; write set = "embeddings"')
    to = parse_number(table.settings["to"])
    if to is None:
        raise table.error("to", f"to must be a number up to {LARGEST:g}, but got {quote(table.settings['to'])}")
    return NumberChange(
        says=table.text("says", "").strip(),
        setting=tuple(table.text("set", longest=100).split(".")),
        row=parse_label(table, "row"),
        column=parse_label(table, "column"),
        to=to,
        see=parse_names(table, "see"),
        see_row=parse_label(table, "see_row"),
    )


def parse_label(table: TomlTable, name: str) -> int | str | None:
    """A row or column: its label, or its index, which a file counts from 1."""
    if name not in table:
        return None
    if isinstance(table.settings[name], str):
        return table.text(name, longest=200)
    return table.integer(name, 1, 1, max(MOST_TOKENS, 2**16)) - 1


def plain_values(table: TomlTable) -> dict[str, Any]:
    """The options of a view, with floats for decimals."""
    return {name: plain_value(value) for name, value in table.settings.items()}


def plain_value(value: Any) -> Any:
    if isinstance(value, list):
        return [plain_value(entry) for entry in value]
    return float(value) if isinstance(value, Decimal) else value
