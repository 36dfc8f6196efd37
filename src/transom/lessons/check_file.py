"""Check files: a lesson in TOML, or every lesson of a Markdown file; whatever is malformed, all else is checked."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from transom.files.atomic_files import write_file
from transom.files.untrusted_files import decode_utf8, read_bytes
from transom.lessons.check_claims import Finding, check_claims, corrected_text
from transom.lessons.lesson import Lesson, MalformedPart
from transom.lessons.lesson_file import LIMITS, parse_lesson
from transom.lessons.markdown_blocks import NAME, SUFFIXES, FencedBlock, fenced_blocks, replace_blocks
from transom.names import Misfit, count_noun

VERDICTS = ("right", "wrong", "slip", "no slip", "malformed")
PARTS = {"case": "malformed case", "step": "malformed step"}  # of a lesson; anything else is a setting


@dataclass(frozen=True)
class LessonReport:
    """The result of one lesson.

    line       the line of its fence in a Markdown file; None for a file that is a lesson
    findings   its claims, checked or malformed, and its other malformed parts, in the order of the file
    notes      what is assumed because the lesson does not say it
    error      why it could not be read, or its corrected copy not written
    """

    path: Path
    line: int | None = None
    title: str | None = None
    findings: tuple[Finding | MalformedPart, ...] = ()
    notes: tuple[str, ...] = ()
    copy: Path | None = None
    error: str = ""
    lesson: Lesson | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """The file, and the line of a lesson within it."""
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    @property
    def claims(self) -> list[Finding | MalformedPart]:
        return [finding for finding in self.findings if not is_other_part(finding)]

    @property
    def other_parts(self) -> list[MalformedPart]:
        """What is malformed and is no claim: cases, and settings of the lesson itself."""
        return [part for part in self.findings if isinstance(part, MalformedPart) and is_other_part(part)]

    @property
    def is_malformed(self) -> bool:
        return bool(self.error) or any(isinstance(finding, MalformedPart) for finding in self.findings)

    @property
    def is_right(self) -> bool:
        return not self.is_malformed and all(isinstance(one, Finding) and one.fine for one in self.findings)

    @property
    def correction(self) -> str | None:
        """The text of the lesson with its wrong figures corrected; None if there is nothing to correct."""
        if self.lesson is None:
            return None
        text = corrected_text(self.lesson, [one for one in self.findings if isinstance(one, Finding)])
        return None if text == self.lesson.source.text else text

    @property
    def following(self) -> int:
        """How many wrong claims follow from an earlier wrong one."""
        return sum(isinstance(one, Finding) and next(iter(one.causes), "") == "follows" for one in self.findings)

    def to_dict(self) -> dict[str, Any]:
        cases = [part for part in self.other_parts if kind_of(part) == "case"]
        return {
            "file": str(self.path),
            "line": self.line,
            "title": self.title,
            "right": self.is_right,
            "claims": [finding.to_dict() for finding in self.claims],
            "corrected": None if self.copy is None else str(self.copy),
            "error": self.error or None,
            "malformed_cases": [{"where": part.where, "complaint": part.complaint} for part in cases],
            "malformed_parts": [{"where": part.where, "complaint": part.complaint} for part in self.other_parts],
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """`5 claims: 4 right, 1 wrong`."""
        verdicts = [verdict_of(finding) for finding in self.claims]
        counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in verdicts]
        if self.following:
            place = counts.index(f"{verdicts.count('wrong')} wrong")
            counts[place] += f" ({self.following} of them by an earlier one)"
        text = f"{count_noun(len(verdicts), 'claim')}: {', '.join(counts)}" if verdicts else "no claims"
        nouns = [PARTS.get(kind_of(part), "malformed setting") for part in self.other_parts]
        return "; ".join([text, *(count_noun(nouns.count(noun), noun) for noun in dict.fromkeys(nouns))])


def kind_of(part: MalformedPart) -> str:
    """Which part of a lesson it is: claim, case, step, or "" for the lesson itself."""
    return str(part.path[0]) if part.path else ""


def is_other_part(finding: Finding | MalformedPart) -> bool:
    return isinstance(finding, MalformedPart) and kind_of(finding) != "claim"


def verdict_of(finding: Finding | MalformedPart) -> str:
    return "malformed" if isinstance(finding, MalformedPart) else finding.verdict


def check_file(path: Path, fix: bool = False, in_place: bool = False) -> list[LessonReport]:
    """Check the lessons of a file; an error in one is part of its report, so that the others are checked too."""
    try:
        text = decode_utf8(path, read_bytes(path, LIMITS, "a lesson is to be read: split it"))
    except Misfit as error:
        return [LessonReport(path, error=str(error))]
    if path.suffix.lower() in SUFFIXES:
        return list(check_markdown(path, text, fix, in_place))
    report = check_text(LessonReport(path), text)
    return correct_file(path, text, [report], {}, in_place) if fix else [report]


def check_text(report: LessonReport, text: str) -> LessonReport:
    """The report of one lesson, filled in."""
    try:
        lesson = parse_lesson(text, str(report.path), partly=True, first_line=report.line or 1)
    except Misfit as error:
        return replace(report, error=str(error))
    notes = [f"case “{case}”: {note}" if case else note for case, note in lesson.notes.items()]
    findings = tuple(check_claims(lesson))
    return replace(report, title=lesson.title, findings=findings, notes=tuple(notes), lesson=lesson)


def check_markdown(path: Path, text: str, fix: bool, in_place: bool) -> Iterator[LessonReport]:
    """A report for each block named `attention`; if there is none, one that says so."""
    blocks, reports = dict[int, FencedBlock](), list[LessonReport]()
    for block in fenced_blocks(text):
        if block.is_lesson:
            blocks[block.line] = block
            reports.append(check_text(LessonReport(path, block.line), block.lesson_text()))
        elif block.near_name:
            note = f"line {block.line}: a block named {block.near_name!r} is not checked; did you mean {NAME!r}?"
            reports.append(LessonReport(path, block.line, notes=(note,)))
    if not blocks:
        reports.append(LessonReport(path, notes=(f"it has no block named {NAME!r}, so nothing is checked",)))
    yield from correct_file(path, text, reports, blocks, in_place) if fix and blocks else reports


def correct_file(
    path: Path, text: str, reports: list[LessonReport], blocks: dict[int, FencedBlock], in_place: bool
) -> list[LessonReport]:
    """The reports, and the corrected copy of a file written; `blocks` are those of a Markdown file, by line."""
    if any(report.error for report in reports):
        return reports
    if any(report.is_malformed for report in reports):  # a corrected copy must be right as a whole
        error = f"{path} should be corrected, but parts of it are malformed; correct those first"
        return [*reports[:-1], replace(reports[-1], error=error)]
    corrected = {report.line: report.correction for report in reports if report.correction is not None}
    if not corrected:
        return reports
    if blocks:
        text = replace_blocks(text, {blocks[line]: lesson for line, lesson in corrected.items() if line is not None})
    else:
        text = corrected[None]
    try:
        last = replace(reports[-1], copy=write_corrected_copy(path, text, in_place))
    except Misfit as error:
        last = replace(reports[-1], error=str(error))
    return [*reports[:-1], last]


def write_corrected_copy(path: Path, text: str, in_place: bool) -> Path:
    """The path of the corrected copy, which must not exist already."""
    copy = path if in_place else path.with_suffix(f".fixed{path.suffix}")
    if copy.exists() and not in_place:
        raise Misfit(f"{copy} should be the corrected copy, but it exists already; move it, or use --in-place")
    write_file(copy, text.encode())
    return copy
