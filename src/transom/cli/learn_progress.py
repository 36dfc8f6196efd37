"""How far a person has come in the lessons: a small file in the user's state folder."""

import os
from pathlib import Path
from typing import Annotated

import msgspec

from transom.files.atomic_files import write_file
from transom.files.documents import MalformedDocument, decode_json
from transom.files.untrusted_files import Limits, read_bytes
from transom.names import Misfit

LIMITS = Limits(document=2**16)
Count = Annotated[int, msgspec.Meta(ge=0, le=10_000)]


class LessonProgress(msgspec.Struct, forbid_unknown_fields=True):
    """The furthest screen that was seen, counted from 1, of how many; and the answers that were right."""

    screen: Count = 0
    screens: Count = 0
    right: Count = 0
    asked: Count = 0

    @property
    def is_finished(self) -> bool:
        return 0 < self.screens <= self.screen

    def summary(self) -> str:
        answers = f", {self.right} of {self.asked} answers right" if self.asked else ""
        return f"{'done' if self.is_finished else f'step {self.screen} of {self.screens}'}{answers}"


def progress_path() -> Path:
    """lessons.json in $XDG_STATE_HOME/transom, or in ~/.local/state/transom."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return folder / "transom" / "lessons.json"


def load_progress() -> dict[str, LessonProgress]:
    """Progress by the name of each lesson; a file that cannot be read counts as none."""
    path = progress_path()
    if not path.is_file():
        return {}
    try:
        return decode_json(read_bytes(path, LIMITS), dict[str, LessonProgress])
    except (Misfit, MalformedDocument):
        return {}


def save_progress(name: str, progress: LessonProgress) -> str:
    """Keep the progress of a lesson; returns why it could not be kept, or ""."""
    path = progress_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, msgspec.json.encode({**load_progress(), name: progress}))
    except (Misfit, OSError) as error:
        return f"your progress is not kept: {error}"
    return ""
