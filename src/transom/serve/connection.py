"""One client's connection: the deadline of each of its requests, and the answer to what is not HTTP."""

import asyncio
import sys
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from transom.serve import limits
from transom.serve.gate import HEADERS, refusal_body, refusal_headers
from transom.serve.limits import Refusal


class Connection(H11Protocol):
    """Hangs up on a client that is slow with a request, be it the first or a later one, or with taking its response.

    The deadline runs from the first byte of a request until all of it is there, head and body; what the app then does
    takes as long as it takes. Between requests there is a deadline of its own.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.counted: Any = None  # the last request whose head has come, and how many have
        self.heads = 0
        self.received = 0  # bytes since that last request
        self.timed: tuple[int, bool] | None = (
            None  # the request that `deadline` is for, and whether it has yet to begin
        )
        self.deadline: asyncio.TimerHandle | None = None
        self.stalled: asyncio.TimerHandle | None = None
        if len(self.connections) > limits.MOST_CONNECTIONS:
            self.refuse(limits.TOO_MANY_CONNECTIONS)
        else:
            self.set_deadline()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self.received > limits.LONGEST_REQUEST:
            self.refuse(limits.BODY_TOO_LARGE)
            return
        super().data_received(data)
        self.set_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()
        self.set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self.cancel_deadline()
        self.cancel_stalled()
        super().connection_lost(exc)

    def set_deadline(self) -> None:
        """Start the clock for a request that begins, keep it for one that goes on, stop it for one that is whole."""
        if self.transport.is_closing():
            self.wait_for_client()
            return
        state = self.conn.their_state
        if state not in (h11.IDLE, h11.SEND_BODY):
            self.cancel_deadline()
            return
        if self.cycle is not self.counted:
            self.counted, self.heads = self.cycle, self.heads + 1
        head = state is h11.IDLE
        timed = (self.heads + head, head and not self.conn.trailing_data[0])
        if timed == self.timed:
            return
        if self.timed is None or timed[0] != self.timed[0]:
            self.received = 0
        self.cancel_deadline()
        self.timed = timed
        self.deadline = self.loop.call_later(limits.IDLE_SECONDS if timed[1] else limits.REQUEST_SECONDS, self.expire)

    def cancel_deadline(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        self.timed = self.deadline = None

    def set_stalled(self) -> None:
        """Start the clock for a client that takes nothing of what it was sent."""
        if self.stalled is None:
            self.stalled = self.loop.call_later(limits.STALL_SECONDS, self.transport.abort)

    def cancel_stalled(self) -> None:
        if self.stalled is not None:
            self.stalled.cancel()
        self.stalled = None

    def expire(self) -> None:
        """End a request that is late; where none had begun, nothing is said."""
        if self.timed is not None and self.timed[1]:
            self.transport.close()
            self.wait_for_client()
        else:
            self.refuse(limits.TOO_SLOW)

    def refuse(self, refusal: Refusal) -> None:
        """Answer in place of the app, unless the request has been answered already, and hang up."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:  # what the app says now comes too late
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(response_bytes(refusal))
        self.transport.close()
        self.wait_for_client()

    def wait_for_client(self) -> None:
        """A closed connection ends once its client has taken what it was sent, or after some time."""
        self.cancel_deadline()
        if self.transport.get_write_buffer_size():
            self.set_stalled()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.set_stalled()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self.cancel_stalled()

    def send_400_response(self, msg: str) -> None:
        """Called while the error of the HTTP parser is handled: it says what is wrong, where it knows."""
        self.refuse(self.find_refusal(getattr(sys.exception(), "error_status_hint", 400)))

    def find_refusal(self, status: int) -> Refusal:
        if status == 501:
            return limits.UNKNOWN_ENCODING
        if status == 431 and self.conn.our_state is h11.IDLE:
            line_ended = b"\n" in self.conn.trailing_data[0]
            return limits.HEAD_TOO_LARGE if line_ended else limits.TARGET_TOO_LONG
        return limits.MALFORMED

    def shutdown(self) -> None:
        """End what is idle or late at once, and let the app finish what it is about to answer."""
        begun = self.conn.their_state is h11.SEND_BODY or (self.timed is not None and not self.timed[1])
        if self.transport.is_closing() or self.flow.write_paused:
            self.transport.abort()
        elif begun:
            self.refuse(limits.SHUTTING_DOWN)
        else:
            super().shutdown()


def response_bytes(refusal: Refusal) -> bytes:
    """A whole response, the last of its connection."""
    heads = refusal_headers(refusal) | HEADERS | {"Connection": "close"}
    lines = [f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in heads.items()]
    return "\r\n".join([*lines, "", ""]).encode() + refusal_body(refusal)
