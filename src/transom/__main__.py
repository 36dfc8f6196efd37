"""The command `transom`, also as `python -m transom`: what Ctrl-C does is settled before anything else is imported."""

import os
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any

STOPPED = 130  # the exit code after Ctrl-C
SAME = 1.0  # seconds: shells, torchrun and the like pass one Ctrl-C on several times


class Interrupts:
    """What SIGINT does: while a command works it is told once, by KeyboardInterrupt; at any other time it just ends.

    At the start, at the end and in the middle of an import nothing has to be tidied, and an exception there would
    come out as a traceback, or be swallowed by what is being imported.
    """

    def __init__(self) -> None:
        self.working = False
        self.first: float | None = None

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if not self.working or is_importing(frame):
            leave()
        now = time.monotonic()
        if self.first is None:
            self.first = now
            raise KeyboardInterrupt
        if now - self.first > SAME:
            leave()

    def install(self) -> None:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell sets it for what runs beside it
            signal.signal(signal.SIGINT, self)


def is_importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def leave() -> None:
    """End the process here and now; a bar may have hidden the cursor of the terminal."""
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")
    os._exit(STOPPED)


def report_unraisable(error: Any) -> None:
    """A KeyboardInterrupt in a place where nothing can be raised would be printed and forgotten."""
    if issubclass(error.exc_type, KeyboardInterrupt):
        leave()
    sys.__unraisablehook__(error)


def main() -> int:
    """Run the command line of this process."""
    interrupts = Interrupts()
    interrupts.install()
    sys.unraisablehook = report_unraisable
    from transom.cli import main as run

    try:
        interrupts.working = True
        code = run()
        interrupts.working = False
    except KeyboardInterrupt:
        code = STOPPED
    interrupts.install()  # a server has handlers of its own, and leaves none
    if code == STOPPED:  # what Python does at its end takes a while, and the next Ctrl-C would come into it
        with suppress(OSError):  # nobody may be listening any more
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(STOPPED)
    return code


if __name__ == "__main__":
    sys.exit(main())
