"""The guard: what is refused before any route, and the headers of every answer."""

import asyncio

import pytest

from transom.serve import limits
from transom.serve.limits import LONGEST_BODY
from transom.serve.request_guard import METHODS, SECURITY_HEADERS, RequestGuard

HOST = "127.0.0.1:4711"
TOKEN = "a-token-of-this-start"
OURS = [("host", HOST), ("authorization", f"Bearer {TOKEN}")]


async def echo(scope, receive, send):
    """An app that answers with the length of the body."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


def methods(scope):
    """A path that is only read, one that is only written, one that does not exist, and all others."""
    return {"/read": {"GET", "HEAD"}, "/written": {"POST"}, "/nothing": set()}.get(scope["path"], METHODS)


def request(headers, method="GET", path="/api/state", query="", pieces=(b"",), app=echo):
    """Status, headers and body of the answer through the guard."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }
    sent, pieces = [], [*pieces]

    async def receive():
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message):
        sent.append(message)

    asyncio.run(RequestGuard(app, [HOST, "localhost:4711"], TOKEN, methods)(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"].decode()


def test_our_own_page_is_let_in():
    status, headers, _ = request([*OURS, ("origin", f"http://{HOST}"), ("sec-fetch-site", "same-origin")])
    assert status == 200
    assert {name.lower(): value for name, value in SECURITY_HEADERS.items()}.items() <= headers.items()
    assert "access-control-allow-origin" not in headers


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
    "a length in other digits": ([*OURS, ("content-length", "²")], "GET", 400),
    "a length of thousands of digits": ([*OURS, ("content-length", "9" * 5000)], "GET", 400),
    "two lengths": ([*OURS, ("content-length", "1"), ("content-length", "1")], "GET", 400),
    "many headers": ([*OURS, *[("x", "")] * 63], "GET", 431),
    "long headers": ([*OURS, ("x", "x" * 2**14)], "GET", 431),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_requests_are_refused_before_any_route(case):
    headers, method, expected = REFUSED[case]

    async def never(scope, receive, send):
        pytest.fail("it passed the guard")

    status, headers, body = request(headers, method, app=never)
    assert status == expected
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert body.endswith("\n")
    assert headers["content-security-policy"] == SECURITY_HEADERS["Content-Security-Policy"]


def test_the_printed_address_gives_the_cookie_and_hides_the_token():
    status, headers, _ = request([("host", HOST)], path="/", query=f"token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    assert headers["set-cookie"] == f"transom-4711={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    assert request([("host", HOST), ("cookie", f"other=1; transom-4711={TOKEN}")])[0] == 200
    assert request([("host", HOST)], path="/", query="token=guess")[0] == 401
    assert request([("host", HOST)], path="/api/state", query=f"token={TOKEN}")[0] == 401
    assert request([("host", "evil.example")], path="/", query=f"token={TOKEN}")[0] == 421


def test_a_body_without_a_length_ends_at_the_limit():
    headers = [*OURS, ("content-type", "application/json; charset=utf-8")]
    piece = bytes(2**18)
    assert request(headers, "POST", pieces=[piece] * 4)[::2] == (200, str(LONGEST_BODY))
    assert request(headers, "POST", pieces=[piece] * 5)[::2] == (413, f"a body may have at most {LONGEST_BODY} bytes\n")


def test_a_request_is_checked_in_a_fixed_order():
    """A request that is wrong in every way, corrected step by step."""
    headers = [("host", "evil"), ("origin", "evil"), ("authorization", "evil"), ("content-length", "-1")]
    query = "&" * 20
    status = lambda method, path: request(headers, method, path, query)[0]  # noqa: E731
    assert request(headers, "PUT", "/nothing", "a" * limits.LONGEST_TARGET)[0] == 414
    assert status("PUT", "/nothing") == 421
    headers[0] = ("host", HOST)
    assert status("PUT", "/nothing") == 403
    headers[1] = ("origin", f"http://{HOST}")
    assert status("PUT", "/nothing") == 401
    headers[2] = OURS[1]
    assert status("PUT", "/nothing") == 404
    assert status("PUT", "/written") == 405
    assert status("POST", "/written") == 415
    headers.append(("content-type", "application/json"))
    assert status("POST", "/written") == 400
    assert request(headers, "POST", "/written", query)[2] == "a query may have at most 20 fields\n"
    query = "&" * 19
    assert request(headers, "POST", "/written", query)[2] == "send one Content-Length, in digits\n"
    headers[3] = ("content-length", str(LONGEST_BODY + 1))
    assert status("POST", "/written") == 413
    headers[3] = ("content-length", str(LONGEST_BODY))
    assert request(headers, "POST", "/written", query, [bytes(LONGEST_BODY), b"1"])[0] == 413
    assert request(headers, "POST", "/written", query)[0] == 200


def test_a_path_says_which_methods_it_has():
    status, headers, body = request(OURS, "POST", "/read")
    assert (status, headers["allow"], body) == (405, "GET, HEAD", "use GET or HEAD\n")
    status, headers, body = request(OURS, "GET", "/written")
    assert (status, headers["allow"], body) == (405, "POST", "use POST\n")
    assert request(OURS, "GET", "/nothing")[::2] == (404, "there is nothing at this address\n")


@pytest.mark.parametrize("fields", [21, 3000])
def test_many_query_fields_before_the_token_are_no_internal_error(fields):
    query = "&".join(["a=1"] * fields)
    assert request([OURS[0]], path="/", query=query)[0] == (401 if fields == 21 else 414)
    assert request([OURS[0]], path="/", query=f"{query[:99]}&token={TOKEN}")[0] == 303


def test_nobody_is_let_in_while_the_server_shuts_down():
    async def closing_request():
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b""}
        headers = [(name.encode(), value.encode()) for name, value in OURS]
        await RequestGuard(echo, [HOST], TOKEN, closing=lambda: True)(scope | {"headers": headers}, None, send)
        return sent

    start, body = asyncio.run(closing_request())
    assert (start["status"], body["body"]) == (503, b"the server is shutting down; start transom serve again\n")
    assert (b"retry-after", b"1") in start["headers"]


def test_a_client_that_disconnects_before_the_end_of_its_body_is_not_answered():
    async def never(scope, receive, send):
        pytest.fail("it passed the guard")

    async def gone():
        return {"type": "http.disconnect"}

    headers = [(name.encode(), value.encode()) for name, value in OURS]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}
    asyncio.run(RequestGuard(never, [HOST], TOKEN)(scope, gone, never))


def test_web_sockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(RequestGuard(echo, [HOST], TOKEN)({"type": "websocket"}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "there are no web sockets here"}]


def test_every_start_has_its_own_token():
    first, second = (RequestGuard(echo, [HOST]).token for _ in range(2))
    assert first != second
    assert len(first) >= 32
