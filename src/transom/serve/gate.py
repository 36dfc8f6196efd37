"""The gate before every route. A page on this machine is not safe for being on this machine: any site a person visits
can send requests here, so each one shows that it comes from our own page, and none may be large or slow."""

import asyncio
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = dict[str, Any]
Message = dict[str, Any]

LONGEST_BODY = 2**20  # bytes
BODY_SECONDS = 10.0
METHODS = {"GET", "HEAD", "POST"}
SAME_SITE = {"same-origin", "none"}  # none: typed, or opened from a terminal
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


@dataclass(frozen=True)
class Refusal:
    """Why a request is not let in."""

    status: int
    reason: str
    headers: dict[str, str] = field(default_factory=dict)


class TooMuch(Exception):
    """A body that is longer, or slower, than any of ours."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class Gate:
    """Lets a request through to the app if it names us as its host, comes from our own page, and knows the token.

    Written against ASGI itself: what wraps requests more comfortably hides when a client has gone.
    """

    def __init__(self, app: Any, hosts: list[str], token: str | None = None) -> None:
        self.app, self.hosts = app, hosts
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
        if self.comes_with_token(scope):
            await answer(guarded, Refusal(303, "", {"Location": "/", "Set-Cookie": self.set_cookie()}))
        elif refusal := self.refusal(scope):
            await answer(guarded, refusal)
        else:
            try:
                await self.app(scope, Bounded(receive), guarded)
            except TooMuch as error:
                if not guarded.started:
                    await answer(guarded, error.refusal)

    def refusal(self, scope: Scope) -> Refusal | None:
        """What speaks against a request; None where nothing does."""
        heads = headers_of(scope)
        for check in (self.wrong_way, self.wrong_site, self.wrong_body, self.no_token):
            if found := check(scope, heads):
                return found
        return None

    def wrong_way(self, scope: Scope, heads: dict[str, list[str]]) -> Refusal | None:
        if scope["method"] not in METHODS:
            return Refusal(405, "use GET or POST", {"Allow": ", ".join(sorted(METHODS))})
        if len(heads.get("host", [])) != 1 or heads["host"][0] not in self.hosts:
            return Refusal(421, "this server has another name; open the address that transom serve printed")
        return None

    def wrong_site(self, scope: Scope, heads: dict[str, list[str]]) -> Refusal | None:
        ours = {f"http://{host}" for host in self.hosts}
        if any(origin not in ours for origin in heads.get("origin", [])):
            return Refusal(403, "this request comes from another site")
        if any(site not in SAME_SITE for site in heads.get("sec-fetch-site", [])):
            return Refusal(403, "this request comes from another site")
        return None

    def wrong_body(self, scope: Scope, heads: dict[str, list[str]]) -> Refusal | None:
        length = heads.get("content-length", ["0"])
        if len(length) != 1 or not length[0].isdigit():
            return Refusal(400, "one Content-Length, in digits")
        if int(length[0]) > LONGEST_BODY:
            return Refusal(413, f"a body may have {LONGEST_BODY} bytes")
        if scope["method"] == "POST":
            kinds = [kind.partition(";")[0].strip().lower() for kind in heads.get("content-type", [])]
            if kinds != ["application/json"]:
                return Refusal(415, "send Content-Type: application/json")
        return None

    def no_token(self, scope: Scope, heads: dict[str, list[str]]) -> Refusal | None:
        given = [word.removeprefix("Bearer ") for word in heads.get("authorization", [])]
        given += cookies(heads.get("cookie", []), self.cookie)
        if any(secrets.compare_digest(one.encode(), self.token.encode()) for one in given):
            return None
        return Refusal(401, "open the address that transom serve printed: it holds the key to this page")

    def comes_with_token(self, scope: Scope) -> bool:
        """Whether this is the first visit, by the address that was printed: the page's own requests have a cookie."""
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        heads = headers_of(scope)
        if self.wrong_way(scope, heads) or self.wrong_site(scope, heads):
            return False
        found = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=20).get("token", [])
        return len(found) == 1 and secrets.compare_digest(found[0].encode(), self.token.encode())

    def set_cookie(self) -> str:
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"


class Bounded:
    """A request's body, as far as it is neither too long nor too slow."""

    def __init__(self, receive: Any) -> None:
        self.receive, self.came, self.complete = receive, 0, False

    async def __call__(self) -> Message:
        if self.complete:  # what comes now is that the client has gone, and that may take as long as it likes
            return await self.receive()
        try:
            message = await asyncio.wait_for(self.receive(), BODY_SECONDS)
        except TimeoutError:
            raise TooMuch(Refusal(408, f"a body comes within {BODY_SECONDS:.0f} seconds")) from None
        if message["type"] == "http.request":
            self.came += len(message.get("body", b""))
            self.complete = not message.get("more_body", False)
            if self.came > LONGEST_BODY:
                raise TooMuch(Refusal(413, f"a body may have {LONGEST_BODY} bytes"))
        return message


class Guarded:
    """A response, with the headers that tell a browser to run and load nothing but our own."""

    def __init__(self, send: Any) -> None:
        self.send, self.started = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            ours = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            given = list(message.get("headers", []))
            named = {name for name, _ in given}
            message = message | {"headers": given + [one for one in ours if one[0] not in named]}
        await self.send(message)


async def answer(send: Any, refusal: Refusal) -> None:
    """A refusal in plain text."""
    body = f"{refusal.reason}\n".encode() if refusal.reason else b""
    heads = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body)), "Cache-Control": "no-store"}
    pairs = [(name.lower().encode(), value.encode()) for name, value in (heads | refusal.headers).items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def headers_of(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
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
