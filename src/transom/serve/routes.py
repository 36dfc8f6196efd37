"""Every route of the page, in one table: what is asked, what is answered, and in a sentence what it is for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from transom.serve import asking, comparing, learning, taken, tiles
from transom.serve.cache import Answer, Cache, as_json
from transom.serve.fields import (
    AskBeside,
    AskEffects,
    AskFrames,
    AskKnockOut,
    AskPage,
    AskPicture,
    AskRun,
    AskStrongest,
    AskTile,
    AskWeights,
    from_body,
    from_query,
)
from transom.serve.record import Head
from transom.serve.studio import Run, Studio
from transom.serve.work import Job, Worker, awaited, followed

if TYPE_CHECKING:
    from starlette.requests import Request


@dataclass(frozen=True)
class Route:
    """A way in. `give` has the desk and the request, and gives an Answer, or events where it says so."""

    method: str
    path: str
    give: Callable[["Desk", "Request"], Awaitable[Any]]
    about: str

    @property
    def streams(self) -> bool:
        return self.about.endswith("(events)")


class Desk:
    """Where requests are answered: the studio, the one worker, and the answers that are kept."""

    def __init__(self, studio: Studio, worker: Worker | None = None, cache: Cache | None = None) -> None:
        self.studio, self.worker, self.cache = studio, worker or Worker(), cache or Cache()
        self.closing = asyncio.Event()
        studio.forgotten = self.cache.forget

    async def done(self, request: "Request", work: Callable[[Job], Any]) -> Any:
        """What the worker makes of it; it stops when the client goes."""
        return await awaited(self.worker.give(work), request.receive, self.closing)

    async def kept(self, request: "Request", asked: tuple[Any, ...], work: Callable[[Job], Answer]) -> Answer:
        """An answer that stays the same: from the cache, or worked out and kept."""
        found = self.cache[asked]
        return found if found is not None else self.cache.keep(asked, await self.done(request, work))

    async def told(self, job: Job, last: Callable[[Any], dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """What a job tells on its way, and once it is ready what `last` makes of its result; it stops when nobody
        listens any more."""
        async with aclosing(followed(job, self.closing)) as told:
            async for one in told:
                yield one
        if job.result.done():
            yield {"ready": True, **last(job.result.result())}

    def run(self, request: "Request") -> Run:
        return self.studio.run(request.path_params["run"])


async def state(desk: Desk, request: "Request") -> Answer:
    return as_json(desk.studio.told())


async def start_run(desk: Desk, request: "Request") -> Answer:
    asked = from_body(AskRun, await request.body())
    run = await desk.done(request, lambda job: desk.studio.look(asked, lambda token: job.wanted()))
    return as_json(run.told())


async def writing(desk: Desk, request: "Request") -> AsyncIterator[dict[str, Any]]:
    """The same as events: each token when the model has chosen it, and the run when all of it has been watched."""
    asked = from_body(AskRun, await request.body())
    job = desk.worker.give(lambda job: desk.studio.look(asked, job.tell))
    return desk.told(job, lambda run: {"run": run.told()})


async def one_run(desk: Desk, request: "Request") -> Answer:
    run = desk.run(request)
    return await desk.kept(request, (run.number, "told"), lambda job: as_json(run.told()))


async def tile(desk: Desk, request: "Request") -> Answer:
    run, index = desk.run(request), request.path_params["attention"]
    asked = from_query(AskTile, request.query_params.multi_items())
    other = desk.studio.run(asked.against) if asked.against else None
    question = (run.number, "tile", index, msgspec.structs.astuple(asked))
    return await desk.kept(request, question, lambda job: tiles.tile(run, index, asked, job, other))


async def overview(desk: Desk, request: "Request") -> AsyncIterator[dict[str, Any]]:
    """How far the whole map of a head is worked out, as events, until it is ready."""
    run, index = desk.run(request), request.path_params["attention"]
    asked = from_query(AskTile, request.query_params.multi_items())
    pyramid = run.pyramid(index, asked.head)
    shape = {"top": pyramid.top, "sizes": pyramid.sizes, "floor": pyramid.floor_level}

    def laid(job: Job) -> None:
        job.tell({"share": 0.0, **shape})
        pyramid.lay(lambda share: job.tell({"share": round(share, 4), **shape}))

    return desk.told(desk.worker.give(laid), lambda _: {"share": 1.0, **shape})


async def weights(desk: Desk, request: "Request") -> Answer:
    run, index = desk.run(request), request.path_params["attention"]
    asked = from_query(AskWeights, request.query_params.multi_items())
    return as_json(await desk.done(request, lambda job: tiles.weights(run, index, asked)))


async def strongest(desk: Desk, request: "Request") -> Answer:
    run, index = desk.run(request), request.path_params["attention"]
    asked = from_query(AskStrongest, request.query_params.multi_items())
    question = (run.number, "strongest", index, msgspec.structs.astuple(asked))
    return await desk.kept(request, question, lambda job: as_json(asking.strongest(run, index, asked, job)))


async def heads(desk: Desk, request: "Request") -> Answer:
    run = desk.run(request)
    return await desk.kept(request, (run.number, "heads"), lambda job: as_json(asking.heads(run, job)))


async def measuring(desk: Desk, request: "Request") -> AsyncIterator[dict[str, Any]]:
    """How far the heads are measured, as events, until `heads` has its answer at hand."""
    run = desk.run(request)
    question = (run.number, "heads")
    found = desk.cache[question]
    job = desk.worker.give(lambda job: found or as_json(asking.heads(run, job)))

    def kept(answer: Answer) -> dict[str, Any]:
        desk.cache.keep(question, answer)
        return {}

    return desk.told(job, kept)


async def picture(desk: Desk, request: "Request") -> Answer:
    run, index = desk.run(request), request.path_params["attention"]
    asked = from_query(AskPicture, request.query_params.multi_items())
    view = request.path_params["view"]
    question = (run.number, "picture", view, index, msgspec.structs.astuple(asked))
    return await desk.kept(request, question, lambda job: asking.picture(desk.studio, run, index, view, asked))


async def knock_out(desk: Desk, request: "Request") -> Answer:
    asked = from_body(AskKnockOut, await request.body())
    run = desk.run(request)
    return as_json(await desk.done(request, lambda job: comparing.knocked_out(run, asked)))


async def beside(desk: Desk, request: "Request") -> Answer:
    asked = from_query(AskBeside, request.query_params.multi_items())
    run, other = desk.run(request), desk.studio.run(asked.other)
    return as_json(await desk.done(request, lambda job: comparing.beside(run, other)))


async def effects(desk: Desk, request: "Request") -> Answer:
    run, index = desk.run(request), request.path_params["attention"]
    asked = from_query(AskEffects, request.query_params.multi_items())
    question = (run.number, "effects", index, msgspec.structs.astuple(asked))
    return await desk.kept(request, question, lambda job: as_json(asking.effects(run, index, asked, job)))


async def telling(desk: Desk, request: "Request") -> Answer:
    run = desk.run(request)
    return await desk.kept(request, (run.number, "telling"), lambda job: as_json(asking.telling(run, job)))


async def page(desk: Desk, request: "Request") -> Answer:
    asked = from_query(AskPage, request.query_params.multi_items())
    run, head = desk.run(request), Head(asked.attention, asked.head)
    made = await desk.done(request, lambda job: taken.page(desk.studio, run, head, job).html.encode())
    heads = {"Content-Disposition": f'attachment; filename="run-{run.number}.html"'}
    return Answer(made, asking.KINDS["html"], heads)


async def trace_file(desk: Desk, request: "Request") -> Answer:
    run = desk.run(request)
    body = await desk.done(request, lambda job: asking.on_file(run))
    return Answer(body, headers={"Content-Disposition": f'attachment; filename="run-{run.number}.safetensors"'})


async def glossary(desk: Desk, request: "Request") -> Answer:
    return as_json(learning.glossary())


async def lessons(desk: Desk, request: "Request") -> Answer:
    return as_json(await desk.done(request, lambda job: learning.lesson_list(desk.studio.lesson)))


async def one_lesson(desk: Desk, request: "Request") -> Answer:
    number = request.path_params["number"]
    return await desk.kept(
        request, ("lesson", number), lambda job: as_json(learning.lesson(number, desk.studio.lesson))
    )


async def replay(desk: Desk, request: "Request") -> Answer:
    return as_json(learning.replay(desk.studio.replay))


async def replayed(desk: Desk, request: "Request") -> Answer:
    asked = from_query(AskFrames, request.query_params.multi_items())
    return as_json(await desk.done(request, lambda job: learning.frames(desk.studio.replay, asked.name, asked.head)))


RUN = "/api/runs/{run}"
ONE = RUN + "/{attention:int}"
ROUTES = (
    Route("GET", "/api/glossary", glossary, "the words of attention in plain words"),
    Route("GET", "/api/lessons", lessons, "the lessons by number"),
    Route("GET", "/api/lessons/{number:int}", one_lesson, "a lesson page by page, with every step as a picture"),
    Route("GET", "/api/replay", replay, "what was recorded of a training: words, heads, updates, the loss"),
    Route("GET", "/api/replay/frames", replayed, "one head's weights at every recorded update"),
    Route("GET", "/api/state", state, "what is open: the model, and the runs so far"),
    Route("POST", "/api/runs", start_run, "a text through the model; answers with the run"),
    Route("POST", "/api/writing", writing, "the same, token by token while it is written, and then the run (events)"),
    Route("GET", RUN, one_run, "one run: its words, what was likely, and its attentions"),
    Route("GET", RUN + "/heads", heads, "every head with its measures"),
    Route("GET", RUN + "/measuring", measuring, "how far its heads are measured (events)"),
    Route("GET", RUN + "/telling", telling, "the head to look at first, by the rule of transom see"),
    Route("POST", RUN + "/knock_out", knock_out, "the run again without some arrows or heads, and what changed"),
    Route("GET", RUN + "/beside", beside, "what came out of this run and of another one, row by row"),
    Route("GET", RUN + "/page", page, "the run as a page in one file, with a head open, to keep or to send (HTML)"),
    Route("GET", RUN + "/trace", trace_file, "the run as one safetensors file, to keep or to send"),
    Route("GET", ONE + "/overview", overview, "how far a head's whole map is worked out (events)"),
    Route("GET", ONE + "/tile", tile, "a tile of a head's map at some zoom (bytes)"),
    Route("GET", ONE + "/weights", weights, "up to 64 × 64 single weights and scores, with their words"),
    Route("GET", ONE + "/strongest", strongest, "the strongest arrows of a head"),
    Route("GET", ONE + "/effects", effects, "the strongest arrows of a row: weight, norm, share and effect"),
    Route("GET", ONE + "/picture/{view}", picture, "a view of a head: JSON, SVG, HTML, PNG, PDF, text"),
)
