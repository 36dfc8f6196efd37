"""The server on a real socket, in this process: what `transom serve` starts, with an app of one's own if wanted."""

import asyncio
from contextlib import asynccontextmanager

from serve.watched import watched

from transom.serve.app import built
from transom.serve.routes import Desk
from transom.serve.server import bound, names_of, server_of
from transom.serve.studio import Studio

TOKEN = "a-token-of-this-start"
PATIENCE = 20.0  # seconds after which a test gives up


class Live:
    """A running server, and raw connections to it."""

    def __init__(self, server, desk, port):
        self.server, self.desk, self.port = server, desk, port
        self.writers = []
        self.head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        self.json = self.head + "Content-Type: application/json\r\n"

    async def open(self, *pieces, pause=0.0):
        """A connection on which these pieces were sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        await self.send(writer, *pieces, pause=pause)
        return reader, writer

    async def close(self):
        for writer in self.writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)

    async def send(self, writer, *pieces, pause=0.0):
        for piece in pieces:
            if writer.is_closing():
                break
            writer.write(piece.encode() if isinstance(piece, str) else piece)
            await asyncio.sleep(pause)

    async def ask(self, *pieces, pause=0.0):
        """Status, headers and body of the first response."""
        reader, _ = await self.open(*pieces, pause=pause)
        return await response(reader)


async def response(reader):
    """Status, headers and body of a response whose length is told."""
    async with asyncio.timeout(PATIENCE):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        heads = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(heads["content-length"])) if "content-length" in heads else b""
    return int(first.split()[1]), heads, body.decode()


async def is_closed(reader):
    """Whether the server hangs up without another word."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def served(make_gate=None):
    desk = Desk(Studio(trace=watched(["the", "cat", "sat"])))
    sock = bound("127.0.0.1", 0)
    port = sock.getsockname()[1]
    hosts = names_of("127.0.0.1", port)
    gate = make_gate(hosts, TOKEN) if make_gate else built(desk, hosts, TOKEN)
    server = server_of(gate, desk)
    running = asyncio.ensure_future(server.serve(sockets=[sock]))
    while not server.started:
        await asyncio.sleep(0.001)
    live = Live(server, desk, port)
    try:
        yield live
    finally:
        await live.close()
        server.leave()
        async with asyncio.timeout(PATIENCE):
            await running
        desk.worker.close()
