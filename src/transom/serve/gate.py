"""The gate before every route. A page on this machine is not safe for being on this machine: any site a person visits
can send requests here, so each one shows that it comes from our own page, and none may be large."""

import re
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from transom.serve import limits
from transom.serve.limits import Refusal

Scope = dict[str, Any]
Message = dict[str, Any]
Heads = dict[str, list[str]]

METHODS = {"GET", "HEAD", "POST"}
SAME_SITE = {"same-origin", "none"}  # none: typed, or opened from a terminal
LENGTH = re.compile(r"[0-9]{1,18}")  # isdigit() lets ² through, and int() refuses thousands of digits
HEADERS = {
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


class Gate:
    """Lets a request through to the app if it names us as its host, comes from our own page, and knows the token.

    The app gets a request whole: its body has been read here, and is within its limit. How long that may take is up to
    the connection. Written against ASGI itself: what wraps requests more comfortably hides when a client has gone.

    methods   the methods of a path; none where there is nothing
    closing   whether the server is about to end
    """

    def __init__(
        self,
        app: Any,
        hosts: list[str],
        token: str | None = None,
        methods: Callable[[Scope], set[str]] = lambda scope: METHODS,
        closing: Callable[[], bool] = lambda: False,
    ) -> None:
        self.app, self.hosts, self.methods, self.closing = app, hosts, methods, closing
        self.token = token or secrets.token_urlsafe(24)
        # Cookies do not know ports: each server has its own name for its own.
        self.cookie = f"transom-{hosts[0].rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "there are no web sockets here"})
            return
        guarded = Guarded(send)
        refusal = self.refusal(scope)
        body = refusal or await read_body(receive)
        if isinstance(body, Refusal):
            await answer(guarded, body)
        elif body is not None:
            await self.app(scope, WholeBody(body, receive), guarded)

    def refusal(self, scope: Scope) -> Refusal | None:
        """What speaks against a request, by the first check that it fails; None where nothing does."""
        heads = headers_of(scope)
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
        return next(filter(None, (check(scope, heads) for check in checks)), None)

    def check_head(self, scope: Scope, heads: Heads) -> Refusal | None:
        if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) + 1 > limits.LONGEST_TARGET:
            return limits.TARGET_TOO_LONG
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(scope["headers"]) > limits.MOST_HEADERS or size > limits.LONGEST_HEAD:
            return limits.HEAD_TOO_LARGE
        return None

    def check_host(self, scope: Scope, heads: Heads) -> Refusal | None:
        ours = len(heads.get("host", [])) == 1 and heads["host"][0] in self.hosts
        return None if ours else limits.OTHER_HOST

    def check_site(self, scope: Scope, heads: Heads) -> Refusal | None:
        ours = {f"http://{host}" for host in self.hosts}
        if any(origin not in ours for origin in heads.get("origin", [])):
            return limits.OTHER_SITE
        if any(site not in SAME_SITE for site in heads.get("sec-fetch-site", [])):
            return limits.OTHER_SITE
        return None

    def check_token(self, scope: Scope, heads: Heads) -> Refusal | None:
        """The page's own requests have a cookie; the first visit has the token in its address, and gets the cookie."""
        if self.is_first_visit(scope):
            return Refusal(303, "", {"Location": "/", "Set-Cookie": self.set_cookie()})
        given = [word.removeprefix("Bearer ") for word in heads.get("authorization", [])]
        given += cookies(heads.get("cookie", []), self.cookie)
        return None if any(map(self.is_token, given)) else limits.NO_TOKEN

    def check_open(self, scope: Scope, heads: Heads) -> Refusal | None:
        return limits.SHUTTING_DOWN if self.closing() else None

    def check_method(self, scope: Scope, heads: Heads) -> Refusal | None:
        allowed = self.methods(scope)
        if not allowed:
            return limits.NOT_FOUND
        return None if scope["method"] in allowed else limits.method_not_allowed(allowed)

    def check_type(self, scope: Scope, heads: Heads) -> Refusal | None:
        kinds = [kind.partition(";")[0].strip().lower() for kind in heads.get("content-type", [])]
        return limits.NOT_JSON if scope["method"] == "POST" and kinds != ["application/json"] else None

    def check_query(self, scope: Scope, heads: Heads) -> Refusal | None:
        return limits.TOO_MANY_FIELDS if scope["query_string"].count(b"&") >= limits.MOST_FIELDS else None

    def check_length(self, scope: Scope, heads: Heads) -> Refusal | None:
        length = heads.get("content-length", ["0"])
        if len(length) != 1 or not LENGTH.fullmatch(length[0]):
            return limits.BAD_LENGTH
        return limits.BODY_TOO_LARGE if int(length[0]) > limits.LONGEST_BODY else None

    def is_first_visit(self, scope: Scope) -> bool:
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        found = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(found) == 1 and self.is_token(found[0])

    def is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())

    def set_cookie(self) -> str:
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"


async def read_body(receive: Any) -> bytes | Refusal | None:
    """A request's body; a refusal where it is too large, None where the client went before its end."""
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


class WholeBody:
    """What an app receives: the body in one message, and later that the client has gone."""

    def __init__(self, body: bytes, receive: Any) -> None:
        self.body: bytes | None = body
        self.receive = receive

    async def __call__(self) -> Message:
        if self.body is None:
            return await self.receive()
        body, self.body = self.body, None
        return {"type": "http.request", "body": body, "more_body": False}


class Guarded:
    """A response, with the headers that tell a browser to run and load nothing but our own."""

    def __init__(self, send: Any) -> None:
        self.send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            given = list(message.get("headers", []))
            named = {name for name, _ in given}
            message = message | {"headers": given + [one for one in ours if one[0] not in named]}
        await self.send(message)


def refusal_body(refusal: Refusal) -> bytes:
    return f"{refusal.reason}\n".encode() if refusal.reason else b""


def refusal_headers(refusal: Refusal) -> dict[str, str]:
    length = str(len(refusal_body(refusal)))
    heads = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": length, "Cache-Control": "no-store"}
    return heads | refusal.headers


async def answer(send: Any, refusal: Refusal) -> None:
    """A refusal in plain text."""
    pairs = [(name.lower().encode(), value.encode()) for name, value in refusal_headers(refusal).items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": refusal_body(refusal)})


def headers_of(scope: Scope) -> Heads:
    found: Heads = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def cookies(headers: list[str], name: str) -> list[str]:
    """What the cookies of a request hold under a name."""
    found = []
    for header in headers:
        try:
            jar = SimpleCookie(header)
        except CookieError:
            continue
        if name in jar:
            found.append(jar[name].value)
    return found
