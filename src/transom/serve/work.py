"""One thread for the model and the numbers, behind a short queue: two cores stay responsive whatever is asked."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from typing import Any

from transom.serve.limits import LONGEST_QUEUE


class Busy(Exception):
    """The queue is full: come again in a moment."""


class Cancelled(Exception):
    """Nobody waits for it any more."""


class ShuttingDown(Exception):
    """The server is ending: nothing more is worked out."""


class Job:
    """A piece of work, and whether somebody still waits for it."""

    def __init__(self, work: Callable[["Job"], Any]) -> None:
        self.work, self.result = work, Future()
        self.gone = threading.Event()
        self.told: deque[Any] = deque()
        self.heard: Callable[[], object] = lambda: None

    def tell(self, one: Any) -> None:
        """Something for whoever follows the work, while it goes on."""
        self.wanted()
        self.told.append(one)
        self.heard()

    def wanted(self) -> None:
        """Called now and then by long work: ends it once nobody waits."""
        if self.gone.is_set():
            raise Cancelled

    def run(self) -> None:
        if not self.result.set_running_or_notify_cancel():
            return
        try:
            self.wanted()
            self.result.set_result(self.work(self))
        except BaseException as error:  # handed to whoever waits
            self.result.set_exception(error)


class Worker:
    """Does one job after another. The queue holds those that wait, and refuses more than it can hold."""

    def __init__(self, longest: int = LONGEST_QUEUE) -> None:
        self.jobs: queue.Queue[Job | None] = queue.Queue(longest)
        self.thread = threading.Thread(target=self.work, name="transom model", daemon=True)
        self.thread.start()

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.run()

    def give(self, work: Callable[[Job], Any]) -> Job:
        job = Job(work)
        try:
            self.jobs.put_nowait(job)
        except queue.Full:
            raise Busy from None
        return job

    def close(self, seconds: float = 1.0) -> None:
        """Let go of what waits, and end after what runs."""
        while True:
            try:
                waiting = self.jobs.get_nowait()
            except queue.Empty:
                break
            if waiting is not None:
                waiting.gone.set()
                waiting.result.cancel()
        self.jobs.put(None)
        self.thread.join(seconds)


async def awaited(job: Job, receive: Any, closing: asyncio.Event) -> Any:
    """What a job gives; it is told to stop when the client goes first, or when all is to end."""
    waiting = asyncio.ensure_future(asyncio.wrap_future(job.result))
    leaving, ending = asyncio.ensure_future(disconnected(receive)), asyncio.ensure_future(closing.wait())
    try:
        await asyncio.wait({waiting, leaving, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise Cancelled if leaving.done() else ShuttingDown
        return waiting.result()
    finally:
        job.gone.set()
        for one in (waiting, leaving, ending):
            one.cancel()


async def followed(job: Job, closing: asyncio.Event) -> AsyncGenerator[Any, None]:
    """What a job tells on its way, as it tells it; it is told to stop when nobody follows any more.

    Ends once the job has given its result, or when all is to end.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def heard(_: Any = None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(news.set)

    job.heard = heard
    job.result.add_done_callback(heard)
    ending = asyncio.ensure_future(closing.wait())
    try:
        while not closing.is_set():
            done = job.result.done()  # looked at first: what it told before its end comes before its end
            while job.told:
                yield job.told.popleft()
            if done:
                return
            waiting = asyncio.ensure_future(news.wait())
            await asyncio.wait({waiting, ending}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            news.clear()
    finally:
        job.gone.set()
        ending.cancel()


async def disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
