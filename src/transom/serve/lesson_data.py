"""Lessons and replays for the page, as plain data."""

from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.edited_lesson import parse_edited
from transom.serve.lesson_page import change_to_dict, lesson_page
from transom.serve.request_fields import AnswerRequest, ChangeRequest, FramesRequest, LessonRequest

if TYPE_CHECKING:
    from transom.lens.replay import Replay
    from transom.lessons import Lesson
    from transom.lessons.lesson import LessonStep


def lesson_titles(own: "Lesson | None") -> list[dict[str, Any]]:
    """The shipped lessons by number, and as number 0 the one that was opened from a file."""
    from transom.lessons.lesson_file import shipped_paths

    titles = []
    for number in range(0 if own else 1, len(shipped_paths()) + 1):
        lesson = lesson_by_number(number, own)
        screens = len(lesson.script) + 2 if lesson.script else None
        info = {"number": number, "name": lesson.name, "title": lesson.title}
        titles.append({**info, "question": lesson.question, "screens": screens})
    return titles


def lesson_to_dict(number: int, own: "Lesson | None") -> dict[str, Any]:
    """A lesson screen by screen, its questions, pictures and changes as data."""
    return {"number": number, **lesson_page(lesson_by_number(number, own))}


def lesson_by_number(number: int, own: "Lesson | None") -> "Lesson":
    from transom.lessons.lesson_file import load_shipped

    return own if number == 0 and own is not None else load_shipped(number)


def requested_lesson(fields: LessonRequest, own: "Lesson | None") -> "Lesson":
    """The lesson of a request: one by its number, or one from the editor."""
    if (fields.number is None) == (fields.text is None):
        raise Misfit("a lesson comes by its number or as text; give one of number and text")
    if fields.number is not None:
        return lesson_by_number(fields.number, own)
    return parse_edited(fields.text or "")


def scripted_step(lesson: "Lesson", screen: int) -> "LessonStep":
    """The step that a screen of the page shows; the first screen and the last one show none."""
    if not 1 <= screen <= len(lesson.script):
        raise Misfit(f"screens 1 to {len(lesson.script)} of this lesson ask something, but {screen} came; choose one")
    return lesson.script[screen - 1]


def judge(fields: AnswerRequest, own: "Lesson | None") -> dict[str, Any]:
    """What the checker says of an answer: the same as in the terminal."""
    from transom.lessons.predictions import judge_answer

    lesson = requested_lesson(fields, own)
    step = scripted_step(lesson, fields.screen)
    if step.predict is None:
        raise Misfit(f"the screen “{step.title}” asks nothing; choose one that does")
    verdict = judge_answer(lesson, step.predict, fields.answer)
    return {"right": verdict.is_right, "answer": verdict.right, "causes": list(verdict.causes)}


def change_number(fields: ChangeRequest, own: "Lesson | None") -> dict[str, Any]:
    """The matrices that follow from another number."""
    from transom.lessons.predictions import parse_answer

    lesson = requested_lesson(fields, own)
    scripted_step(lesson, fields.screen)
    return change_to_dict(lesson, fields.screen - 1, parse_answer(fields.to))


def lesson_source(number: int, own: "Lesson | None") -> dict[str, str]:
    """The TOML of a lesson, for the editor; number −1 is a new one."""
    from transom.lessons.lesson_file import new_text

    if number < 0:
        return {"name": "new.toml", "text": new_text("new.toml")}
    lesson = lesson_by_number(number, own)
    return {"name": f"{lesson.name}.toml", "text": lesson.source.text}


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
