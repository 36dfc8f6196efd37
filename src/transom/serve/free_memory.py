"""Memory that nothing uses any more goes back to the system.

The C library keeps what the model's thread has freed for later, in pieces between others that are in use: without this
the server's memory grows by some MiB with every ten runs.
"""

import ctypes
import sys


def return_free_memory() -> None:
    """Ask glibc to give back what is free; other C libraries have no such call, or need none."""
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
