"""`transom check`: prove every figure of a worked example."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from transom.cli import BAD_USE
from transom.cli.output import print_json, print_note, print_text
from transom.names import Misfit

WRONG = 1


def run(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Lesson files (TOML).")] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Write a corrected copy beside each wrong lesson.")] = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Correct the lesson itself, with no copy; implies --fix.")
    ] = False,
    new: Annotated[Path | None, typer.Option("--new", metavar="FILE", help="Write a lesson to start from.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every claim as JSON.")] = False,
) -> None:
    """Compute worked examples anew and report each claim as right or wrong, with the likely cause.

    Exit code 1: a claim is wrong; 2: a file, a case or a claim is malformed, and the others are judged all the same.

    Example: transom check --new mine.toml && transom check mine.toml
    """
    if new is not None:
        start(new)
    if not files:
        if new is None:
            raise Misfit("there should be a lesson to check, but none came; name a file, or --new FILE to start one")
        return
    reports = [check_file(path, "in place" if in_place else "copy" if fix else "") for path in files]
    if as_json:
        print_json([report.to_dict() for report in reports])
    for report in reports:
        tell(report, as_json)
    if any(report.malformed for report in reports):
        raise typer.Exit(BAD_USE)
    if not all(report.right for report in reports):
        raise typer.Exit(WRONG)


@dataclass(frozen=True)
class FileReport:
    """What came of one file.

    findings   its claims, and what of it is malformed
    error      why the file could not be read, or the corrected copy not be written; "" where nothing stood in the way
    """

    path: Path
    lesson: Any = None
    findings: tuple[Any, ...] = ()
    copy: Path | None = None
    error: str = ""

    @property
    def malformed(self) -> bool:
        return bool(self.error) or any(is_malformed(one) for one in self.findings)

    @property
    def right(self) -> bool:
        return not self.malformed and all(one.fine for one in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": str(self.path),
            "title": None if self.lesson is None else self.lesson.title,
            "right": self.right,
            "claims": [one.plain() for one in self.findings if not is_malformed_case(one)],
            "corrected": None if self.copy is None else str(self.copy),
            "error": self.error or None,
            "malformed_cases": [
                {"where": one.where, "complaint": one.complaint} for one in self.findings if is_malformed_case(one)
            ],
            "notes": [] if self.lesson is None else notes(self.lesson),
        }


def is_malformed(finding: Any) -> bool:
    """Whether a claim, or a case, could not be judged."""
    return hasattr(finding, "complaint")


def is_malformed_case(finding: Any) -> bool:
    return is_malformed(finding) and finding.path[0] == "case"


def notes(lesson: Any) -> list[str]:
    """What is assumed because the lesson does not say it."""
    return [f"case “{case}”: {note}" if case else note for case, note in lesson.notes.items()]


def check_file(path: Path, correct: str) -> FileReport:
    """One file, whatever is in it: an error is its own, and hides no other file."""
    from transom.lessons import read
    from transom.lessons.checking import check_each

    try:
        lesson = read(path, partly=True)
    except Misfit as error:
        return FileReport(path, error=str(error))
    report = FileReport(path, lesson, tuple(check_each(lesson)))
    if not correct:
        return report
    if report.malformed:  # a corrected copy says that all of it is right now
        return replace(report, error=f"{path} should be corrected, but parts of it are malformed; mend those first")
    try:
        return replace(report, copy=mended(path, lesson, list(report.findings), correct == "in place"))
    except Misfit as error:
        return replace(report, error=str(error))


def start(path: Path) -> None:
    """A lesson to start from, where there is none yet."""
    from transom.files.durable import write_file
    from transom.lessons.fixing import new_text

    if path.exists():
        raise Misfit(f"{path} should be a new lesson, but it is there already; choose another name")
    write_file(path, new_text(path.name).encode())
    print_text(f"{path}: a lesson to start from; transom check {path} proves it", stderr=True)


def mended(path: Path, lesson: Any, findings: list[Any], in_place: bool) -> Path | None:
    """Where the corrected copy is; None where nothing can be corrected."""
    from transom.files.durable import write_file
    from transom.lessons.fixing import fixed_text

    text = fixed_text(lesson, findings)
    if text == lesson.source.text:
        return None
    copy = path if in_place else path.with_suffix(".fixed.toml")
    if copy.exists() and not in_place:
        raise Misfit(f"{copy} should be the corrected copy, but it is there already; move it, or use --in-place")
    write_file(copy, text.encode())
    return copy


def tell(report: FileReport, as_json: bool) -> None:
    """A lesson's claims, a line each, and more for those that are wrong; with --json only what belongs on stderr."""
    for note in [] if report.lesson is None else notes(report.lesson):
        print_text(f"{report.path}: {note}", stderr=True)
    if report.lesson is not None and not as_json:
        for finding in report.findings:
            for line in finding_lines(report, finding):
                print_text(line)
        print_text(f"{report.path}: {counted(report.findings)}")
    if report.error:
        print_note(report.error)
    if report.copy is not None:
        print_text(f"{report.copy}: the corrected copy", stderr=True)


def finding_lines(report: FileReport, finding: Any) -> Iterator[str]:
    """A claim on a line; below it, where it is wrong, more of its wrong entries and the likely causes."""
    from transom.lessons.playing import named

    line = finding.where.rpartition("line ")[2]
    if is_malformed(finding):
        yield f"{report.path}:{line}: malformed: {finding.complaint}"
        return
    yield f"{report.path}:{line}: {finding.verdict}: {named(finding.claim)}{detail(finding)}"
    if finding.verdict == "wrong":
        yield from more_entries(finding)
    for words in () if finding.verdict == "right" else finding.causes.values():
        yield f"    likely: {words}"


def more_entries(finding: Any) -> Iterator[str]:
    """A few wrong entries after the first, the one that is furthest off among them, and how many there are besides."""
    few = finding.few_wrong()
    for place, entry in enumerate(few[1:], start=1):
        word = "furthest off: " if finding.worst >= len(few) and place == len(few) - 1 else ""
        yield f"    {word}{entry_text(finding, entry).removeprefix(': ')}"
    if len(finding.wrong) > len(few):
        yield f"    and {len(finding.wrong) - len(few)} more"


def detail(finding: Any) -> str:
    """How many entries are wrong, and of the first one what is claimed and what is right."""
    if finding.verdict == "no slip":
        why = "this is right" if finding.first is None else "it is wrong for another reason"
        return f": marked as the slip {finding.claim.slip!r}, but {why}"
    if finding.first is None:
        return ""
    size = finding.found.values.size
    many = f": {len(finding.wrong)} of {size} entries" if size > 1 and finding.verdict == "wrong" else ""
    return many + entry_text(finding, finding.first)


def entry_text(finding: Any, entry: tuple[str, str, str]) -> str:
    """Where a wrong entry stands, what is printed, and what is right."""
    place, claimed, right = entry
    where = f": {place}" if place else ""
    if finding.claim.value is None:
        return f"{where}: should be {claimed}, is {right}"
    return f"{where}: printed {claimed}, right {right}"


def counted(findings: Sequence[Any]) -> str:
    """`5 claims: 4 right, 1 wrong`."""
    claims = [one for one in findings if not is_malformed_case(one)]
    kinds = ["malformed" if is_malformed(finding) else finding.verdict for finding in claims]
    order = ("right", "wrong", "slip", "no slip", "malformed")
    parts = [f"{kinds.count(kind)} {kind}" for kind in order if kind in kinds]
    text = f"{len(kinds)} claim{'' if len(kinds) == 1 else 's'}: {', '.join(parts)}" if kinds else "no claims"
    cases = len(findings) - len(claims)
    return f"{text}; {cases} malformed case{'' if cases == 1 else 's'}" if cases else text
