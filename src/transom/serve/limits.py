"""Every limit of the server in one place, with the status that a request beyond it is answered with."""

from dataclasses import dataclass, field

LONGEST_TARGET = 4096  # bytes of path and query; an integer in a path so long is still one that Python reads
LONGEST_HEAD = 2**14  # bytes of a request line and its headers
MOST_HEADERS = 64
MOST_FIELDS = 20  # of a query
LONGEST_BODY = 2**20  # bytes
LONGEST_REQUEST = 2**24  # bytes on the wire: chunks have frames, and what follows a refusal is thrown away
REQUEST_SECONDS = 10.0  # from the first byte of a request to its last, head and body together
IDLE_SECONDS = 5.0  # without a byte, on a new connection or after a response
STALL_SECONDS = 30.0  # for a client that takes nothing of its response
MOST_CONNECTIONS = 512
MOST_STREAMS = 32  # of one route
LONGEST_QUEUE = 32  # jobs that wait for the model
LAST_SECONDS = 1  # for what is still running, once the end is asked for

RETRY = {"Retry-After": "1"}
STATUSES = {
    200: "an answer",
    303: "the first visit, by the address that was printed: its token becomes a cookie",
    304: "the browser has this answer already",
    400: "not HTTP, a Content-Length that is no number, too many query fields, a field or JSON that does not fit",
    401: "no token, or a wrong one",
    403: "Origin or Sec-Fetch-Site name another site",
    404: "no such path",
    405: "the path has another method, which `Allow` names",
    408: "head and body did not come whole in time",
    413: "the body is too large",
    414: "path and query are too long",
    415: "the body is said to be something else than JSON",
    421: "not one Host header, or it is not ours",
    429: "the queue is full, or too many streams are open; `Retry-After` says when to come again",
    431: "the headers are too long, or too many",
    499: "the client went first; nobody sees this one",
    500: "an internal error, told in one line; the log says which, and with `--debug` where",
    501: "a Transfer-Encoding other than chunked",
    503: "too many connections, or the server is ending",
}


@dataclass(frozen=True)
class Refusal:
    """Why a request is not let in."""

    status: int
    reason: str
    headers: dict[str, str] = field(default_factory=dict)


MALFORMED = Refusal(400, "this is not an HTTP request")
BAD_LENGTH = Refusal(400, "one Content-Length, in digits")
TOO_MANY_FIELDS = Refusal(400, f"a query may have {MOST_FIELDS} fields")
NO_TOKEN = Refusal(401, "open the address that transom serve printed: it holds the key to this page")
OTHER_SITE = Refusal(403, "this request comes from another site")
NOT_FOUND = Refusal(404, "there is nothing at this address")
TOO_SLOW = Refusal(408, f"a request comes whole within {REQUEST_SECONDS:.0f} seconds")
BODY_TOO_LARGE = Refusal(413, f"a body may have {LONGEST_BODY} bytes")
TARGET_TOO_LONG = Refusal(414, f"path and query may have {LONGEST_TARGET} bytes")
NOT_JSON = Refusal(415, "send Content-Type: application/json")
OTHER_HOST = Refusal(421, "this server has another name; open the address that transom serve printed")
HEAD_TOO_LARGE = Refusal(431, f"a request may have {MOST_HEADERS} headers and {LONGEST_HEAD} bytes of them")
UNKNOWN_ENCODING = Refusal(501, "send Transfer-Encoding: chunked, or none")
TOO_MANY_CONNECTIONS = Refusal(503, "too many connections are open; try again in a moment", RETRY)
SHUTTING_DOWN = Refusal(503, "the server is ending; start transom serve again", RETRY)


def method_not_allowed(allowed: set[str]) -> Refusal:
    return Refusal(405, f"use {' or '.join(sorted(allowed))}", {"Allow": ", ".join(sorted(allowed))})
