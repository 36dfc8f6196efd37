"""The server on a real socket, in this process: what `transom serve` starts, with any app behind it."""

import asyncio
from contextlib import asynccontextmanager

from serve.client import small_trace

from transom.serve.routes import RequestContext
from transom.serve.server import PageServer, bind_socket, build_app, host_names, server_config
from transom.serve.session import Session

TOKEN = "a-token-of-this-start"
PATIENCE = 20.0  # seconds after which a test gives up


class LiveServer:
    """A running server, and raw connections to it."""

    def __init__(self, server, context, port):
        self.server, self.context, self.port = server, context, port
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

    async def request(self, *pieces, pause=0.0):
        """Status, headers and body of the first response."""
        reader, _ = await self.open(*pieces, pause=pause)
        return await read_response(reader)


async def read_response(reader):
    """Status, headers and body of a response that says its length."""
    async with asyncio.timeout(PATIENCE):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers["content-length"])) if "content-length" in headers else b""
    return int(first.split()[1]), headers, body.decode()


async def is_closed(reader):
    """Whether the server disconnects without sending anything more."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def live_server(make_guard=None):
    context = RequestContext(Session(trace=small_trace(["the", "cat", "sat"])))
    sock = bind_socket("127.0.0.1", 0)
    port = sock.getsockname()[1]
    hosts = host_names("127.0.0.1", port)
    guard = make_guard(hosts, TOKEN) if make_guard else build_app(context, hosts, TOKEN)
    server = PageServer(server_config(guard), context)
    running = asyncio.ensure_future(server.serve(sockets=[sock]))
    while not server.started:
        await asyncio.sleep(0.001)
    live = LiveServer(server, context, port)
    try:
        yield live
    finally:
        await live.close()
        server.leave()
        async with asyncio.timeout(PATIENCE):
            await running
        context.close()
