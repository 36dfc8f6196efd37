"""Lessons and replays for the page, as plain data."""

import json
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.request_fields import FramesRequest

if TYPE_CHECKING:
    from transom.lens.replay import Replay
    from transom.lessons import Lesson


def lesson_titles(own: "Lesson | None") -> list[dict[str, Any]]:
    """The shipped lessons by number, and as number 0 the one that was opened from a file."""
    from transom.lessons.lesson_file import shipped_paths

    numbers = range(0 if own else 1, len(shipped_paths()) + 1)
    return [{"number": number, "title": lesson_by_number(number, own).title} for number in numbers]


def lesson_to_dict(number: int, own: "Lesson | None") -> dict[str, Any]:
    """A lesson screen by screen, its questions and changes as data, and the picture of its steps."""
    from transom.lessons.lesson_screens import screens, script_to_dict

    lesson = lesson_by_number(number, own)
    page_dicts = [
        {
            "title": page.title,
            "parts": [{"text": part.text, "prose": part.prose} for part in page.all_parts],
            "before": len(page.parts),  # parts that are shown before a question is answered
        }
        for page in screens(lesson)
    ]
    found = {"number": number, "title": lesson.title, "pages": page_dicts, "steps": steps_picture(lesson)}
    return {**found, "screens": script_to_dict(lesson)}


def lesson_by_number(number: int, own: "Lesson | None") -> "Lesson":
    from transom.lessons.lesson_file import load_shipped

    return own if number == 0 and own is not None else load_shipped(number)


def steps_picture(lesson: "Lesson") -> dict[str, Any] | None:
    """Every step of a lesson as a picture; None for an experiment, which has no steps."""
    from transom.show.views import draw

    try:
        return json.loads(draw("steps", lesson).json())
    except Misfit:
        return None


def replay_info(replay: "Replay | None") -> dict[str, Any]:
    """What was recorded of a training: tokens, heads, updates, and the loss."""
    replay = require_replay(replay)
    updates, losses = replay.losses.points()
    tokens = {"tokens": (replay.tokens or [[]])[0], "targets": (replay.targets or [[]])[0]}
    attentions = [{"name": name, "heads": numbers} for name, numbers in replay.heads.items()]
    return {**tokens, "attentions": attentions, "updates": replay.updates, "curve": [updates, losses]}


def replay_frames(replay: "Replay | None", fields: FramesRequest) -> dict[str, Any]:
    """The weights of one head at every recorded update."""
    replay = require_replay(replay)
    weights = replay.weights(fields.name, fields.head)
    labels = replay.at(0).labels(fields.name)
    return {
        "rows": labels.reads,
        "keys": labels.at,
        "weights": [[[round(weight, 5) for weight in row] for row in frame] for frame in weights.tolist()],
    }


def require_replay(replay: "Replay | None") -> "Replay":
    if replay is None:
        raise Misfit("no replay is open; record one with transom train --record, and start transom serve with its file")
    return replay
