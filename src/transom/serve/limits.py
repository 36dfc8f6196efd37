"""Every limit of the server, and the HTTP status of a request beyond it."""

from dataclasses import dataclass, field

LONGEST_TARGET = 4096  # bytes of path and query; an integer in a path so long is still one that Python reads
LONGEST_HEAD = 2**14  # bytes of a request line and its headers
MOST_HEADERS = 64
MOST_FIELDS = 20  # of a query
LONGEST_BODY = 2**20  # bytes
LONGEST_REQUEST = 2**24  # bytes on the wire: chunks have frames, and a refused body is read and discarded
REQUEST_SECONDS = 10.0  # from the first byte of a request to its last, head and body together
IDLE_SECONDS = 5.0  # without a byte, on a new connection or after a response
STALL_SECONDS = 30.0  # for a client that does not read its response
MOST_CONNECTIONS = 512
MOST_STREAMS = 32  # of one route
LONGEST_QUEUE = 32  # jobs that wait for the model
LAST_SECONDS = 1  # for running requests, after a signal

RETRY = {"Retry-After": "1"}
STATUSES = {
    200: "an answer",
    303: "the first visit, with the printed address: its token becomes a cookie",
    304: "the browser already has this answer",
    400: "not HTTP, a Content-Length that is not a number, too many query fields, an invalid field or invalid JSON",
    401: "no token, or a wrong one",
    403: "Origin or Sec-Fetch-Site names another site",
    404: "no such path",
    405: "the path has other methods; `Allow` lists them",
    408: "head and body were not complete in time",
    413: "the body is too large",
    414: "path and query are too long",
    415: "the body is not declared as JSON",
    421: "no Host header, several, or not ours",
    429: "the queue is full, or too many streams are open; `Retry-After` says when to retry",
    431: "the headers are too long or too many",
    499: "the client disconnected first; it never sees this status",
    500: "an internal error; the server's log says which, and with `--debug` where",
    501: "a Transfer-Encoding other than chunked",
    503: "too many connections, or the server is shutting down",
}


@dataclass(frozen=True)
class Refusal:
    """The answer to a request that is not let in."""

    status: int
    reason: str
    headers: dict[str, str] = field(default_factory=dict)


MALFORMED = Refusal(400, "this is not an HTTP request")
BAD_LENGTH = Refusal(400, "send one Content-Length, in digits")
TOO_MANY_FIELDS = Refusal(400, f"a query may have at most {MOST_FIELDS} fields")
NO_TOKEN = Refusal(401, "open the address that transom serve printed: it contains the token for this page")
OTHER_SITE = Refusal(403, "this request comes from another site")
NOT_FOUND = Refusal(404, "there is nothing at this address")
TOO_SLOW = Refusal(408, f"a request must be complete within {REQUEST_SECONDS:.0f} seconds")
BODY_TOO_LARGE = Refusal(413, f"a body may have at most {LONGEST_BODY} bytes")
TARGET_TOO_LONG = Refusal(414, f"path and query may have at most {LONGEST_TARGET} bytes")
NOT_JSON = Refusal(415, "send Content-Type: application/json")
OTHER_HOST = Refusal(421, "this server has another name; open the address that transom serve printed")
HEAD_TOO_LARGE = Refusal(431, f"a request may have at most {MOST_HEADERS} headers, with {LONGEST_HEAD} bytes together")
UNKNOWN_ENCODING = Refusal(501, "send Transfer-Encoding: chunked, or none")
TOO_MANY_CONNECTIONS = Refusal(503, "too many connections are open; try again in a moment", RETRY)
SHUTTING_DOWN = Refusal(503, "the server is shutting down; start transom serve again", RETRY)


def method_not_allowed(allowed: set[str]) -> Refusal:
    return Refusal(405, f"use {' or '.join(sorted(allowed))}", {"Allow": ", ".join(sorted(allowed))})
