"""The guard before every route: checks host, origin, token and size of each request.

Any web site that a person visits can send requests to this machine, so each request must prove that it comes from our
own page, and none may be large.
"""

import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transom.serve import limits
from transom.serve.limits import Refusal

METHODS = {"GET", "HEAD", "POST"}
SAME_SITE = {"same-origin", "none"}  # none: the address was typed, or opened from a terminal
LENGTH = re.compile(r"[0-9]{1,18}")  # isdigit() accepts ², and int() refuses thousands of digits
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class RequestGuard:
    """Lets a request through to the app if it names us as its host, comes from our own page, and has the token.

    The app gets a complete request: its body has been read here and is within the limit. The connection sets the
    deadline for that. This is plain ASGI, because a comfortable wrapper would hide that a client has disconnected.

    methods   returns the methods of a path; none if there is no such path
    closing   returns whether the server is shutting down
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: list[str],
        token: str | None = None,
        methods: Callable[[Scope], set[str]] = lambda scope: METHODS,
        closing: Callable[[], bool] = lambda: False,
    ) -> None:
        self.app, self.hosts, self.methods, self.closing = app, hosts, methods, closing
        self.token = token or secrets.token_urlsafe(24)
        # Cookies are shared between ports, so the name of the cookie has the port in it.
        self.cookie = f"transom-{hosts[0].rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "there are no web sockets here"})
            return
        send = SecureSend(send)
        body = self.refusal(scope) or await read_body(receive)
        if isinstance(body, Refusal):
            await send_refusal(send, body)
        elif body is not None:
            await self.app(scope, BodyReceive(body, receive), send)

    def refusal(self, scope: Scope) -> Refusal | None:
        """The refusal of the first check that fails; None if all pass."""
        headers = Headers(scope=scope)
        checks = (
            self.check_head,
            self.check_host,
            self.check_site,
            self.check_token,
            self.check_open,
            self.check_method,
            self.check_type,
            self.check_query,
            self.check_length,
        )
        return next(filter(None, (check(scope, headers) for check in checks)), None)

    def check_head(self, scope: Scope, headers: Headers) -> Refusal | None:
        if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) + 1 > limits.LONGEST_TARGET:
            return limits.TARGET_TOO_LONG
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(scope["headers"]) > limits.MOST_HEADERS or size > limits.LONGEST_HEAD:
            return limits.HEAD_TOO_LARGE
        return None

    def check_host(self, scope: Scope, headers: Headers) -> Refusal | None:
        hosts = headers.getlist("host")
        return None if len(hosts) == 1 and hosts[0] in self.hosts else limits.OTHER_HOST

    def check_site(self, scope: Scope, headers: Headers) -> Refusal | None:
        ours = {f"http://{host}" for host in self.hosts}
        if any(origin not in ours for origin in headers.getlist("origin")):
            return limits.OTHER_SITE
        if any(site not in SAME_SITE for site in headers.getlist("sec-fetch-site")):
            return limits.OTHER_SITE
        return None

    def check_token(self, scope: Scope, headers: Headers) -> Refusal | None:
        """The first visit has the token in its address and gets a cookie; all later requests have the cookie."""
        if self.is_first_visit(scope):
            cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return Refusal(303, "", {"Location": "/", "Set-Cookie": cookie})
        tokens = [value.removeprefix("Bearer ") for value in headers.getlist("authorization")]
        tokens += cookie_values(headers.getlist("cookie"), self.cookie)
        return None if any(map(self.is_token, tokens)) else limits.NO_TOKEN

    def check_open(self, scope: Scope, headers: Headers) -> Refusal | None:
        return limits.SHUTTING_DOWN if self.closing() else None

    def check_method(self, scope: Scope, headers: Headers) -> Refusal | None:
        allowed = self.methods(scope)
        if not allowed:
            return limits.NOT_FOUND
        return None if scope["method"] in allowed else limits.method_not_allowed(allowed)

    def check_type(self, scope: Scope, headers: Headers) -> Refusal | None:
        kinds = [kind.partition(";")[0].strip().lower() for kind in headers.getlist("content-type")]
        return limits.NOT_JSON if scope["method"] == "POST" and kinds != ["application/json"] else None

    def check_query(self, scope: Scope, headers: Headers) -> Refusal | None:
        return limits.TOO_MANY_FIELDS if scope["query_string"].count(b"&") >= limits.MOST_FIELDS else None

    def check_length(self, scope: Scope, headers: Headers) -> Refusal | None:
        length = headers.getlist("content-length") or ["0"]
        if len(length) != 1 or not LENGTH.fullmatch(length[0]):
            return limits.BAD_LENGTH
        return limits.BODY_TOO_LARGE if int(length[0]) > limits.LONGEST_BODY else None

    def is_first_visit(self, scope: Scope) -> bool:
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(tokens) == 1 and self.is_token(tokens[0])

    def is_token(self, value: str) -> bool:
        return secrets.compare_digest(value.encode(), self.token.encode())


async def read_body(receive: Receive) -> bytes | Refusal | None:
    """The body of a request; a refusal if it is too large, None if the client disconnected before its end."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limits.LONGEST_BODY:
            return limits.BODY_TOO_LARGE
    return bytes(body)


class BodyReceive:
    """The `receive` of an app: the body in one message, and later the client's disconnect."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.body: bytes | None = body
        self.receive = receive

    async def __call__(self) -> Message:
        if self.body is None:
            return await self.receive()
        body, self.body = self.body, None
        return {"type": "http.request", "body": body, "more_body": False}


class SecureSend:
    """The `send` of an app, which adds the headers that let a browser run and load nothing but our own."""

    def __init__(self, send: Send) -> None:
        self.send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            names = {name for name, _ in headers}
            headers += [pair for pair in encode_headers(SECURITY_HEADERS) if pair[0] not in names]
            message = {**message, "headers": headers}
        await self.send(message)


def encode_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def refusal_body(refusal: Refusal) -> bytes:
    return f"{refusal.reason}\n".encode() if refusal.reason else b""


def refusal_headers(refusal: Refusal) -> dict[str, str]:
    length = str(len(refusal_body(refusal)))
    headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": length, "Cache-Control": "no-store"}
    return headers | refusal.headers


async def send_refusal(send: Send, refusal: Refusal) -> None:
    """Answer with a refusal in plain text."""
    headers = encode_headers(refusal_headers(refusal))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal_body(refusal)})


def cookie_values(headers: list[str], name: str) -> list[str]:
    """The values of all cookies of a name; a malformed header has none."""
    values = []
    for header in headers:
        with suppress(CookieError, KeyError):
            values.append(SimpleCookie(header)[name].value)
    return values
