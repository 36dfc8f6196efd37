"""Bytes that are nearly HTTP: good requests, pipelined, in pieces, with odd headers and damaged bytes."""

from dataclasses import dataclass
from random import Random

from fuzz.sample_requests import Request, make_request

HEADERS = [
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding:",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Content-Length: 5",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: +5",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999999",
    "Content-Length: 0x5",
    "Expect: 100-continue",
    "Expect: x",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "Connection: close",
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    "Connection: keep-alive, x",
    "Host: 127.0.0.1:4711",
    "Host:",
    " folded: line",
    "X : 1",
    "X",
    ": x",
    "X: \x00",
    "X: \x80\xff",
    "Trailer: X",
    "TE: trailers",
    "Accept-Encoding: gzip",
]
SIZES = [
    "5",
    "0",
    "00000005",
    "-5",
    "ffffffffffffffff",
    "fffffffffffffffffffff",
    "5;a=b",
    "5 ",
    " 5",
    "0x5",
    "zz",
    "",
    "5\r",
]
LINES = [
    "GET / HTTP/1.1",
    "GET / HTTP/1.0",
    "GET / HTTP/2.0",
    "GET / HTTP/9.9",
    "GET /",
    "GET  /  HTTP/1.1",
    "get / http/1.1",
    "",
    "\x00",
    "PRI * HTTP/2.0\r\n\r\nSM",
    "CONNECT a:1 HTTP/1.1",
    "OPTIONS * HTTP/1.1",
    "GET http://127.0.0.1:4711/ HTTP/1.1",
    "\x16\x03\x01\x02",
    "GET /" + "a" * 20_000 + " HTTP/1.1",
    "GET /\xff HTTP/1.1",
    "GET / HTTP/1.1 x",
    "GET\t/\tHTTP/1.1",
    "A" * 300,
]


@dataclass
class Conversation:
    """What a client sends, piece by piece; `trusted` where some request of it has the token."""

    pieces: list[bytes]
    trusted: bool


def make_conversation(rng: Random) -> Conversation:
    """Some requests after each other, most of them damaged."""
    requests = [make_request(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    whole = b"".join(write_request(rng, request) for request in requests)
    if rng.random() < 0.3:
        whole = damage(rng, whole)
    return Conversation(cut(rng, whole), any(request.trusted for request in requests))


def write_request(rng: Random, request: Request) -> bytes:
    """One request, perhaps with a request line, headers or chunks that no client would send."""
    change = rng.randrange(12)
    if change < 3:
        for line in rng.sample(HEADERS, rng.randrange(1, 3)):
            name, _, value = line.partition(": ")
            request.headers.append((name, value))
    elif change == 3:
        request.headers = [one for one in request.headers if one[0] != "Content-Length"]
        request.headers.append(("Transfer-Encoding", "chunked"))
        request.body = write_chunks(rng, request.body)
    written = request.to_bytes()
    if change == 4:
        written = rng.choice(LINES).encode("latin-1") + written[written.index(b"\r\n") :]
    elif change == 5:
        written = written.replace(b"\r\n", rng.choice([b"\n", b"\r", b"\r\r\n", b"\n\n"]))
    elif change == 6:
        written = rng.choice([b"\r\n", b"\n", b"\r\n\r\n", b"\x00"]) + written
    return written


def write_chunks(rng: Random, body: bytes) -> bytes:
    """A body in chunks; now and then their sizes are wrong."""
    pieces = cut(rng, body)
    sizes = [rng.choice(SIZES) if rng.random() < 0.1 else f"{len(piece):x}" for piece in pieces]
    chunks = [size.encode() + b"\r\n" + piece + b"\r\n" for size, piece in zip(sizes, pieces, strict=True) if piece]
    return b"".join(chunks) + rng.choice([b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nX: 1\r\n\r\n", b"0\r\n", b"", b"x"])


def damage(rng: Random, whole: bytes) -> bytes:
    """Flip, cut out, double or end early."""
    place, length = rng.randrange(len(whole)), rng.randrange(1, 30)
    match rng.randrange(4):
        case 0:
            return whole[:place] + bytes([whole[place] ^ (1 << rng.randrange(8))]) + whole[place + 1 :]
        case 1:
            return whole[:place] + whole[place + length :]
        case 2:
            return whole[:place] + whole[place : place + length] * rng.choice([2, 3, 500]) + whole[place + length :]
        case _:
            return whole[:place]


def cut(rng: Random, whole: bytes) -> list[bytes]:
    """The same bytes in up to five pieces."""
    places = sorted(rng.randrange(len(whole) + 1) for _ in range(rng.choice([0, 0, 1, 2, 4])))
    return [whole[first:last] for first, last in zip([0, *places], [*places, len(whole)], strict=True)]
