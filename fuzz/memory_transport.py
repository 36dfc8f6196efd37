"""A connection without a socket."""

import asyncio
from typing import Any


class MemoryTransport(asyncio.Transport):
    """The server's end of a connection, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closing = bytearray(), False
        self.protocol: Any = None

    def write(self, data: Any) -> None:
        if not self.closing:
            self.written += data

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.closing

    def is_reading(self) -> bool:
        return not self.closing

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0
