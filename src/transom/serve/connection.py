"""One client's connection: a deadline for each request, and an answer to anything that is not HTTP."""

import asyncio
import sys
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from transom.serve import limits
from transom.serve.limits import Refusal
from transom.serve.request_guard import SECURITY_HEADERS, refusal_body, refusal_headers


class RequestConnection(H11Protocol):
    """Disconnects a client that is slow to send a request, the first or a later one, or to read its response.

    The deadline of a request runs from its first byte until head and body are complete; it does not cover the app's own
    work. Between requests there is another deadline.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.last_cycle: RequestResponseCycle | None = None  # the last request whose head is complete
        self.complete_heads = 0
        self.received = 0  # bytes of the current request
        self.timed: tuple[int, bool] | None = None  # number of the request with a deadline, and whether it is idle
        self.deadline: asyncio.TimerHandle | None = None
        self.stall_timer: asyncio.TimerHandle | None = None
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
        self.cancel_stall_timer()
        super().connection_lost(exc)

    def set_deadline(self) -> None:
        """Start the deadline of a request that begins, keep that of one under way, cancel that of a complete one."""
        if self.transport.is_closing():
            self.wait_for_client()
            return
        state = self.conn.their_state
        if state not in (h11.IDLE, h11.SEND_BODY):
            self.cancel_deadline()
            return
        if self.cycle is not self.last_cycle:
            self.last_cycle, self.complete_heads = self.cycle, self.complete_heads + 1
        in_head = state is h11.IDLE
        timed = (self.complete_heads + in_head, in_head and not self.conn.trailing_data[0])
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

    def start_stall_timer(self) -> None:
        """Disconnect a client that does not read its response for some time."""
        if self.stall_timer is None:
            self.stall_timer = self.loop.call_later(limits.STALL_SECONDS, self.transport.abort)

    def cancel_stall_timer(self) -> None:
        if self.stall_timer is not None:
            self.stall_timer.cancel()
        self.stall_timer = None

    def expire(self) -> None:
        """Refuse a request that is late; without one, close the connection."""
        if self.timed is not None and self.timed[1]:
            self.transport.close()
            self.wait_for_client()
        else:
            self.refuse(limits.TOO_SLOW)

    def refuse(self, refusal: Refusal) -> None:
        """Answer in place of the app, unless the request is already answered, and disconnect."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:  # the app's own response comes too late
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(response_bytes(refusal))
        self.transport.close()
        self.wait_for_client()

    def wait_for_client(self) -> None:
        """A closed connection ends once its client has read everything, or after some time."""
        self.cancel_deadline()
        if self.transport.get_write_buffer_size():
            self.start_stall_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.start_stall_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self.cancel_stall_timer()

    def send_400_response(self, msg: str) -> None:
        """Called while an error of the HTTP parser is handled; the error may know the right status."""
        self.refuse(self.find_refusal(getattr(sys.exception(), "error_status_hint", 400)))

    def find_refusal(self, status: int) -> Refusal:
        if status == 501:
            return limits.UNKNOWN_ENCODING
        if status == 431 and self.conn.our_state is h11.IDLE:
            has_request_line = b"\n" in self.conn.trailing_data[0]
            return limits.HEAD_TOO_LARGE if has_request_line else limits.TARGET_TOO_LONG
        return limits.MALFORMED

    def shutdown(self) -> None:
        """Close idle and incomplete requests at once, and let the app finish its answers."""
        incomplete = self.conn.their_state is h11.SEND_BODY or (self.timed is not None and not self.timed[1])
        if self.transport.is_closing() or self.flow.write_paused:
            self.transport.abort()
        elif incomplete:
            self.refuse(limits.SHUTTING_DOWN)
        else:
            super().shutdown()


def response_bytes(refusal: Refusal) -> bytes:
    """A refusal as the last response of a connection."""
    headers = refusal_headers(refusal) | SECURITY_HEADERS | {"Connection": "close"}
    lines = [f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + refusal_body(refusal)
