"""One worker thread for models and numbers, behind a short queue, so that the page stays responsive."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from transom.serve.limits import LONGEST_QUEUE

if TYPE_CHECKING:
    from starlette.types import Receive

Result = TypeVar("Result")
Event = dict[str, Any]  # progress of a job, as JSON


class QueueFull(Exception):
    """The queue is full; retry in a moment."""


class JobCancelled(Exception):
    """Nobody waits for the job any more."""


class ShuttingDown(Exception):
    """The server is shutting down and computes nothing more."""


class Job(Generic[Result]):
    """A piece of work, its progress and its result; it ends early once it is cancelled."""

    def __init__(self, work: "Callable[[Job[Result]], Result]") -> None:
        self.work = work
        self.result: Future[Result] = Future()
        self.cancelled = threading.Event()
        self.events: deque[Event] = deque()
        self.on_report: Callable[[], object] = lambda: None

    def report(self, event: Event) -> None:
        """Report progress to whoever follows the job."""
        self.raise_if_cancelled()
        self.events.append(event)
        self.on_report()

    def raise_if_cancelled(self) -> None:
        """Long work calls this now and then."""
        if self.cancelled.is_set():
            raise JobCancelled

    def run(self) -> None:
        if not self.result.set_running_or_notify_cancel():
            return
        try:
            self.raise_if_cancelled()
            self.result.set_result(self.work(self))
        except BaseException as error:  # handed to whoever waits
            self.result.set_exception(error)


class Worker:
    """A thread that runs one job after another from a queue of limited length."""

    def __init__(self, longest: int = LONGEST_QUEUE) -> None:
        self.jobs: queue.Queue[Job[Any] | None] = queue.Queue(longest)
        self.thread = threading.Thread(target=self.work, name="transom model", daemon=True)
        self.thread.start()

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.run()

    def submit(self, work: Callable[[Job[Result]], Result]) -> Job[Result]:
        job = Job(work)
        try:
            self.jobs.put_nowait(job)
        except queue.Full:
            raise QueueFull from None
        return job

    def close(self, seconds: float = 1.0) -> None:
        """Cancel the waiting jobs, and end after the running one."""
        with suppress(queue.Empty):
            while True:
                job = self.jobs.get_nowait()
                if job is not None:
                    job.cancelled.set()
                    job.result.cancel()
        self.jobs.put(None)
        self.thread.join(seconds)


async def await_job(job: Job[Result], receive: "Receive", closing: asyncio.Event) -> Result:
    """The result of a job; it is cancelled if the client disconnects first, or the server shuts down."""
    result = asyncio.ensure_future(asyncio.wrap_future(job.result))
    disconnect, shutdown = asyncio.ensure_future(wait_disconnect(receive)), asyncio.ensure_future(closing.wait())
    try:
        await asyncio.wait({result, disconnect, shutdown}, return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise JobCancelled if disconnect.done() else ShuttingDown
        return result.result()
    finally:
        job.cancelled.set()
        for future in (result, disconnect, shutdown):
            future.cancel()


async def job_progress(job: Job[Any], closing: asyncio.Event) -> AsyncGenerator[Event, None]:
    """The events of a job as they are reported, until it has its result or the server shuts down.

    The job is cancelled once nobody follows it.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: object = None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(news.set)

    job.on_report = wake
    job.result.add_done_callback(wake)
    shutdown = asyncio.ensure_future(closing.wait())
    try:
        while not closing.is_set():
            is_done = job.result.done()  # read first: all events are reported before the job is done
            while job.events:
                yield job.events.popleft()
            if is_done:
                return
            waiting = asyncio.ensure_future(news.wait())
            await asyncio.wait({waiting, shutdown}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            news.clear()
    finally:
        job.cancelled.set()
        shutdown.cancel()


async def wait_disconnect(receive: "Receive") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
