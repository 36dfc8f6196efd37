"""Connections on a real socket: slow, broken and greedy clients get the right status, and nothing is logged."""

import asyncio
import threading

import pytest
from serve.live import is_closed, live_server, read_response

from transom.serve import limits
from transom.serve.request_guard import SECURITY_HEADERS, RequestGuard

MANY = "a=1&" * 30
LARGE = f"Content-Length: {2**21}\r\n\r\n"
GET = "GET /api/state HTTP/1.1\r\n"
POST = "POST /api/runs HTTP/1.1\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog, capsys):
    yield
    assert caplog.records == []
    assert capsys.readouterr().err == "", "uvicorn logs there"


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(limits, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(limits, "STALL_SECONDS", 0.3)


def run(scenario, make_guard=None):
    async def play():
        async with live_server(make_guard) as live:
            return await scenario(live)

    return asyncio.run(play())


def expected(refusal):
    return refusal.status, f"{refusal.reason}\n"


def status_and_body(response):
    return response[0], response[2]


def has_security_headers(headers):
    return {name.lower(): value for name, value in SECURITY_HEADERS.items()}.items() <= headers.items()


REFUSED = {
    "many query fields before the token": (lambda live: [f"GET /?{MANY} HTTP/1.1\r\n", no_token(live)], "NO_TOKEN"),
    "many query fields": (lambda live: [f"GET /?{MANY} HTTP/1.1\r\n", live.head, "\r\n"], "TOO_MANY_FIELDS"),
    "a large body": (lambda live: [POST, live.json, LARGE, bytes(2**21)], "BODY_TOO_LARGE"),
    "a large body in chunks": (lambda live: [POST, live.json, CHUNKED, *chunks(5 * [bytes(2**18)])], "BODY_TOO_LARGE"),
    "a long path": (lambda live: [f"GET /{'a' * 5000} HTTP/1.1\r\n", live.head, "\r\n"], "TARGET_TOO_LONG"),
    "a path without an end": (lambda live: ["GET /" + "a" * 20_000], "TARGET_TOO_LONG"),
    "a header without an end": (lambda live: [GET, live.head, "X: " + "x" * 20_000], "HEAD_TOO_LARGE"),
    "a long header": (lambda live: [GET, live.head, "X: " + "x" * 20_000, "\r\n\r\n"], "HEAD_TOO_LARGE"),
    "many headers": (lambda live: [GET, live.head, *(f"X{i}: 1\r\n" for i in range(70)), "\r\n"], "HEAD_TOO_LARGE"),
    "no HTTP": (lambda live: ["\x16\x03\x01 hello\r\n\r\n"], "MALFORMED"),
    "two hosts": (lambda live: [GET, live.head, live.head, "\r\n"], "MALFORMED"),
    "a chunk without a size": (lambda live: [POST, live.json, CHUNKED, "zz\r\n"], "MALFORMED"),
    "a size without an end": (lambda live: [POST, live.json, CHUNKED, "1;" + "x" * 20_000], "MALFORMED"),
    "another encoding": (lambda live: [POST, live.json, "Transfer-Encoding: gzip\r\n\r\n"], "UNKNOWN_ENCODING"),
}  # fmt: skip


def no_token(live):
    return f"Host: 127.0.0.1:{live.port}\r\n\r\n"


def chunks(pieces):
    return [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b"")]


@pytest.mark.parametrize("case", REFUSED)
def test_each_limit_has_its_status(case):
    pieces, refusal = REFUSED[case]

    async def scenario(live):
        response = await live.request(*pieces(live))
        assert (await live.request(GET, live.head, "\r\n"))[0] == 200, "others are served as before"
        return response

    status, headers, body = run(scenario)
    assert (status, body) == expected(getattr(limits, refusal))
    assert has_security_headers(headers)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_slow_head_ends_the_connection_in_whichever_request_it_is(impatient, before):
    async def scenario(live):
        reader, writer = await live.open()
        for _ in range(before):
            await live.send(writer, GET, live.head, "\r\n")
            assert (await read_response(reader))[0] == 200
        sending = asyncio.ensure_future(live.send(writer, *(GET + "X: " + "x" * 1000), pause=0.05))
        found = await read_response(reader)
        closed = await is_closed(reader)
        sending.cancel()
        return found, closed

    (status, headers, body), closed = run(scenario)
    assert (status, body) == expected(limits.TOO_SLOW)
    assert has_security_headers(headers)
    assert closed


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("framing", ["Content-Length: 1000\r\n\r\n", CHUNKED])
def test_a_body_has_one_deadline_however_often_a_piece_arrives(impatient, framing, before):
    async def scenario(live):
        reader, writer = await live.open()
        for _ in range(before):
            await live.send(writer, GET, live.head, "\r\n")
            assert (await read_response(reader))[0] == 200
        piece = "1\r\nx\r\n" if framing is CHUNKED else "x"
        sending = asyncio.ensure_future(live.send(writer, POST, live.json, framing, *([piece] * 900), pause=0.05))
        found = await read_response(reader)
        sending.cancel()
        return found, await is_closed(reader)

    found, closed = run(scenario)
    assert status_and_body(found) == expected(limits.TOO_SLOW)
    assert closed


def test_a_slow_body_after_its_refusal_ends_the_connection(impatient):
    async def scenario(live):
        reader, writer = await live.open(POST, no_token(live).replace("\r\n\r\n", "\r\nContent-Length: 1000\r\n\r\n"))
        found = await read_response(reader)
        sending = asyncio.ensure_future(live.send(writer, *("x" * 900), pause=0.05))
        closed = await is_closed(reader)
        sending.cancel()
        return found, closed

    found, closed = run(scenario)
    assert status_and_body(found) == expected(limits.NO_TOKEN)
    assert closed


def test_after_a_refused_body_the_connection_goes_on():
    async def scenario(live):
        reader, writer = await live.open(POST, no_token(live).replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n"))
        found = [(await read_response(reader))[0]]
        await live.send(writer, "12345", GET, live.head, "\r\n")
        found.append((await read_response(reader))[0])
        writer.close()
        return found

    assert run(scenario) == [401, 200]


@pytest.mark.parametrize("before", [0, 1])
def test_a_connection_without_a_request_is_closed_without_an_answer(impatient, before):
    async def scenario(live):
        reader, writer = await live.open()
        for _ in range(before):
            await live.send(writer, GET, live.head, "\r\n")
            assert (await read_response(reader))[0] == 200
        return await is_closed(reader)

    assert run(scenario)


def answering_after(seconds):
    """An app that answers late, in two parts with a pause between them."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return
        await asyncio.sleep(seconds)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        await asyncio.sleep(seconds)
        await send({"type": "http.response.body", "body": b"2"})

    return lambda hosts, token: RequestGuard(app, hosts, token)


def test_the_deadline_is_for_requests_and_not_for_answers(impatient):
    async def scenario(live):
        return await live.request(POST, live.json, "Content-Length: 3\r\n\r\n", "abc")

    assert status_and_body(run(scenario, answering_after(1.0))) == (200, "12")


def test_requests_sent_at_once_are_answered_in_turn(impatient):
    async def scenario(live):
        request = [GET, live.head, "\r\n"]
        reader, _ = await live.open("".join([*request, POST, live.json, "Content-Length: 2\r\n\r\n{}", *request, GET]))
        found = [(await read_response(reader))[0] for _ in range(4)]
        return found, await is_closed(reader)

    assert run(scenario) == ([200, 400, 200, 408], True)


def test_a_client_that_reads_nothing_is_disconnected(impatient):
    async def app(scope, receive, send):
        if scope["type"] != "lifespan":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(64):
                await send({"type": "http.response.body", "body": bytes(2**20), "more_body": True})

    async def scenario(live):
        _, writer = await live.open(GET, live.head, "\r\n")
        while not live.server.server_state.connections:
            await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            while live.server.server_state.connections:  # nothing is read meanwhile: its buffers are full
                await asyncio.sleep(0.01)
        writer.close()

    run(scenario, lambda hosts, token: RequestGuard(app, hosts, token))


def test_connections_are_counted(monkeypatch):
    monkeypatch.setattr(limits, "MOST_CONNECTIONS", 3)

    async def scenario(live):
        first = [await live.open() for _ in range(3)]
        found = await live.request()
        for _, writer in first:
            writer.close()
        while live.server.server_state.connections:
            await asyncio.sleep(0.01)
        return found, (await live.request(GET, live.head, "\r\n"))[0]

    (status, headers, body), later = run(scenario)
    assert (status, body) == expected(limits.TOO_MANY_CONNECTIONS)
    assert headers["retry-after"] == "1"
    assert later == 200


def test_the_shutdown_waits_for_nobody():
    ended = threading.Event()

    async def scenario(live):
        begun = threading.Event()
        live.context.worker.submit(lambda job: (begun.set(), ended.wait(20)))
        begun.wait(20)
        opened = {
            "idle": await live.open(),
            "head": await live.open(GET),
            "later head": await live.open(GET, live.head, "\r\n"),
            "body": await live.open(POST, live.json, "Content-Length: 5\r\n\r\n{"),
            "waiting": await live.open("GET /api/runs/1/heads HTTP/1.1\r\n", live.head, "\r\n"),
            "stream": await live.open("GET /api/runs/1/measuring HTTP/1.1\r\n", live.head, "\r\n"),
        }
        assert (await read_response(opened["later head"][0]))[0] == 200
        await live.send(opened["later head"][1], GET)
        assert (await read_response(opened["stream"][0]))[0] == 200
        while live.context.worker.jobs.qsize() < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # for the heads to come
        live.server.leave()
        found = {name: await read_response(opened[name][0]) for name in ("head", "later head", "body", "waiting")}
        closed = [await is_closed(opened[name][0]) for name in ("idle", *found)]
        stream = await opened["stream"][0].read()
        ended.set()
        return found, closed, stream

    found, closed, stream = run(scenario)
    assert {name: response[0] for name, response in found.items()} == dict.fromkeys(found, 503)
    assert all(response[1]["retry-after"] == "1" for response in found.values())
    assert closed == [True] * 5
    assert b"ready" not in stream
