"""Lessons: the shipped ones damaged, alone or in Markdown; what reads is worked out, checked and corrected."""

import random
from pathlib import Path

from fuzz.mutations import damage_bytes, damage_text
from transom.lessons import check_lesson, load_lesson
from transom.lessons.check_claims import corrected_text
from transom.lessons.check_file import check_file
from transom.lessons.lesson_file import shipped_paths
from transom.names import Misfit

SLOW = ("experiment",)  # a lesson that trains something takes seconds for each input


class State:
    def __init__(self, folder: Path) -> None:
        texts = [Path(str(path)).read_text("utf-8") for path in shipped_paths()]
        self.texts = [text for text in texts if not any(word in text for word in SLOW)]
        self.path = folder / "lesson.toml"
        self.page = folder / "page.md"


def prepare(folder: Path) -> State:
    return State(folder)


def try_input(state: State, rng: random.Random) -> str:
    return try_page(state, rng) if rng.random() < 0.3 else try_lesson(state, rng)


def try_page(state: State, rng: random.Random) -> str:
    """A page with two lessons, damaged anywhere: whatever it holds, it is reported, never raised."""
    blocks = [f"{fence}attention\n{rng.choice(state.texts)}\n{fence}\n" for fence in ("```", "> ~~~")]
    state.page.write_bytes(damage_text("# A page\n\n" + "\n".join(blocks), rng).encode("utf-8", "replace"))
    reports = check_file(state.page, fix=True, in_place=True)
    for report in reports:
        assert report.to_dict()
        assert report.summary()
    return "right" if all(report.is_right for report in reports) else "wrong"


def try_lesson(state: State, rng: random.Random) -> str:
    text = damage_text(rng.choice(state.texts), rng)
    content = text.encode("utf-8", "replace")
    state.path.write_bytes(content if rng.random() < 0.8 else damage_bytes(content, rng))
    lesson = load_lesson(state.path)
    try:
        findings = check_lesson(lesson)
        corrected_text(lesson, findings)
    except Misfit:
        return "read"
    return "right" if all(finding.fine for finding in findings) else "wrong"
