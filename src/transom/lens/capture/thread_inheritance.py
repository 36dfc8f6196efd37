"""Threads that a module starts while it runs, and tasks that it hands to a pool of threads, are watched with it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from transom.lens.capture.call_state import CAPTURE
from transom.lens.capture.hand_reports import report_rest


class PoolFlag(threading.local):
    """Whether this thread is handing a task to a pool: the threads of the pool are nobody's."""

    hands_task = False


POOL = PoolFlag()


def inherit_capture(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, to be run in another thread, and captured there as in this one."""
    inherit = CAPTURE.snapshot()

    def run_captured(*args: Any, **kwargs: Any) -> Any:
        with inherit():
            try:
                return function(*args, **kwargs)
            finally:
                report_rest()

    return run_captured


def wrap_threads() -> Callable[[], None]:
    """Let new threads and tasks inherit what their starter captures; returns a function that undoes it."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_captured(self: threading.Thread) -> None:
        if CAPTURE.module_calls and not POOL.hands_task:
            self.run = inherit_capture(self.run)
        start(self)

    def submit_captured(pool: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if not CAPTURE.module_calls:
            return submit(pool, function, *args, **kwargs)
        POOL.hands_task = True
        try:
            return submit(pool, inherit_capture(function), *args, **kwargs)
        finally:
            POOL.hands_task = False

    def put_back() -> None:
        # Whoever replaced them in between keeps what it put there; ours then does nothing, as nobody listens.
        if threading.Thread.start is start_captured:
            threading.Thread.start = start
        if ThreadPoolExecutor.submit is submit_captured:
            ThreadPoolExecutor.submit = submit

    threading.Thread.start, ThreadPoolExecutor.submit = start_captured, submit_captured
    return put_back
