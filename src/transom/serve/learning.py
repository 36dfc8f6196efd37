"""Lessons and replays for the page, as plain data."""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from transom.lens.replay import Replay
    from transom.lessons import Lesson


def glossary() -> dict[str, str]:
    """The words in plain words."""
    from transom.lessons.glossary import GLOSSARY

    return GLOSSARY


def lesson_list(own: "Lesson | None") -> list[dict[str, Any]]:
    """The shipped lessons by number, and the one that was opened from a file as number 0."""
    from transom.lessons.shelf import paths, shipped

    numbered = [(number, shipped(number)) for number in range(1, len(paths()) + 1)]
    return [{"number": number, "title": one.title} for number, one in ([(0, own)] if own else []) + numbered]


def lesson(number: int, own: "Lesson | None") -> dict[str, Any]:
    """A lesson page by page, and the picture of its steps."""
    from transom.lessons.playing import pages

    one = chosen(number, own)
    told = [
        {"title": page.title, "parts": [{"text": part.text, "prose": part.prose} for part in page.parts]}
        for page in pages(one)
    ]
    return {"number": number, "title": one.title, "pages": told, "steps": steps(number, own)}


def chosen(number: int, own: "Lesson | None") -> "Lesson":
    from transom.lessons.shelf import shipped

    if number == 0 and own is not None:
        return own
    return shipped(number)


@lru_cache(maxsize=32)
def steps(number: int, own: "Lesson | None") -> dict[str, Any] | None:
    """Every step of a lesson as a picture; None where it is an experiment and has none."""
    from transom.show.drawing import draw

    one = chosen(number, own)
    try:
        return json.loads(draw("steps", one).json())
    except Misfit:
        return None


def replay(found: "Replay | None") -> dict[str, Any]:
    """What was recorded of a training: words, heads, updates, and the loss."""
    one = opened(found)
    updates, losses = one.losses.points()
    words = {"tokens": (one.tokens or [[]])[0], "targets": (one.targets or [[]])[0]}
    listed = [{"name": name, "heads": numbers} for name, numbers in one.heads.items()]
    return {**words, "attentions": listed, "updates": one.updates, "curve": [updates, losses]}


def frames(found: "Replay | None", name: str, head: int) -> dict[str, Any]:
    """One head's weights at every recorded update."""
    one = opened(found)
    weights = one.weights(name, head)
    labels = one.at(0).labels(name)
    return {
        "rows": labels.reads,
        "keys": labels.at,
        "weights": [[[round(w, 5) for w in row] for row in frame] for frame in weights.tolist()],
    }


def opened(found: "Replay | None") -> "Replay":
    if found is None:
        raise Misfit("no replay is open; record one with transom train --record, and start transom serve with its file")
    return found
