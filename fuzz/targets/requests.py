"""Requests to the local page: handed to the app, to a connection in memory as raw bytes, and to `transom serve` itself.

Whatever comes, no answer is 500 or a status that docs/serve.md does not list, every one has the headers that guard the
page, none is a 2xx without the token, and nothing is logged.
"""

import asyncio
import json
import re
import socket
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

from uvicorn.server import ServerState

from fuzz.memory_transport import MemoryTransport
from fuzz.raw_requests import make_conversation
from fuzz.sample_requests import HOST, TOKEN, Request, make_request
from fuzz.small_site import Site
from transom.serve.connection import RequestConnection
from transom.serve.limits import STATUSES
from transom.serve.request_guard import SECURITY_HEADERS
from transom.serve.server import INTERNAL_ERROR

STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [A-Za-z -]*\r\n")
GUARDS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
SOCKET_SECONDS = 0.05  # waited for an answer that a half-sent request may never get


def prepare(folder: Path) -> Site:
    return Site(folder)


def try_input(state: Site, rng: Random) -> str:
    draw = rng.random()
    try:
        if draw < 0.6:
            outcome = state.runner.run(ask_app(state, rng, make_request(rng)))
        elif draw < 0.98:
            outcome = state.runner.run(ask_connection(state, rng))
        else:
            outcome = ask_socket(state, rng)
    finally:
        state.reset()
    return outcome


def check_answer(status: int, headers: list[tuple[bytes, bytes]], trusted: bool) -> str:
    """The status as the outcome, if it is one that may be."""
    assert status in STATUSES, f"{status} is not in the table"
    assert status != 500, "an internal error"
    missing = [name for name, value in GUARDS if (name, value) not in headers]
    assert not missing, f"{status} came without {missing}"
    assert trusted or status >= 400, f"{status} without the token"
    return str(status)


async def ask_app(state: Site, rng: Random, request: Request) -> str:
    """The request as the app gets it from any server; now and then its client goes early."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(request.path),
        "raw_path": request.path.encode("ascii"),
        "root_path": "",
        "query_string": request.query.encode("ascii"),
        "headers": [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in request.headers],
        "client": None,
        "server": None,
    }
    place = rng.randrange(len(request.body) + 1)
    coming = [{"type": "http.request", "body": request.body[:place], "more_body": True}]
    coming += [{"type": "http.request", "body": request.body[place:], "more_body": False}]
    if leaves := rng.random() < 0.03:
        coming.insert(rng.randrange(3), {"type": "http.disconnect"})
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return coming.pop(0) if coming else await asyncio.Future()

    async def send(message: Any) -> None:
        sent.append(message)

    await state.guard(scope, receive, send)
    state.check_log()
    if not sent:
        assert leaves, "nothing was answered"
        return "gone"
    body = b"".join(message.get("body", b"") for message in sent[1:])
    heads = sent[0]["headers"]
    assert INTERNAL_ERROR.encode() not in body
    if (b"content-type", b"application/json") in heads and request.method != "HEAD" and body:
        json.loads(body, parse_constant=refuse_constant)
    return check_answer(sent[0]["status"], heads, request.trusted)


def refuse_constant(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


async def ask_connection(state: Site, rng: Random) -> str:
    """Bytes to a connection, with deadlines, the end of the server and of the client at any moment."""
    server, talk, wire = ServerState(), make_conversation(rng), MemoryTransport()
    wire.protocol = connection = RequestConnection(state.config, server, {})
    connection.connection_made(wire)
    events = [connection.shutdown, connection.expire, wire.close, connection.pause_writing, connection.resume_writing]
    for piece in talk.pieces:
        if wire.closing:
            break
        if piece:
            connection.data_received(piece)
        for _ in range(rng.choice([0, 1, 5, 50])):
            await asyncio.sleep(0)
        if rng.random() < 0.05 and not wire.closing:
            rng.choice(events)()
    connection.resume_writing()
    for _ in range(300):
        if not server.tasks:
            break
        await asyncio.sleep(0)
    wire.close()
    while server.tasks or server.connections:
        await asyncio.sleep(0)
    state.check_log()
    return check_responses(bytes(wire.written), talk.trusted)


def check_responses(written: bytes, trusted: bool) -> str:
    """The status of the first response, after all of them were looked at."""
    found = [(int(one[1]), one.end()) for one in STATUS.finditer(written) if one[1] != b"100"]
    for status, begin in found:
        lines = written[begin : written.index(b"\r\n\r\n", begin)].split(b"\r\n")
        pairs = [line.partition(b": ")[::2] for line in lines]
        check_answer(status, [(name.lower(), value) for name, value in pairs], trusted)
    assert INTERNAL_ERROR.encode() not in written
    return str(found[0][0]) if found else "unanswered"


def ask_socket(state: Site, rng: Random) -> str:
    """The same bytes over loopback, to the command itself."""
    served, talk, received = state.served, make_conversation(rng), b""
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.settimeout(SOCKET_SECONDS)
        try:
            for piece in talk.pieces:
                piece = piece.replace(TOKEN.encode(), served.token.encode())
                connection.sendall(piece.replace(HOST.encode(), f"127.0.0.1:{served.port}".encode()))
            while more := connection.recv(2**16):
                received += more
        except OSError:  # it hung up, or it waits for more
            pass
    assert served.process.poll() is None, "transom serve ended"
    logged = served.log.read_bytes()
    assert logged == served.logged, logged[len(served.logged) :][-2000:].decode()
    return f"socket {check_responses(received, talk.trusted)}"
