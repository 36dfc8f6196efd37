"""The routes of lessons, words and replays."""

from typing import TYPE_CHECKING

from transom.serve import edited_lesson, lesson_data, request_fields
from transom.serve.answer_cache import Answer, as_answer
from transom.serve.request_context import Json, RequestContext, Route, query_fields
from transom.serve.request_fields import parse_body

if TYPE_CHECKING:
    from starlette.requests import Request


async def glossary(context: RequestContext, request: "Request") -> Json:
    from transom.lessons.glossary import GLOSSARY

    return GLOSSARY


async def lessons(context: RequestContext, request: "Request") -> Json:
    return await context.compute_lesson(request, lambda job: lesson_data.lesson_titles(context.session.lesson))


async def one_lesson(context: RequestContext, request: "Request") -> Answer:
    number, own = request.path_params["number"], context.session.lesson
    key = (None, request.scope["path"], b"")
    if (answer := context.cache[key]) is not None:
        return answer
    lesson = await context.compute_lesson(request, lambda job: lesson_data.lesson_to_dict(number, own))
    return context.cache.keep(key, as_answer(lesson))


async def lesson_source(context: RequestContext, request: "Request") -> Json:
    return lesson_data.lesson_source(request.path_params["number"], context.session.lesson)


async def new_lesson(context: RequestContext, request: "Request") -> Json:
    return lesson_data.lesson_source(-1, None)


async def check_lesson(context: RequestContext, request: "Request") -> Json:
    fields = parse_body(request_fields.CheckRequest, await request.body())
    return await context.compute_lesson(request, lambda job: edited_lesson.check_edited(fields.text))


async def judge_answer(context: RequestContext, request: "Request") -> Json:
    fields = parse_body(request_fields.AnswerRequest, await request.body())
    return await context.compute_lesson(request, lambda job: lesson_data.judge(fields, context.session.lesson))


async def change_number(context: RequestContext, request: "Request") -> Json:
    fields = parse_body(request_fields.ChangeRequest, await request.body())
    return await context.compute_lesson(request, lambda job: lesson_data.change_number(fields, context.session.lesson))


async def replay(context: RequestContext, request: "Request") -> Json:
    return lesson_data.replay_info(context.session.replay)


async def frames(context: RequestContext, request: "Request") -> Json:
    fields = query_fields(request, request_fields.FramesRequest)
    return await context.compute(request, lambda job: lesson_data.replay_frames(context.session.replay, fields))


LESSON_ROUTES = (
    Route("GET", "/api/glossary", glossary, "the words of attention, explained"),
    Route("GET", "/api/lessons", lessons, "the lessons by number"),
    Route("GET", "/api/lessons/new", new_lesson, "a lesson to start from, as TOML"),
    Route("GET", "/api/lessons/{number:int}", one_lesson, "a lesson screen by screen: text, matrices, pictures"),
    Route("GET", "/api/lessons/{number:int}/source", lesson_source, "a lesson as TOML"),
    Route("POST", "/api/lessons/check", check_lesson, "the text of a lesson: its findings by line, and its screens"),
    Route("POST", "/api/lessons/answer", judge_answer, "an answer to a question of a lesson, judged by the checker"),
    Route("POST", "/api/lessons/change", change_number, "a lesson with one number changed: what follows from it"),
    Route("GET", "/api/replay", replay, "what was recorded of a training: tokens, heads, updates, the loss"),
    Route("GET", "/api/replay/frames", frames, "the weights of one head at every recorded update"),
)
