"""The app: the table of routes and the page's own files, behind the gate."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.cache import Answer
from transom.serve.gate import Gate, Scope
from transom.serve.limits import MOST_STREAMS, RETRY, SHUTTING_DOWN
from transom.serve.routes import ROUTES, Desk, Route
from transom.serve.work import Busy, Cancelled, ShuttingDown
from transom.show.visible import visible

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

STATIC = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
LOG = logging.getLogger("transom.serve")
INTERNAL_ERROR = "internal error; what transom serve printed says which, and with --debug where"


def built(desk: Desk, hosts: list[str], token: str | None = None) -> Gate:
    """Everything a request goes through."""
    from starlette.applications import Starlette
    from starlette.routing import Route as Way

    ways = [Way(route.path, answering(desk, route), methods=[route.method]) for route in ROUTES]
    pages = page_files()
    ways += [Way(path, serving(answer), methods=["GET"]) for path, answer in pages.items()]
    app = Starlette(routes=ways)
    app.router.redirect_slashes = False
    return Gate(app, hosts, token, lambda scope: methods_of(ways, scope), desk.closing.is_set)


def methods_of(ways: list[Any], scope: Scope) -> set[str]:
    """What may be done with the path of a request; nothing where there is no such path."""
    from starlette.routing import Match

    return {method for way in ways if way.matches(scope)[0] is not Match.NONE for method in way.methods}


def page_files() -> dict[str, Answer]:
    """The page's own files, read once at the start: no request ever names a file."""
    found: dict[str, Answer] = {}
    waiting = [("", files("transom.serve") / "static")]
    while waiting:
        place, folder = waiting.pop()
        for one in folder.iterdir():
            if one.is_dir():
                waiting.append((f"{place}/{one.name}", one))
            elif (ending := f".{one.name.rpartition('.')[2]}") in STATIC:
                path = "/" if (place, one.name) == ("", "index.html") else f"{place}/{one.name}"
                found[path] = Answer(one.read_bytes(), STATIC[ending])
    return found


def serving(answer: Answer) -> Any:
    async def endpoint(request: "Request") -> "Response":
        return responded(request, answer)

    return endpoint


def answering(desk: Desk, route: Route) -> Any:
    """The endpoint of a route: what goes wrong is told in one line, with the status that fits."""
    streams = asyncio.Semaphore(MOST_STREAMS)

    async def endpoint(request: "Request") -> "Response":
        from starlette.responses import JSONResponse, Response, StreamingResponse

        if route.streams and streams.locked():
            return JSONResponse({"error": "too many streams are open; close a page"}, 429, RETRY)
        try:
            given = await route.give(desk, request)
        except Misfit as error:
            return JSONResponse({"error": str(error)}, 400)
        except Busy:
            return JSONResponse({"error": "too much is asked at once; try again in a moment"}, 429, RETRY)
        except ShuttingDown:
            return JSONResponse({"error": SHUTTING_DOWN.reason}, SHUTTING_DOWN.status, SHUTTING_DOWN.headers)
        except Cancelled:
            return Response(status_code=499)
        except Exception as error:
            log_error(error, route)
            return JSONResponse({"error": INTERNAL_ERROR}, 500)
        if isinstance(given, Answer):
            return responded(request, given)
        return StreamingResponse(
            limited(events(given, route), streams),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )

    return endpoint


def responded(request: "Request", answer: Answer) -> "Response":
    """An answer; nothing of it where the browser has it already."""
    from starlette.responses import Response

    heads = {"ETag": answer.etag, "Cache-Control": "no-cache", **answer.headers}
    if request.headers.get("if-none-match") == answer.etag:
        return Response(status_code=304, headers=heads)
    return Response(answer.body, media_type=answer.kind, headers=heads)


def log_error(error: Exception, route: Route) -> None:
    """An internal error in one line, with its traceback where details are asked for."""
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    shown = LOG.isEnabledFor(logging.DEBUG)
    LOG.error("transom: %s; an internal error at %s %s", visible(message), route.method, route.path, exc_info=shown)


async def events(given: AsyncIterator[dict[str, Any]], route: Route) -> AsyncIterator[str]:
    """Each as one server-sent event; what goes wrong on the way as an event too."""
    try:
        async for one in given:
            yield f"data: {json.dumps(one)}\n\n"
    except (Misfit, Cancelled) as error:
        yield failed(str(error))
    except Exception as error:
        log_error(error, route)
        yield failed(INTERNAL_ERROR)


def failed(message: str) -> str:
    return f"event: failed\ndata: {json.dumps({'error': message})}\n\n"


async def limited(stream: AsyncIterator[str], streams: asyncio.Semaphore) -> AsyncIterator[str]:
    async with streams:
        async for one in stream:
            yield one
