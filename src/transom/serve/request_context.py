"""What the handlers of requests work with: the session, the workers, the cached answers; and what a route is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transom.serve.answer_cache import Answer, AnswerCache, as_answer
from transom.serve.free_memory import return_free_memory
from transom.serve.request_fields import Fields, parse_query
from transom.serve.session import Session, SessionRun
from transom.serve.worker import Event, Job, Result, Worker, await_job, job_progress

if TYPE_CHECKING:
    from starlette.requests import Request

Json = dict[str, Any] | list[dict[str, Any]]


@dataclass(frozen=True)
class Route:
    """A path and the function that handles it: it returns an Answer, data for JSON, or events if `about` says so."""

    method: str
    path: str
    handle: Callable[["RequestContext", "Request"], Awaitable[Answer | Json | AsyncIterator[Event]]]
    about: str

    @property
    def streams(self) -> bool:
        return self.about.endswith("(events)")


class RequestContext:
    """What handlers work with: the session, the worker for models, one for lessons, and the cached answers.

    Lessons are small, and a person waits while typing one, so they do not queue behind a model.
    """

    def __init__(self, session: Session, worker: Worker | None = None) -> None:
        self.session, self.worker, self.cache = session, worker or Worker(), AnswerCache()
        self.lesson_worker: Worker | None = None  # started by the first request for a lesson
        self.closing = asyncio.Event()
        session.on_forget = self.forget_run

    async def compute(self, request: "Request", work: Callable[[Job[Result]], Result]) -> Result:
        """Let the worker do it; it stops if the client disconnects."""
        return await await_job(self.worker.submit(work), request.receive, self.closing)

    async def compute_lesson(self, request: "Request", work: Callable[[Job[Result]], Result]) -> Result:
        """The same for lessons, by a worker of their own."""
        self.lesson_worker = self.lesson_worker or Worker()
        return await await_job(self.lesson_worker.submit(work), request.receive, self.closing)

    async def compute_once(self, request: "Request", work: Callable[[Job[Answer | Json]], Answer | Json]) -> Answer:
        """An answer that stays the same: from the cache, or computed and kept."""
        key = (request.path_params.get("run"), request.scope["path"], request.scope["query_string"])
        answer = self.cache[key]
        return answer if answer is not None else self.cache.keep(key, as_answer(await self.compute(request, work)))

    def forget_run(self, number: str) -> None:
        self.cache.forget_run(number)
        return_free_memory()

    def close(self) -> None:
        """Cancel what waits, and end the workers."""
        for worker in filter(None, (self.worker, self.lesson_worker)):
            worker.close()

    async def job_events(self, job: Job[Result], last: Callable[[Result], Event]) -> AsyncIterator[Event]:
        """The events of a job, and at its end the one that `last` makes of its result."""
        async with aclosing(job_progress(job, self.closing)) as events:
            async for event in events:
                yield event
        if job.result.done():
            yield {"ready": True, **last(job.result.result())}

    def run(self, request: "Request") -> SessionRun:
        return self.session.run(request.path_params["run"])

    def attention_query(self, request: "Request", kind: type[Fields]) -> tuple[SessionRun, int, Fields]:
        """The run and the attention that a path names, and the fields of the query."""
        return self.run(request), request.path_params["attention"], query_fields(request, kind)


def query_fields(request: "Request", kind: type[Fields]) -> Fields:
    return parse_query(kind, request.query_params.multi_items())
