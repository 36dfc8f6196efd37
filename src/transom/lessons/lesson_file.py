"""Lessons from TOML files: those that come with Transom, and a reader's own."""

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from transom.files.documents import MalformedDocument, decode_toml
from transom.files.strict_settings import suggest
from transom.files.untrusted_files import Limits, decode_utf8, read_bytes
from transom.lessons.claims import BETWEEN, MASKED, MEASURES
from transom.lessons.diagnosis import CAUSES
from transom.lessons.experiments import parse_experiment
from transom.lessons.glossary import step_name
from transom.lessons.lesson import FIGURES, Claim, Lesson, LessonCase, MalformedPart
from transom.lessons.lesson_setup import MOST_HEADS, MOST_LAYERS, SETUP, SettingsLog
from transom.lessons.parse_script import parse_label, parse_script, plain_values
from transom.lessons.parse_setup import parse_setup
from transom.lessons.toml_recovery import MalformedTable, drop_malformed_tables, shift_line
from transom.lessons.toml_source import FINEST, LARGEST, TomlTable, count_decimals, index_toml, parse_number, quote
from transom.names import Misfit

LIMITS = Limits(document=2**20)
PICTURES = ("steps", "sequence", "arrows", "matrix", "heads", "rows", "context", "histogram", "entropy", "curves")
PICTURES += ("vectors", "fold", "architecture")
LESSON = ("title", "question", "about", "picture", "draws", "closing", "next", "show", *SETUP, "experiment")
LESSON += ("case", "step", "claim")
CASE = ("name", "says", "show", *SETUP, "experiment")
CLAIM = ("says", "of", "case", "head", "layer", "row", "column", "measure", "other", "against", *FIGURES, "slip")
MOST_CLAIMS, MOST_CASES = 500, 50
Cases = Mapping[str, LessonCase | None]  # by name; None for a malformed one


def load_lesson(path: Path | str, partly: bool = False) -> Lesson:
    """The lesson in a file; with `partly`, malformed cases and claims are listed instead of raised."""
    path = Path(path)
    content = read_bytes(path, LIMITS, "a lesson is to be read: split it")
    return parse_lesson(decode_utf8(path, content), str(path), partly)


def parse_lesson(text: str, name: str, partly: bool = False, first_line: int = 1, reads_files: bool = True) -> Lesson:
    """The lesson in a TOML text; `name` is the file in error messages, and other files are looked for beside it."""
    text, dropped = text.replace("\r\n", "\n"), list[MalformedTable]()
    try:
        content = decode_toml(text, parse_float=parse_decimal)
    except MalformedDocument as error:
        text, dropped = drop_malformed_tables(text, parse_decimal) if partly else (text, [])
        if not dropped:
            complaint = shift_line(str(error), first_line - 1)
            raise Misfit(f"{name} should be TOML, but {complaint}; mend that place") from error
        content = decode_remaining(text, name, first_line)
    lesson = build_lesson(TomlTable(content, (), index_toml(name, text, first_line, reads_files)), name)
    if lesson.malformed and not partly:
        raise Misfit(lesson.malformed[0].message)
    parts = [malformed_table(name, table, first_line - 1) for table in dropped]
    return replace(lesson, malformed=(*parts, *lesson.malformed))


def decode_remaining(text: str, name: str, first_line: int) -> dict[str, Any]:
    """What is left of a lesson without its malformed tables."""
    try:
        return decode_toml(text, parse_float=parse_decimal)
    except MalformedDocument as error:
        complaint = shift_line(str(error), first_line - 1)
        raise Misfit(f"{name} should be TOML, but {complaint}; mend that place") from error


def malformed_table(name: str, table: MalformedTable, lines: int) -> MalformedPart:
    complaint = f"this should be TOML, but {shift_line(table.complaint, lines)}; mend that place"
    where = f"{name}, line {table.line + lines}"
    return MalformedPart((table.kind,), where, complaint, f"{where}: {complaint}")


def parse_decimal(text: str) -> Decimal:
    """A number with the digits it was written with, at most 50."""
    number = Decimal(text)
    digits = len(number.as_tuple().digits)
    if number.is_finite() and digits > 50:
        raise ValueError(f"a number has {digits} digits; 50 are enough")
    return number


def build_lesson(table: TomlTable, name: str) -> Lesson:
    log, malformed = SettingsLog(), list[MalformedPart]()
    cases: dict[str, LessonCase | None] = {"": None}
    try:
        table.check_keys(LESSON)
    except Misfit as error:
        malformed.append(MalformedPart.from_error(table.source, (), error))
    try:
        cases[""] = parse_case("", "", table, log)
    except Misfit as error:
        malformed.append(MalformedPart.from_error(table.source, (), error))
    for case_table in table.tables("case", MOST_CASES):
        try:
            case = parse_named_case(case_table, table, log)
            if case.name in cases:
                raise case_table.error("name", f"there is a case {case.name!r} already; choose another name")
            cases[case.name] = case
        except Misfit as error:
            malformed.append(MalformedPart.from_error(table.source, case_table.path, error))
            cases.setdefault(str(case_table.own.get("name")), None)
    malformed += refuse_unused_settings(table, cases, log, not malformed)
    claims = []
    for claim_table in table.tables("claim", MOST_CLAIMS):
        try:
            claims.append(parse_claim(claim_table, cases))
        except Misfit as error:
            malformed.append(MalformedPart.from_error(table.source, claim_table.path, error))
    script, complaints = parse_script(table, [name for name, case in cases.items() if case is not None], PICTURES)
    malformed += complaints
    table = drop_malformed_texts(table, malformed)
    return Lesson(
        name=Path(name).stem,
        source=table.source,
        title=table.text("title", longest=200),
        about=table.text("about", "").strip(),
        picture=table.choice("picture", "steps", PICTURES),
        cases={name: case for name, case in cases.items() if case is not None},
        claims=tuple(claims),
        closing=table.text("closing", "").strip(),
        question=table.text("question", "").strip(),
        next=table.text("next", "").strip(),
        script=script,
        draws=plain_values(table.table("draws")),
        malformed=tuple(malformed),
    )


def drop_malformed_texts(table: TomlTable, malformed: list[MalformedPart]) -> TomlTable:
    """The table without the texts that are malformed, which are added to those parts."""
    own = dict(table.own)
    for name in ("title", "about", "picture", "closing", "question", "next"):
        try:
            if name == "picture":
                table.choice(name, "steps", PICTURES)
            else:
                table.text(name, None if name == "title" else "", longest=200 if name == "title" else 20_000)
        except Misfit as error:
            malformed.append(MalformedPart.from_error(table.source, (), error))
            own[name] = "steps" if name == "picture" else ""
    return replace(table, own=own)


def refuse_unused_settings(
    table: TomlTable, cases: dict[str, LessonCase | None], log: SettingsLog, every_case_is_read: bool
) -> list[MalformedPart]:
    """The parts with a setting that has no effect; one of the lesson itself only if no case could be using it."""
    malformed = []
    for path, error in log.errors().items():
        if path[0] == "case":
            cases[table.settings["case"][path[1]].get("name")] = None
            malformed.append(MalformedPart.from_error(table.source, path[:2], error))
        elif every_case_is_read:
            malformed.append(MalformedPart.from_error(table.source, (), error))
    return malformed


def parse_case(name: str, says: str, table: TomlTable, log: SettingsLog) -> LessonCase:
    """A case, or the lesson itself, named ""; beside an experiment nothing else is computed unless there are tokens."""
    experiment = parse_experiment(table.table("experiment")) if "experiment" in table.own else None
    if experiment is None or "tokens" in table:
        setup = parse_setup(table, log)
    else:
        setup, reason = None, "without tokens no attention is computed; give tokens, or leave it out"
        log.record(table, dict.fromkeys(SETUP, reason))
    return LessonCase(name, says, parse_shown_steps(table), setup, experiment, table.path_of("show"))


def parse_named_case(table: TomlTable, lesson: TomlTable, log: SettingsLog) -> LessonCase:
    """A case states what differs from the lesson; an experiment is run only by the case that names it."""
    table.check_keys(CASE)
    shared = {*SETUP, "experiment"} - ({"given"} if "embeddings" in table.own else set())
    defaults = TomlTable({key: lesson.own[key] for key in lesson.own if key in shared}, lesson.path, lesson.source)
    name = table.text("name", longest=100)
    if not name:
        raise table.error("name", "a case must have a name, but it is empty")
    return parse_case(name, table.text("says", "").strip(), replace(table, fallback=defaults), log)


def parse_shown_steps(table: TomlTable) -> tuple[str, ...] | None:
    """The steps that are shown when the lesson is played; None for all."""
    value = table.settings.get("show")
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise table.error("show", f'show must list steps, but got {quote(value)}; write show = ["weights"]')
    return tuple(map(step_name, value))


def parse_claim(table: TomlTable, cases: Cases) -> Claim:
    """One claim, about a case that exists, with one figure."""
    table.check_keys(CLAIM)
    figures = {name: parse_figure(table, name, table.settings[name]) for name in FIGURES if name in table}
    if not figures or (len(figures) > 1 and "value" in figures):
        came = " and ".join(figures) or "none of them"
        raise table.error(None, f"a claim has value, or above, or below, but {came} came; give one")
    if "case" not in table and cases[""] is None:
        raise table.error(None, "the lesson itself must be one that can be computed, but it is malformed; mend it")
    for name in ("case", "against"):
        if name in table:
            check_case(table, name, cases)
    measure = table.choice("measure", "value", MEASURES)
    for name in ("other", "against"):
        if name in table and measure not in BETWEEN:
            raise table.error(
                name,
                f"{name} must belong to a measure that compares, but measure is {measure};"
                f" take one of {', '.join(BETWEEN)}",
            )
    return Claim(
        of=step_name(table.text("of", longest=100)),
        path=table.path,
        says=table.text("says", "").strip(),
        case=table.text("case", ""),
        head=table.integer("head", 0, 0, MOST_HEADS - 1) if "head" in table else None,
        layer=table.integer("layer", 0, 0, MOST_LAYERS - 1) if "layer" in table else None,
        row=parse_label(table, "row"),
        column=parse_label(table, "column"),
        measure=measure,
        other=parse_label(table, "other"),
        against=table.text("against") if "against" in table else None,
        slip=parse_slip(table),
        **figures,
    )


def check_case(table: TomlTable, name: str, cases: Cases) -> None:
    """Complain unless a claim names a case that exists and could be read."""
    case = table.text(name, longest=100)
    if case not in cases:
        table.choice(name, "", [known for known in cases if known] or ["(no cases)"])
    if cases[case] is None:
        raise table.error(name, f"{name} must be one that can be computed, but {case!r} is malformed; mend it")


def parse_slip(table: TomlTable) -> str:
    """The cause of a figure that is wrong on purpose; "unknown" if none is named."""
    value = table.settings.get("slip", "")
    if isinstance(value, bool):
        return "unknown" if value else ""
    return value if value == "" else table.choice("slip", "", CAUSES)


def parse_figure(table: TomlTable, name: str, value: Any) -> Any:
    """A number with its digits, or rows of them."""
    if isinstance(value, list):
        if name != "value":
            raise table.error(name, f"{name} must be one number, but got {quote(value)}")
        return tuple(parse_figure(table, name, entry) for entry in value)
    if value == "masked":
        return MASKED
    number = parse_number(value)
    if number is None or count_decimals(number) > FINEST:
        raise table.error(
            name, f"{name} must hold finite numbers up to {LARGEST:g} with {FINEST} decimals, but got {quote(value)}"
        )
    return number


SHIPPED = Path(__file__).parent / "shipped"


def shipped_paths() -> list[Path]:
    """The lessons that come with Transom, in the order of the numbers in their names."""
    return sorted(SHIPPED.glob("[0-9][0-9]-*.toml"))


@lru_cache(maxsize=64)
def load_shipped(which: int | str) -> Lesson:
    """A lesson by its number, from 1, or by its name: `three-tokens`."""
    files = {path.stem[3:]: path for path in shipped_paths()}
    if isinstance(which, str) and not which.isdigit():
        if which not in files:
            raise Misfit(f"there is no lesson {which!r}; {suggest(which, files)}")
        return load_lesson(files[which])
    number = int(which)
    if not 1 <= number <= len(files):
        raise Misfit(f"there are lessons 1 to {len(files)}, but {number} came; transom learn lists them")
    return load_lesson(list(files.values())[number - 1])


def new_text(name: str) -> str:
    """A lesson to start from, with the name of its file in it."""
    title = " ".join(re.sub(r"[^\w]+", " ", name.rsplit(".", 1)[0]).split()).capitalize() or "A lesson"
    text = (SHIPPED / "new.toml").read_text(encoding="utf-8")
    text = text.replace('title = "New"', f'title = "{title}"', 1)
    return text.replace("new.toml", re.sub(r"[\r\n]", " ", name), 1)
