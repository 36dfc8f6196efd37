"""A lesson that is written on the page: every complaint with its line, and its screens as far as they can be shown."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.lesson_page import claim_to_dict, lesson_page

if TYPE_CHECKING:
    from transom.lessons import Lesson
    from transom.lessons.check_claims import Finding
    from transom.lessons.lesson import MalformedPart

NAME = "lesson.toml"
LINE = re.compile(rf"{re.escape(NAME)}, line (\d+)|\(at line (\d+)")
PLACE = re.compile(rf"^{re.escape(NAME)}(?:, line \d+)?:? (?=\S)")


def parse_edited(text: str, partly: bool = False) -> "Lesson":
    """The lesson in a text from the page; it reads no file."""
    from transom.lessons.lesson_file import parse_lesson

    return parse_lesson(text, NAME, partly, reads_files=False)


def check_edited(text: str) -> dict[str, Any]:
    """Findings by line as in `transom check`, and the screens; `lesson` is None if nothing can be shown."""
    from transom.lessons.check_claims import check_claims
    from transom.lessons.check_file import LessonReport

    try:
        lesson = parse_edited(text, partly=True)
    except Misfit as error:
        findings = [complaint_to_dict(str(error), last=text.count("\n") + 1)]
        return {"lesson": None, "findings": findings, "notes": [], "summary": "it cannot be read"}
    parts = tuple(check_claims(lesson))
    report = LessonReport(Path(NAME), findings=parts)
    page = lesson_page(lesson)
    findings = [finding_to_dict(part) for part in parts]
    known = {finding["complaint"] for finding in findings}
    complaints = [complaint_to_dict(screen["error"]) for screen in page["screens"] if screen["error"]]
    findings += [complaint for complaint in complaints if complaint["complaint"] not in known]
    for screen in page["screens"]:
        screen["error"] = PLACE.sub("", screen["error"])
    notes = [f"case “{case}”: {note}" if case else note for case, note in lesson.notes.items()]
    findings.sort(key=lambda finding: finding["line"])
    return {"lesson": page, "findings": findings, "notes": notes, "summary": report.summary()}


def finding_to_dict(part: "Finding | MalformedPart") -> dict[str, Any]:
    """A claim with its verdict, or a malformed part with its complaint."""
    from transom.lessons.claims import claim_subject
    from transom.lessons.lesson import MalformedPart
    from transom.lessons.wrong_entries import entry_lines, wrong_detail

    if isinstance(part, MalformedPart):
        return complaint_to_dict(part.message)
    entries = list(entry_lines(part)) if part.verdict == "wrong" else []
    subject = f"{claim_subject(part.claim)}{wrong_detail(part)}"
    causes = [] if part.verdict == "right" else list(part.causes.values())
    return {**claim_to_dict(part), "complaint": subject, "entries": entries, "causes": causes}


def complaint_to_dict(message: str, last: int = 1) -> dict[str, Any]:
    """An error as a finding: the line that it names, and what it says; `last` is the line of the end."""
    match = LINE.search(message)
    line = int(match[1] or match[2]) if match else last if "at end of document" in message else 1
    empty = {"says": "", "figures": [], "causes": [], "entries": []}
    return {"verdict": "malformed", "line": line, "complaint": PLACE.sub("", message), **empty}
