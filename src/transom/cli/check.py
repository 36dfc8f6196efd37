"""`transom check`: check every number of a worked example."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from transom.cli import BAD_USE
from transom.cli.cli_io import print_json, print_note, print_text
from transom.files.atomic_files import write_file
from transom.names import Misfit, count_noun

WRONG = 1
VERDICTS = ("right", "wrong", "slip", "no slip", "malformed")


def run(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Lesson files (TOML).")] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Write a corrected copy beside each wrong lesson.")] = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Correct the lesson itself, with no copy; implies --fix.")
    ] = False,
    new: Annotated[Path | None, typer.Option("--new", metavar="FILE", help="Write a lesson to start from.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every claim as JSON.")] = False,
) -> None:
    """Compute worked examples again and report each claim as right or wrong, with the likely cause.

    Exit code 1: a claim is wrong; 2: a file, a case or a claim is malformed. All others are checked in any case.

    Example: transom check --new mine.toml && transom check mine.toml
    """
    if new is not None:
        write_template(new)
    if not files:
        if new is None:
            raise Misfit("there should be a lesson to check, but there is none; name a file, or start one with --new")
        return
    reports = [check_lesson_file(path, fix or in_place, in_place) for path in files]
    if as_json:
        print_json([report.to_dict() for report in reports])
    for report in reports:
        print_report(report, as_json)
    if any(report.is_malformed for report in reports):
        raise typer.Exit(BAD_USE)
    if not all(report.is_right for report in reports):
        raise typer.Exit(WRONG)


@dataclass(frozen=True)
class FileReport:
    """The result of one file.

    findings   its claims, checked or malformed, and its malformed cases, in the order of the file
    notes      what is assumed because the lesson does not say it
    error      why the file could not be read, or the corrected copy not written
    """

    path: Path
    title: str | None = None
    findings: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    copy: Path | None = None
    error: str = ""

    @property
    def cases(self) -> list[Any]:
        return [finding for finding in self.findings if is_malformed_case(finding)]

    @property
    def claims(self) -> list[Any]:
        return [finding for finding in self.findings if not is_malformed_case(finding)]

    @property
    def is_malformed(self) -> bool:
        return bool(self.error) or any(map(is_malformed, self.findings))

    @property
    def is_right(self) -> bool:
        return not self.is_malformed and all(finding.fine for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": str(self.path),
            "title": self.title,
            "right": self.is_right,
            "claims": [finding.to_dict() for finding in self.claims],
            "corrected": None if self.copy is None else str(self.copy),
            "error": self.error or None,
            "malformed_cases": [{"where": case.where, "complaint": case.complaint} for case in self.cases],
            "notes": self.notes,
        }

    def summary(self) -> str:
        """`5 claims: 4 right, 1 wrong`."""
        verdicts = [verdict_of(finding) for finding in self.claims]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in verdicts)
        claims = f"{count_noun(len(verdicts), 'claim')}: {counts}" if verdicts else "no claims"
        return f"{claims}; {count_noun(len(self.cases), 'malformed case')}" if self.cases else claims


def is_malformed(finding: Any) -> bool:
    """Whether a claim or a case could not be checked."""
    return hasattr(finding, "complaint")


def is_malformed_case(finding: Any) -> bool:
    return is_malformed(finding) and finding.path[0] == "case"


def verdict_of(finding: Any) -> str:
    return "malformed" if is_malformed(finding) else finding.verdict


def check_lesson_file(path: Path, fix: bool, in_place: bool) -> FileReport:
    """Check one file; an error in it is part of its report, so that other files are checked too."""
    from transom.lessons import load_lesson
    from transom.lessons.check_claims import check_claims

    try:
        lesson = load_lesson(path, partly=True)
    except Misfit as error:
        return FileReport(path, error=str(error))
    notes = [f"case “{case}”: {note}" if case else note for case, note in lesson.notes.items()]
    report = FileReport(path, lesson.title, list(check_claims(lesson)), notes)
    if not fix:
        return report
    if report.is_malformed:  # a corrected copy must be right as a whole
        return replace(report, error=f"{path} should be corrected, but parts of it are malformed; correct those first")
    try:
        return replace(report, copy=write_corrected_copy(path, lesson, report.findings, in_place))
    except Misfit as error:
        return replace(report, error=str(error))


def write_template(path: Path) -> None:
    """Write a lesson to start from, unless the file exists."""
    from transom.lessons.lesson_file import new_text

    if path.exists():
        raise Misfit(f"{path} should be a new lesson, but it exists already; choose another name")
    write_file(path, new_text(path.name).encode())
    print_text(f"{path}: a lesson to start from; transom check {path} checks it", stderr=True)


def write_corrected_copy(path: Path, lesson: Any, findings: list[Any], in_place: bool) -> Path | None:
    """The path of the corrected copy; None if there is nothing to correct."""
    from transom.lessons.check_claims import corrected_text

    text = corrected_text(lesson, findings)
    if text == lesson.source.text:
        return None
    copy = path if in_place else path.with_suffix(".fixed.toml")
    if copy.exists() and not in_place:
        raise Misfit(f"{copy} should be the corrected copy, but it exists already; move it, or use --in-place")
    write_file(copy, text.encode())
    return copy


def print_report(report: FileReport, as_json: bool) -> None:
    """Print each claim on a line, with more lines for wrong ones; with --json only what belongs on stderr."""
    for note in report.notes:
        print_text(f"{report.path}: {note}", stderr=True)
    if report.title is not None and not as_json:
        for finding in report.findings:
            for line in finding_lines(report.path, finding):
                print_text(line)
        print_text(f"{report.path}: {report.summary()}")
    print_note(report.error)
    if report.copy is not None:
        print_text(f"{report.copy}: the corrected copy", stderr=True)


def finding_lines(path: Path, finding: Any) -> Iterator[str]:
    """A claim on a line; if it is wrong, more of its wrong entries and the likely causes below it."""
    from transom.lessons.lesson_pages import claim_subject

    line = finding.where.rpartition("line ")[2]
    start = f"{path}:{line}: {verdict_of(finding)}"
    if is_malformed(finding):
        yield f"{start}: {finding.complaint}"
        return
    yield f"{start}: {claim_subject(finding.claim)}{detail(finding)}"
    if finding.verdict == "wrong":
        yield from more_entries(finding)
    if finding.verdict != "right":
        yield from (f"    likely: {cause}" for cause in finding.causes.values())


def detail(finding: Any) -> str:
    """How many entries are wrong, and the first of them."""
    if finding.verdict == "no slip":
        why = "this is right" if finding.first is None else "it is wrong for another reason"
        return f": marked as the slip {finding.claim.slip!r}, but {why}"
    if finding.first is None:
        return ""
    size = finding.computed.values.size
    count = f": {len(finding.wrong)} of {size} entries" if size > 1 and finding.verdict == "wrong" else ""
    return f"{count}: {entry_text(finding, finding.first)}"


def more_entries(finding: Any) -> Iterator[str]:
    """Some wrong entries after the first, among them the one that is furthest off, and the number of the others."""
    sample = finding.sample_wrong_entries()
    for number, entry in enumerate(sample[1:], start=1):
        is_worst = finding.worst >= len(sample) and number == len(sample) - 1
        yield f"    {'furthest off: ' if is_worst else ''}{entry_text(finding, entry)}"
    if len(finding.wrong) > len(sample):
        yield f"    and {len(finding.wrong) - len(sample)} more"


def entry_text(finding: Any, entry: tuple[str, str, str]) -> str:
    """The place of a wrong entry, what is printed, and what is right."""
    place, claimed, right = entry
    numbers = f"should be {claimed}, is {right}" if finding.claim.value is None else f"printed {claimed}, right {right}"
    return f"{place}: {numbers}" if place else numbers
