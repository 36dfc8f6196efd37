"""The command `transom`, also as `python -m transom`: Ctrl-C is handled before anything else is imported."""

import atexit
import os
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any

STOPPED = 130  # the exit code after Ctrl-C
SAME_INTERRUPT = 1.0  # seconds: shells and torchrun pass one Ctrl-C on several times


class Interrupts:
    """The handler of SIGINT: it raises KeyboardInterrupt once while a command runs, and ends the process otherwise.

    At the start, at the end and during an import there is nothing to clean up, and an exception would be printed as a
    traceback, or swallowed by the module that is being imported.
    """

    def __init__(self) -> None:
        self.is_running = False  # a command
        self.first: float | None = None

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if not self.is_running or is_importing(frame):
            leave()
        now = time.monotonic()
        if self.first is None:
            self.first = now
            raise KeyboardInterrupt
        if now - self.first > SAME_INTERRUPT:
            leave()

    def install(self) -> None:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell sets it for background jobs
            signal.signal(signal.SIGINT, self)


def ignore_interrupts() -> None:
    """Ignore SIGINT from now on: Python's last steps would restore the default handler, which kills the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def is_importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def leave() -> None:
    """End the process at once, with the cursor shown, which a progress bar may have hidden."""
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")
    os._exit(STOPPED)


def report_unraisable(error: Any) -> None:
    """End the process on a KeyboardInterrupt that cannot be raised; Python would only print it."""
    if issubclass(error.exc_type, KeyboardInterrupt):
        leave()
    sys.__unraisablehook__(error)


def main() -> int:
    """Run the command line of this process."""
    interrupts = Interrupts()
    interrupts.install()
    sys.unraisablehook = report_unraisable
    atexit.register(ignore_interrupts)  # the first to be registered is the last to be called
    from transom.cli import main as run

    try:
        interrupts.is_running = True
        code = run()
        interrupts.is_running = False
    except KeyboardInterrupt:
        code = STOPPED
    interrupts.install()  # a server has its own handlers, and removes them
    if code == STOPPED:  # Python takes a while to end, and another Ctrl-C would interrupt that
        with suppress(OSError):  # the reader of a pipe may be gone
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(STOPPED)
    return code


if __name__ == "__main__":
    sys.exit(main())
