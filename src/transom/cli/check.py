"""`transom check`: prove every figure of a worked example."""

from pathlib import Path
from typing import Annotated, Any

import typer

from transom.cli.output import print_json, print_text
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
    """Compute worked examples anew and report each claim as right or wrong, with the likely cause. Exit code 1: wrong.

    Example: transom check --new mine.toml && transom check mine.toml
    """
    if new is not None:
        start(new)
    if not files:
        if new is None:
            raise Misfit("there should be a lesson to check, but none came; name a file, or --new FILE to start one")
        return
    from transom.lessons import checked, read

    reports = []
    for path in files:
        lesson = read(path)
        findings = checked(lesson)
        copy = mended(path, lesson, findings, in_place) if fix or in_place else None
        reports.append((path, lesson, findings, copy))
    if as_json:
        print_json([plain(*report) for report in reports])
    else:
        for report in reports:
            tell(*report)
    if not all(finding.fine for _, _, findings, _ in reports for finding in findings):
        raise typer.Exit(WRONG)


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


def tell(path: Path, lesson: Any, findings: list[Any], copy: Path | None) -> None:
    """A lesson's claims, a line each, and more for those that are wrong."""
    from transom.lessons.playing import named

    for finding in findings:
        line = finding.where.rpartition("line ")[2]
        print_text(f"{path}:{line}: {finding.verdict}: {named(finding.claim)}{detail(finding)}")
        for words in () if finding.verdict == "right" else finding.causes.values():
            print_text(f"    likely: {words}")
    print_text(f"{path}: {counted(findings)}")
    if copy is not None:
        print_text(f"{copy}: the corrected copy", stderr=True)


def detail(finding: Any) -> str:
    """What is claimed and what is right, of the first wrong entry."""
    if finding.verdict == "no slip":
        why = "this is right" if finding.first is None else "it is wrong for another reason"
        return f": marked as the slip {finding.claim.slip!r}, but {why}"
    if finding.first is None:
        return ""
    place, claimed, right = finding.first
    where = f": {place}" if place else ""
    if finding.claim.value is None:
        return f"{where}: should be {claimed}, is {right}"
    return f"{where}: printed {claimed}, right {right}"


def counted(findings: list[Any]) -> str:
    """`5 claims: 4 right, 1 wrong`."""
    kinds = [finding.verdict for finding in findings]
    parts = [f"{kinds.count(kind)} {kind}" for kind in ("right", "wrong", "slip", "no slip") if kind in kinds]
    return f"{len(kinds)} claim{'' if len(kinds) == 1 else 's'}: {', '.join(parts)}" if kinds else "no claims"


def plain(path: Path, lesson: Any, findings: list[Any], copy: Path | None) -> dict[str, Any]:
    return {
        "file": str(path),
        "title": lesson.title,
        "right": all(finding.fine for finding in findings),
        "claims": [finding.plain() for finding in findings],
        "corrected": None if copy is None else str(copy),
    }
