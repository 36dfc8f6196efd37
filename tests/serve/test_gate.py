"""The gate: what is refused on the way in, whatever route it asks for, and what every answer carries."""

import asyncio

import pytest

from transom.serve import gate
from transom.serve.gate import HEADERS, LONGEST_BODY, Gate

HOST = "127.0.0.1:4711"
TOKEN = "a-token-of-this-start"
OURS = [("host", HOST), ("authorization", f"Bearer {TOKEN}")]


async def echo(scope, receive, send):
    """An app that reads its body and says how long it was."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


def asked(headers, method="GET", path="/api/state", query="", pieces=(b"",), app=echo, pause=0.0):
    """Status, headers and body that come back through the gate."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    sent, coming = [], [*pieces]

    async def receive():
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": coming.pop(0), "more_body": bool(coming)}

    async def send(message):
        sent.append(message)

    asyncio.run(Gate(app, [HOST, "localhost:4711"], TOKEN)(scope, receive, send))
    heads = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], heads, sent[1]["body"].decode()


def test_our_own_page_is_let_in():
    status, heads, _ = asked([*OURS, ("origin", f"http://{HOST}"), ("sec-fetch-site", "same-origin")])
    assert status == 200
    assert {name.lower(): value for name, value in HEADERS.items()}.items() <= heads.items()
    assert "access-control-allow-origin" not in heads


REFUSED = {
    "no host": ([("authorization", f"Bearer {TOKEN}")], "GET", 421),
    "another host": ([("host", "evil.example"), OURS[1]], "GET", 421),
    "our address, another port": ([("host", "127.0.0.1:1"), OURS[1]], "GET", 421),
    "two hosts": ([OURS[0], OURS[0], OURS[1]], "GET", 421),
    "another origin": ([*OURS, ("origin", "https://evil.example")], "GET", 403),
    "no origin at all": ([*OURS, ("origin", "null")], "GET", 403),
    "a second origin": ([*OURS, ("origin", f"http://{HOST}"), ("origin", "https://evil.example")], "GET", 403),
    "another site": ([*OURS, ("sec-fetch-site", "cross-site")], "GET", 403),
    "a sister site": ([*OURS, ("sec-fetch-site", "same-site")], "GET", 403),
    "no token": ([OURS[0]], "GET", 401),
    "a wrong token": ([OURS[0], ("authorization", "Bearer guess")], "GET", 401),
    "a wrong cookie": ([OURS[0], ("cookie", "transom-4711=guess")], "GET", 401),
    "a cookie of another port": ([OURS[0], ("cookie", f"transom-1={TOKEN}")], "GET", 401),
    "a broken cookie": ([OURS[0], ("cookie", "\x01;;=")], "GET", 401),
    "another method": (OURS, "DELETE", 405),
    "a form": ([*OURS, ("content-type", "application/x-www-form-urlencoded")], "POST", 415),
    "plain text that may hold JSON": ([*OURS, ("content-type", "text/plain")], "POST", 415),
    "no type": (OURS, "POST", 415),
    "two types": ([*OURS, ("content-type", "application/json"), ("content-type", "text/plain")], "POST", 415),
    "a long body": ([*OURS, ("content-type", "application/json"), ("content-length", str(60 * 2**20))], "POST", 413),
    "a length that is none": ([*OURS, ("content-length", "-1")], "GET", 400),
}


@pytest.mark.parametrize("case", REFUSED)
def test_others_are_refused_before_any_route_sees_them(case):
    headers, method, expected = REFUSED[case]

    async def never(scope, receive, send):
        pytest.fail("it came through")

    status, heads, body = asked(headers, method, app=never)
    assert status == expected
    assert heads["content-type"] == "text/plain; charset=utf-8"
    assert body.endswith("\n")
    assert heads["content-security-policy"] == HEADERS["Content-Security-Policy"]


def test_the_printed_address_gives_the_cookie_and_hides_the_token():
    status, heads, _ = asked([("host", HOST)], path="/", query=f"token={TOKEN}")
    assert (status, heads["location"]) == (303, "/")
    assert heads["set-cookie"] == f"transom-4711={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    assert asked([("host", HOST), ("cookie", f"other=1; transom-4711={TOKEN}")])[0] == 200
    assert asked([("host", HOST)], path="/", query="token=guess")[0] == 401
    assert asked([("host", HOST)], path="/api/state", query=f"token={TOKEN}")[0] == 401
    assert asked([("host", "evil.example")], path="/", query=f"token={TOKEN}")[0] == 421


def test_a_body_without_a_length_ends_at_the_limit():
    heads = [*OURS, ("content-type", "application/json; charset=utf-8")]
    piece = bytes(2**18)
    assert asked(heads, "POST", pieces=[piece] * 4)[::2] == (200, str(LONGEST_BODY))
    assert asked(heads, "POST", pieces=[piece] * 5)[::2] == (413, f"a body may have {LONGEST_BODY} bytes\n")


def test_a_body_that_never_ends_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.01)
    heads = [*OURS, ("content-type", "application/json")]
    assert asked(heads, "POST", pause=1.0)[::2] == (408, "a body comes within 0 seconds\n")


def test_web_sockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(Gate(echo, [HOST], TOKEN)({"type": "websocket"}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "there are no web sockets here"}]


def test_every_start_has_its_own_token():
    first, second = (Gate(echo, [HOST]).token for _ in range(2))
    assert first != second
    assert len(first) >= 32
