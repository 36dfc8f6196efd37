"""The web server: the routes and the page's files behind the request guard, on uvicorn."""

import asyncio
import json
import logging
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

from transom.names import Misfit
from transom.serve.answer_cache import Answer, as_answer
from transom.serve.connection import RequestConnection
from transom.serve.limits import LAST_SECONDS, LONGEST_HEAD, MOST_STREAMS, RETRY, SHUTTING_DOWN
from transom.serve.request_guard import RequestGuard
from transom.serve.routes import ROUTES, RequestContext, Route
from transom.serve.session import Session
from transom.serve.worker import Event, JobCancelled, QueueFull, ShuttingDown
from transom.show.formatting import make_visible

Endpoint = Callable[[Request], Awaitable[Response]]

STATIC = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
LOOPBACK = {"127.0.0.1", "::1", "localhost"}
LOG = logging.getLogger("transom.serve")
INTERNAL_ERROR = "internal error; the log of transom serve says which, and with --debug where"


def build_app(context: RequestContext, hosts: list[str], token: str | None = None) -> RequestGuard:
    """The routes and the page's files, behind the request guard."""
    routes = [StarletteRoute(route.path, endpoint(context, route), methods=[route.method]) for route in ROUTES]
    routes += [StarletteRoute(path, static_endpoint(answer), methods=["GET"]) for path, answer in page_files()]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    return RequestGuard(app, hosts, token, lambda scope: allowed_methods(routes, scope), context.closing.is_set)


def allowed_methods(routes: list[StarletteRoute], scope: Scope) -> set[str]:
    """The methods of a path; none if there is no such path."""
    matching = [route for route in routes if route.matches(scope)[0] is not Match.NONE]
    return {method for route in matching for method in route.methods or ()}


def page_files() -> Iterator[tuple[str, Answer]]:
    """The page's own files by path, read once at the start: no request ever names a file."""
    yield from folder_files(files("transom.serve") / "static", "/")


def folder_files(folder: Traversable, path: str) -> Iterator[tuple[str, Answer]]:
    """The files of a folder of the page, and of those in it."""
    for file in folder.iterdir():
        kind = STATIC.get(PurePath(file.name).suffix)
        if file.is_dir():
            yield from folder_files(file, f"{path}{file.name}/")
        elif kind is not None:
            yield path if file.name == "index.html" else f"{path}{file.name}", Answer(file.read_bytes(), kind)


def static_endpoint(answer: Answer) -> Endpoint:
    async def handle(request: Request) -> Response:
        return to_response(request, answer)

    return handle


def endpoint(context: RequestContext, route: Route) -> Endpoint:
    """The endpoint of a route: an error is one line of JSON with the right status."""
    streams = asyncio.Semaphore(MOST_STREAMS)

    async def handle(request: Request) -> Response:
        if route.streams and streams.locked():
            return JSONResponse({"error": "too many streams are open; close a page"}, 429, RETRY)
        try:
            result = await route.handle(context, request)
        except Misfit as error:
            return JSONResponse({"error": str(error)}, 400)
        except QueueFull:
            return JSONResponse({"error": "the server is busy; try again in a moment"}, 429, RETRY)
        except ShuttingDown:
            return JSONResponse({"error": SHUTTING_DOWN.reason}, SHUTTING_DOWN.status, SHUTTING_DOWN.headers)
        except JobCancelled:
            return Response(status_code=499)
        except Exception as error:
            log_error(error, route)
            return JSONResponse({"error": INTERNAL_ERROR}, 500)
        if not isinstance(result, AsyncIterator):
            return to_response(request, as_answer(result))
        stream = limit_streams(server_sent_events(result, route), streams)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return handle


def to_response(request: Request, answer: Answer) -> Response:
    """An answer; only its headers if the browser already has it."""
    headers = {"ETag": answer.etag, "Cache-Control": "no-cache", **answer.headers}
    if request.headers.get("if-none-match") == answer.etag:
        return Response(status_code=304, headers=headers)
    return Response(answer.body, media_type=answer.kind, headers=headers)


def log_error(error: Exception, route: Route) -> None:
    """Log an internal error in one line, with its traceback if --debug is set."""
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    is_debug = LOG.isEnabledFor(logging.DEBUG)
    LOG.error(
        "transom: %s; an internal error at %s %s", make_visible(message), route.method, route.path, exc_info=is_debug
    )


async def server_sent_events(events: AsyncIterator[Event], route: Route) -> AsyncIterator[str]:
    """Each event as text, and an error as the last event."""
    try:
        async for event in events:
            yield f"data: {json.dumps(event)}\n\n"
    except Exception as error:
        message = str(error)
        if not isinstance(error, Misfit | JobCancelled):
            log_error(error, route)
            message = INTERNAL_ERROR
        yield f"event: failed\ndata: {json.dumps({'error': message})}\n\n"


async def limit_streams(stream: AsyncIterator[str], streams: asyncio.Semaphore) -> AsyncIterator[str]:
    async with streams:
        async for text in stream:
            yield text


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket on the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise Misfit(
            f"port {port} on {host} cannot be used ({error.strerror or error}); choose another with --port, or --port 0"
            " for any free one"
        ) from error
    return sock


def host_names(host: str, port: int) -> list[str]:
    """The names that a browser may use for us in its Host header."""
    own = f"[{host}]" if ":" in host else host
    loopback = ["127.0.0.1", "localhost", "[::1]"] if host in LOOPBACK else []
    return list(dict.fromkeys(f"{name}:{port}" for name in (own, *loopback)))


def serve(session: Session, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal comes; `on_ready` gets the address with its token once requests are accepted."""
    sock = bind_socket(host, port)
    hosts = host_names(host, sock.getsockname()[1])
    asyncio.run(serve_on_socket(session, sock, hosts, on_ready))


async def serve_on_socket(
    session: Session, sock: socket.socket, hosts: list[str], on_ready: Callable[[str], None]
) -> None:
    context = RequestContext(session)
    guard = build_app(context, hosts)
    server = PageServer(server_config(guard), context)
    running = asyncio.ensure_future(server.serve(sockets=[sock]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    if server.started:
        on_ready(f"http://{hosts[0]}/?token={guard.token}")
    try:
        await running
    finally:
        context.closing.set()
        context.close()


class PageServer(uvicorn.Server):
    """Ends its streams, and then itself, when a signal comes; that is not an error."""

    def __init__(self, config: uvicorn.Config, context: RequestContext) -> None:
        super().__init__(config)
        self.context = context

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.leave)
        yield

    def leave(self) -> None:
        self.should_exit = True
        self.context.closing.set()


def server_config(guard: RequestGuard) -> uvicorn.Config:
    """How uvicorn is set up."""
    return uvicorn.Config(
        guard,
        http=RequestConnection,
        ws="none",
        log_level="error",  # anybody can cause its warnings by a request
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=LAST_SECONDS,
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )
