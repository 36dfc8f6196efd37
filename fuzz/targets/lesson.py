"""Lessons: the shipped ones damaged; one that reads is worked out, checked and corrected."""

import random
from pathlib import Path

from fuzz.mutations import damage_bytes, damage_text
from transom.lessons import check_lesson, load_lesson
from transom.lessons.check_claims import corrected_text
from transom.lessons.lesson_file import shipped_paths
from transom.names import Misfit

SLOW = ("experiment",)  # a lesson that trains something takes seconds for each input


class State:
    def __init__(self, folder: Path) -> None:
        texts = [Path(str(path)).read_text("utf-8") for path in shipped_paths()]
        self.texts = [text for text in texts if not any(word in text for word in SLOW)]
        self.path = folder / "lesson.toml"


def prepare(folder: Path) -> State:
    return State(folder)


def try_input(state: State, rng: random.Random) -> str:
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
