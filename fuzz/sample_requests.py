"""Requests for the local page: every route with fields that fit, each then wrong in some ways, or in none."""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec

from transom.serve import request_fields
from transom.serve.routes import ROUTES, Route
from transom.show.views import VIEWS

HOST, TOKEN = "127.0.0.1:4711", "the-token-of-this-campaign"
LAYERS = ["blocks.0.attention", "blocks.1.attention", "encoder.blocks.0.attention", "decoder.blocks.0.cross", ""]
SLOW = ("/page", "/trace")  # worked out anew for each request
ASKED: dict[str, type[msgspec.Struct]] = {  # the fields of a route, by the last part of its path
    "runs": request_fields.RunRequest,
    "writing": request_fields.RunRequest,
    "knock_out": request_fields.KnockOutRequest,
    "beside": request_fields.CompareRequest,
    "page": request_fields.PageRequest,
    "overview": request_fields.TileRequest,
    "tile": request_fields.TileRequest,
    "weights": request_fields.WeightsRequest,
    "strongest": request_fields.TopEdgesRequest,
    "effects": request_fields.EffectsRequest,
    "{view}": request_fields.PictureRequest,
    "frames": request_fields.FramesRequest,
}
TEXTS = [
    "the cat sat",
    "a dog",
    "",
    " ",
    "\x00",
    "\u202eabc",
    "🐱" * 7,
    "é\u0301" * 40,
    "the " * 60,
    "\r\n",
    "x" * 20_001,
]
WORDS = [
    "",
    "-1",
    "1e9",
    "NaN",
    "9" * 400,
    "true",
    "null",
    "[]",
    "\x00",
    "ü💥",
    "01",
    "1.0",
    " 1",
    "１",
    "'\"<&>",
    "../..",
]
JSONS: list[Any] = [None, True, -1, 2**63, 2**200, 1e308, -0.0, "", "1", "\ud800", [], {}, [[[]]], {"a": {"b": 1}}, 0.5]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "X"]
TYPES = ["application/json", "Application/JSON; charset=utf-8", "text/plain", "", "multipart/form-data; boundary=x"]
PATHS = [
    "/",
    "/index.html",
    "/arrows_view.js",
    "/nothing",
    "//",
    "/api",
    "/api/",
    "/%00",
    "/../../etc/passwd",
    "*",
    "/api/runs/",
]
PATHS += [
    "/api/state/",
    "/api/runs/1/" + "9" * 3000 + "/tile",
    "/api/runs/%ff/heads",
    "http://127.0.0.1:4711/api/state",
]


@dataclass
class Request:
    """One request; `trusted` where it comes with the right token."""

    method: str
    path: str  # percent-encoded
    query: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    trusted: bool = True

    def to_bytes(self) -> bytes:
        """The request as it goes over the wire."""
        target = f"{self.path}?{self.query}" if self.query else self.path
        lines = [f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1", "replace") + self.body


def make_request(rng: Random) -> Request:
    """A request for some route, with up to three things wrong."""
    route = rng.choice(ROUTES)
    if route.path.endswith(SLOW) and rng.random() < 0.8:
        route = rng.choice(ROUTES)
    kind = ASKED.get(route.path.rpartition("/")[2])
    given = make_fields(rng, kind) if kind else {}
    request = Request(route.method, make_path(rng, route), headers=[("Host", HOST)])
    if rng.random() < 0.04:
        request.path = rng.choice(PATHS)
    if route.method == "POST":
        request.body = make_body(rng, given)
        request.headers.append(("Content-Type", "application/json" if rng.random() < 0.9 else rng.choice(TYPES)))
    else:
        request.query = make_query(rng, given)
        if rng.random() < 0.03:
            request.body = rng.randbytes(rng.randrange(100))
    add_token(rng, request)
    for _ in range(rng.choice([0, 0, 0, 0, 0, 0, 1, 1, 2])):
        rng.choice([change_method, change_host, add_origin, add_headers, add_if_none_match])(rng, request)
    if request.body or rng.random() < 0.1:
        length = str(len(request.body)) if rng.random() < 0.95 else rng.choice([*WORDS, "²", str(2**21), "5, 5"])
        request.headers.append(("Content-Length", length))
    return request


def make_path(rng: Random, route: Route) -> str:
    """The path of a route with its places filled, mostly by what is there."""

    def some(fitting: list[str], wild: list[str]) -> str:
        return quote(rng.choice(fitting) if rng.random() < 0.9 else rng.choice(wild), safe="")

    path = route.path.replace("{run}", some(["1", "2", "3", "4"], [*WORDS, "5", "99", "x" * 500]))
    numbers = [str(number) for number in range(4)]
    path = path.replace("{attention:int}", some(numbers, ["4", "99", "-1", "9" * 19, "9" * 3000, "1.5", "²"]))
    path = path.replace("{number:int}", some(["1", "2"], ["0", "18", "9" * 50, "-1"]))
    return path.replace("{view}", some([*VIEWS], WORDS))


def make_fields(rng: Random, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Fields of a kind of request, by their types; those that may be left out often are."""
    info: Any = msgspec.inspect.type_info(kind)
    return {one.name: make_value(rng, one.name, one.type) for one in info.fields if one.required or rng.random() < 0.4}


def make_value(rng: Random, name: str, kind: Any) -> Any:
    match kind:
        case msgspec.inspect.IntType():
            least, most = kind.ge or 0, kind.le or 2**24
            return rng.choice([least, least, least + 1, least + 1, least + 2, min(least + 7, most), most])
        case msgspec.inspect.BoolType():
            return rng.random() < 0.5
        case msgspec.inspect.LiteralType():
            return rng.choice(kind.values)
        case msgspec.inspect.UnionType():
            return make_value(rng, name, rng.choice(kind.types))
        case msgspec.inspect.NoneType():
            return None
        case msgspec.inspect.ListType():
            return [make_value(rng, name, kind.item_type) for _ in range(rng.choice([0, 1, 1, 1, 2, 3, 65]))]
        case msgspec.inspect.StructType():
            return make_fields(rng, kind.cls)
        case _:
            return rng.choice(choices(name))


def choices(name: str) -> list[str]:
    """What a field of text may hold."""
    names = {"layer": LAYERS, "name": ["layer.0", *WORDS], "other": ["1", "2", "3", "4", "5"], "text": TEXTS}
    names |= {"target": TEXTS, "against": ["1", "2", "3", "", "x"], "cell": ["1,1", "0,0", "99999,9", "a"]}
    return names.get(name, ["", *WORDS])


def make_query(rng: Random, given: dict[str, Any]) -> str:
    spoken = {"True": "true", "False": "false", "None": ""}
    pairs = [(name, spoken.get(str(value), str(value))) for name, value in given.items()]
    for _ in range(rng.choice([0, 0, 0, 0, 1, 2])):
        match rng.randrange(5):
            case 0 if pairs:
                place = rng.randrange(len(pairs))
                pairs[place] = (pairs[place][0], rng.choice(WORDS))
            case 1 if pairs:
                pairs.append(rng.choice(pairs))
            case 2:
                pairs.append((rng.choice(["levle", "", "token", "head", "💥", "x" * 400]), rng.choice(WORDS)))
            case 3:
                pairs += [("a", "1")] * rng.choice([1, 20, 21, 2000])
            case _:
                return rng.choice(["&", "=", "%", "%zz=%ff", "head=%ED%A0%80", "&&&;;;", "head=1;level=2", "?" * 50])
    return "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)


def make_body(rng: Random, given: dict[str, Any]) -> bytes:
    """JSON of these fields; now and then of others, or no JSON."""
    change = rng.randrange(16)
    if change == 0 and given:
        given = {**given, rng.choice([*given]): rng.choice(JSONS)}
    elif change == 1:
        given = {**given, rng.choice(["", "txt", "💥", "__class__"]): rng.choice(JSONS)}
    elif change == 2 and given:
        given = dict(rng.sample(sorted(given.items(), key=str), len(given) - 1))
    body = json.dumps(rng.choice(JSONS) if change == 3 else given).encode()
    if change == 4:
        deep = rng.choice([10, 1000, 200_000])
        body = b'{"text": ' + b"[" * deep + b"]" * (deep * rng.randrange(2)) + b"}"
    elif change == 5:
        body = body[:-1] + b", " + body[1:]  # every key twice
    elif change == 6:
        place = rng.randrange(len(body))
        body = body[:place] + rng.randbytes(rng.randrange(4)) + body[place + rng.randrange(3) :]
    elif change == 7:
        body = rng.choice(
            [b"", b"\xef\xbb\xbf" + body, body + b"}", b"NaN", b'{"text": NaN}', b" " * (2**20 + 1), b"\x00"]
        )
    return body


def add_token(rng: Random, request: Request) -> None:
    draw = rng.random()
    cookie = f"transom-{HOST.rpartition(':')[2]}"
    right = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", TOKEN), ("Cookie", f"a=b; {cookie}={TOKEN}")]
    wrong = ["", "Bearer", "Bearer x", "Bearer \xff", f"Bearer {TOKEN}x", "Basic eA==", f"Bearer {TOKEN[:-1]}"]
    if draw < 0.85:
        request.headers.append(rng.choice(right))
    elif draw < 0.88:
        request.path, request.query = "/", f"token={TOKEN}" + rng.choice(["", "&a=1", "&a=1" * 30])
    else:
        request.trusted = False
        if draw < 0.92:
            request.headers.append(("Authorization", rng.choice(wrong)))
        elif draw < 0.96:
            crumb = rng.choice([f"{cookie}=x", "\x01;;=", f"{cookie}1={TOKEN}", f'{cookie}="\\{TOKEN}', "=" * 900])
            request.headers.append(("Cookie", crumb))
        elif draw < 0.98:
            request.path, request.query = "/", rng.choice(["token=", "token=x", "a=1&" * 30, f"token={TOKEN}&token=x"])


def change_method(rng: Random, request: Request) -> None:
    request.method = rng.choice(METHODS)


def change_host(rng: Random, request: Request) -> None:
    hosts = ["evil.example", "", "127.0.0.1", "localhost:4711", f"{HOST} ", f"{HOST},{HOST}", "\xff", HOST.upper()]
    request.headers[0] = ("Host", rng.choice(hosts))
    if rng.random() < 0.2:
        request.headers.append(("Host", HOST))


def add_origin(rng: Random, request: Request) -> None:
    origins = [f"http://{HOST}", "null", "https://evil.example", "", f"http://{HOST}/", "\xff"]
    request.headers.append(("Origin", rng.choice(origins)))
    if rng.random() < 0.5:
        request.headers.append(("Sec-Fetch-Site", rng.choice(["same-origin", "none", "cross-site", "same-site", "x"])))


def add_headers(rng: Random, request: Request) -> None:
    count = rng.choice([1, 5, 50, 70, 500])
    request.headers += [(f"X-{number}", "x" * rng.choice([0, 1, 300])) for number in range(count)]


def add_if_none_match(rng: Random, request: Request) -> None:
    request.headers.append(("If-None-Match", rng.choice(['"x"', "*", "", "\xff"])))
