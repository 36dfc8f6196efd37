"""The server: uvicorn on loopback, with a quick end once a signal comes."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.app import built
from transom.serve.limits import LAST_SECONDS, LONGEST_HEAD
from transom.serve.routes import Desk
from transom.serve.studio import Studio

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def bound(host: str, port: int) -> socket.socket:
    """A socket on the address, or why it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise Misfit(
            f"port {port} on {host} cannot be had ({error.strerror or error}); choose another with --port, or --port 0"
            " for any that is free"
        ) from error
    return sock


def names_of(host: str, port: int) -> list[str]:
    """What a browser may call us in its Host header."""
    shown = f"[{host}]" if ":" in host else host
    also = ["127.0.0.1", "localhost", "[::1]"] if host in LOOPBACK else []
    return list(dict.fromkeys(f"{name}:{port}" for name in (shown, *also)))


def serve(studio: Studio, host: str, port: int, ready: Callable[[str], None], token: str | None = None) -> None:
    """Serve until a signal comes; `ready` hears the address with its token once requests are taken."""
    sock = bound(host, port)
    hosts = names_of(host, sock.getsockname()[1])
    asyncio.run(served(studio, sock, hosts, ready, token))


async def served(
    studio: Studio, sock: socket.socket, hosts: list[str], ready: Callable[[str], None], token: str | None
) -> None:
    desk = Desk(studio)
    gate = built(desk, hosts, token)
    server = server_of(gate, desk)
    address = f"http://{hosts[0]}/?token={gate.token}"
    running = asyncio.ensure_future(server.serve(sockets=[sock]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    if server.started:
        ready(address)
    try:
        await running
    finally:
        desk.closing.set()
        desk.worker.close()


def server_of(gate: Any, desk: Desk) -> "uvicorn.Server":
    import uvicorn

    class Closing(uvicorn.Server):
        """Ends its streams, and then itself, when a signal comes; that is no failure."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            loop = asyncio.get_running_loop()
            for one in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(one, self.leave)
            yield

        def leave(self) -> None:
            self.should_exit = True
            desk.closing.set()

    return Closing(make_config(gate))


def make_config(gate: Any) -> "uvicorn.Config":
    """How uvicorn is set up for the gate."""
    import uvicorn

    from transom.serve.connection import Connection

    return uvicorn.Config(
        gate,
        http=Connection,
        ws="none",
        log_level="error",  # its warnings are of requests that anybody can send
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=LAST_SECONDS,
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )
