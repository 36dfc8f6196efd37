"""`transom check`: check every number of a worked example."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from transom.cli import BAD_USE
from transom.cli.cli_io import print_json, print_note, print_text
from transom.files.atomic_files import write_file
from transom.names import Misfit

WRONG = 1


def run(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Lesson files (TOML), or Markdown with lessons in it.")
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Write a corrected copy beside each wrong lesson.")] = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Correct the lesson itself, with no copy; implies --fix.")
    ] = False,
    new: Annotated[Path | None, typer.Option("--new", metavar="FILE", help="Write a lesson to start from.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every claim as JSON.")] = False,
) -> None:
    """Compute worked examples again and report each claim as right or wrong, with the likely cause.

    Exit code 1: a claim is wrong; 2: a file, a case or a claim is malformed. All others are checked in any case. In a
    Markdown file, every fenced block named `attention` is a lesson.

    Example: transom check --new mine.toml && transom check mine.toml
    """
    if new is not None:
        write_template(new)
    if not files:
        if new is None:
            raise Misfit("there should be a lesson to check, but there is none; name a file, or start one with --new")
        return
    from transom.lessons.check_file import check_file

    reports = [report for path in files for report in check_file(path, fix or in_place, in_place)]
    if as_json:
        print_json([report.to_dict() for report in reports])
    for report in reports:
        print_report(report, as_json)
    if any(report.is_malformed for report in reports):
        raise typer.Exit(BAD_USE)
    if not all(report.is_right for report in reports):
        raise typer.Exit(WRONG)


def write_template(path: Path) -> None:
    """Write a lesson to start from, unless the file exists."""
    from transom.lessons.lesson_file import new_text

    if path.exists():
        raise Misfit(f"{path} should be a new lesson, but it exists already; choose another name")
    write_file(path, new_text(path.name).encode())
    print_text(f"{path}: a lesson to start from; transom check {path} checks it", stderr=True)


def print_report(report: Any, as_json: bool) -> None:
    """Print each claim on a line, with more lines for wrong ones; with --json only what belongs on stderr."""
    for note in report.notes:
        print_text(f"{report.path}: {note}", stderr=True)
    if report.title is not None and not as_json:
        for finding in report.findings:
            for line in finding_lines(report.path, finding):
                print_text(line)
        print_text(f"{report.place}: {report.summary()}")
    print_note(report.error)
    if report.copy is not None:
        print_text(f"{report.copy}: the corrected copy", stderr=True)


def finding_lines(path: Path, finding: Any) -> Iterator[str]:
    """A claim on a line; if it is wrong, its wrong entries as a small matrix and the likely causes below it."""
    from transom.lessons.check_file import verdict_of
    from transom.lessons.claims import claim_subject
    from transom.lessons.lesson import MalformedPart
    from transom.lessons.wrong_entries import entry_lines, wrong_detail

    line = finding.where.rpartition("line ")[2]
    start = f"{path}:{line}: {verdict_of(finding)}"
    if isinstance(finding, MalformedPart):
        yield f"{start}: {finding.complaint}"
        return
    yield f"{start}: {claim_subject(finding.claim)}{wrong_detail(finding)}"
    if finding.verdict == "wrong":
        yield from (f"    {entries}" for entries in entry_lines(finding))
    if finding.verdict != "right":
        yield from (f"    likely: {cause}" for cause in finding.causes.values())
