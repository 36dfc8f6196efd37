"""A lesson from its TOML file: every key known, every size checked, and each complaint with file and line."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from transom.files.documents import Malformed, decode_toml
from transom.files.outside import Limits, decoded, whole
from transom.lessons.causes import CAUSES
from transom.lessons.claims import MASKED
from transom.lessons.experiments import trial_from
from transom.lessons.lesson import Case, Claim, Lesson, MalformedPart, Trial
from transom.lessons.lines import source
from transom.lessons.measures import BETWEEN, MEASURES
from transom.lessons.setting_up import SETUP, set_up
from transom.lessons.settings_log import SettingsLog
from transom.lessons.setup import MOST_HEADS, MOST_LAYERS, MOST_TOKENS, Setup
from transom.lessons.table import FINEST, LARGEST, Table, decimals, printed, shown
from transom.names import Misfit

LIMITS = Limits(document=2**20)
PICTURES = (
    "steps",
    "sequence",
    "arrows",
    "matrix",
    "heads",
    "rows",
    "context",
    "histogram",
    "entropy",
    "curves",
    "vectors",
)
LESSON = ("title", "about", "picture", "draws", "closing", "show", *SETUP, "experiment", "case", "claim")
CASE = ("name", "says", "show", *SETUP, "experiment")
CLAIM = ("says", "of", "case", "head", "layer", "row", "column", "measure", "other", "against")
CLAIM += ("value", "above", "below", "slip")
MOST_CLAIMS, MOST_CASES = 500, 50


def read(path: Path | str, partly: bool = False) -> Lesson:
    """The lesson in a file; read partly, its malformed cases and claims are listed instead of raised."""
    path = Path(path)
    content = whole(path, LIMITS, "a lesson is to be read: split it")
    return parsed(decoded(path, content), str(path), partly)


def parsed(text: str, name: str, partly: bool = False) -> Lesson:
    """The lesson in a TOML text; `name` is what an error calls the file, and files beside it are looked for there."""
    text = text.replace("\r\n", "\n")
    try:
        table = decode_toml(text, parse_float=exact)
    except Malformed as error:
        raise Misfit(f"{name} should be TOML, but {error}; mend that place") from error
    found = lesson(Table(table, (), source(name, text)), name)
    if found.malformed and not partly:
        raise Misfit(found.malformed[0].message)
    return found


def exact(text: str) -> Decimal:
    """A number with the digits it was written with; a file holds no number that takes forever."""
    found = Decimal(text)
    if found.is_finite() and len(found.as_tuple().digits) > 50:
        raise ValueError(f"a number has {len(found.as_tuple().digits)} digits; 50 are enough")
    return found


def lesson(table: Table, name: str) -> Lesson:
    table.known(LESSON)
    log, malformed = SettingsLog(), list[MalformedPart]()
    cases: dict[str, Case | None] = {"": main_case(table, log)}
    for one in limited(table, "case", MOST_CASES):
        try:
            case = other_case(one, table, log)
            if case.name in cases:
                raise one.wrong("name", f"there is a case {case.name!r} already; choose another name")
            cases[case.name] = case
        except Misfit as error:
            malformed.append(MalformedPart.from_error(table.source, one.path, error))
            cases.setdefault(str(one.own.get("name")), None)
    malformed += unused_in_cases(table, cases, log, not malformed)
    claims = []
    for one in limited(table, "claim", MOST_CLAIMS):
        try:
            claims.append(claim(one, cases))
        except Misfit as error:
            malformed.append(MalformedPart.from_error(table.source, one.path, error))
    return Lesson(
        name=Path(name).stem,
        source=table.source,
        title=table.words("title", longest=200),
        about=table.words("about", "").strip(),
        picture=table.choice("picture", "steps", PICTURES),
        cases={name: case for name, case in cases.items() if case is not None},
        claims=tuple(claims),
        closing=table.words("closing", "").strip(),
        draws={name: simple(value) for name, value in table.table("draws").settings.items()},
        malformed=tuple(malformed),
    )


def unused_in_cases(
    table: Table, cases: dict[str, Case | None], log: SettingsLog, every_case_is_read: bool
) -> list[MalformedPart]:
    """The cases with a setting that has no effect; one of the lesson itself is raised, if no case could be using it."""
    found = []
    for path, complaint in log.complaints().items():
        if path[0] == "case":
            name = table.settings["case"][path[1]].get("name")
            cases[name] = None
            found.append(MalformedPart.from_error(table.source, path[:2], complaint))
        elif every_case_is_read:
            raise complaint
    return found


def simple(value: Any) -> Any:
    """An option of a view: numbers as Python has them."""
    if isinstance(value, list):
        return [simple(one) for one in value]
    return float(value) if isinstance(value, Decimal) else value


def limited(table: Table, name: str, most: int) -> list[Table]:
    found = table.tables(name)
    if len(found) > most:
        raise table.wrong(name, f"a lesson may have {most} of [[{name}]], but {len(found)} came; split it")
    return found


def main_case(table: Table, log: SettingsLog) -> Case:
    trial = trial_from(table.table("experiment")) if "experiment" in table else None
    return Case("", "", wanted(table), setup_beside(table, trial, log), trial)


def setup_beside(table: Table, trial: Trial | None, log: SettingsLog) -> Setup | None:
    """What is computed beside an experiment: nothing, where no tokens are named."""
    if trial is None or "tokens" in table:
        return set_up(table, log)
    log.record_nothing(table, SETUP)
    return None


def other_case(table: Table, main: Table, log: SettingsLog) -> Case:
    """A case says what differs from the lesson; the rest stays. An experiment is made only where it is named."""
    table.known(CASE)
    if "given" in main.own and "embeddings" in table.own:
        main = Table({key: value for key, value in main.own.items() if key != "given"}, main.path, main.source)
    merged = Table(table.own, table.path, table.source, Table(common(main), main.path, main.source))
    trial = trial_from(merged.table("experiment")) if "experiment" in table.own else None
    setup = setup_beside(merged, trial, log)
    name = table.words("name", longest=100)
    if not name:
        raise table.wrong("name", "a case must have a name, but it is empty")
    return Case(name, table.words("says", "").strip(), wanted(table), setup, trial)


def common(main: Table) -> dict[str, Any]:
    """What a case takes over from its lesson."""
    return {name: value for name, value in main.own.items() if name in (*SETUP, "experiment")}


def wanted(table: Table) -> tuple[str, ...] | None:
    """The steps that are shown when the lesson is played; None for all."""
    if "show" not in table:
        return None
    value = table.settings["show"]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise table.wrong("show", f'show must list steps, but got {shown(value)}; write show = ["weights"]')
    return tuple(value)


def claim(table: Table, cases: Mapping[str, Case | None]) -> Claim:
    """One claim, about a case that exists, with one figure."""
    table.known(CLAIM)
    figures = [name for name in ("value", "above", "below") if name in table]
    if not figures or (len(figures) > 1 and "value" in figures):
        came = " and ".join(figures) or "none of them"
        raise table.wrong(None, f"a claim has value, or above, or below, but {came} came; give one")
    for name in ("case", "against"):
        if name in table:
            word = table.words(name, longest=100)
            if word not in cases:
                table.choice(name, "", [one for one in cases if one] or ["(no cases)"])
            if cases[word] is None:
                raise table.wrong(name, f"{name} must be one that can be computed, but {word!r} is malformed; mend it")
    check_comparison(table)
    return Claim(
        of=table.words("of", longest=100),
        path=table.path,
        says=table.words("says", "").strip(),
        case=table.words("case", ""),
        head=None if "head" not in table else table.whole("head", 0, 0, MOST_HEADS - 1),
        layer=None if "layer" not in table else table.whole("layer", 0, 0, MOST_LAYERS - 1),
        row=place(table, "row"),
        column=place(table, "column"),
        measure=table.choice("measure", "value", MEASURES),
        other=place(table, "other"),
        against=table.words("against") if "against" in table else None,
        value=figure(table, "value", table.settings["value"]) if "value" in table else None,
        above=figure(table, "above", table.settings["above"]) if "above" in table else None,
        below=figure(table, "below", table.settings["below"]) if "below" in table else None,
        slip=slip(table),
    )


def check_comparison(table: Table) -> None:
    """Complain about something to compare with where nothing is compared."""
    measure = table.choice("measure", "value", MEASURES)
    for name in ("other", "against"):
        if name in table and measure not in BETWEEN:
            ways = ", ".join(BETWEEN)
            raise table.wrong(
                name, f"{name} must belong to a measure that compares, but measure is {measure}; take one of {ways}"
            )


def slip(table: Table) -> str:
    """The cause of a wrong figure that is shown on purpose; "unknown" where none is named."""
    value = table.settings.get("slip", "")
    if isinstance(value, bool):
        return "unknown" if value else ""
    return value if value == "" else table.choice("slip", "", CAUSES)


def place(table: Table, name: str) -> int | str | None:
    """A row or column: by its label, or by its number from 1."""
    if name not in table:
        return None
    if isinstance(table.settings[name], str):
        return table.words(name, longest=200)
    return table.whole(name, 1, 1, max(MOST_TOKENS, 2**16)) - 1


def figure(table: Table, name: str, value: Any) -> Any:
    """A number with its digits, or rows of them."""
    if isinstance(value, list):
        if name != "value":
            raise table.wrong(name, f"{name} must be one number, but got {shown(value)}")
        return tuple(figure(table, name, one) for one in value)
    if value == "masked":
        return MASKED
    found = printed(value)
    if found is None or decimals(found) > FINEST:
        raise table.wrong(
            name, f"{name} must hold finite numbers up to {LARGEST:g} with {FINEST} decimals, but got {shown(value)}"
        )
    return found
