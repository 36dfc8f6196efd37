"""Runs configurations in worker processes, so that a crash or a hang is one row and not the end."""

import json
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from audit.configurations import Configuration
from audit.judgement import CRASHED, TOO_LONG

SECONDS_EACH = 120.0
SECONDS_TO_START = 120.0
Row = dict[str, Any]


class Worker:
    """One process that judges configurations; it is started anew after a crash or a hang."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        return subprocess.Popen(
            [sys.executable, "-m", "audit.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            text=True,
        )

    def stop(self) -> int:
        """End the process; its exit code."""
        if self.process is None:
            return 0
        self.process.kill()
        code = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process = None
        return code

    def judge(self, configuration: Configuration, seconds: float) -> Row:
        """The row of one configuration; one that says so if it crashed or took too long."""
        known = {"name": configuration.name, "implementation": configuration.implementation}
        if self.process is None:
            self.process, seconds = self.start(), seconds + SECONDS_TO_START
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        print(json.dumps([configuration.name, configuration.implementation]), file=stdin, flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            ready = selector.select(seconds)
        line = stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        code = self.stop()
        reason = f"the process ended by {-code if code < 0 else code}" if ready else f"more than {seconds:.0f} s"
        return known | {"verdict": CRASHED if ready else TOO_LONG, "reason": reason}


def run_all(configurations: list[Configuration], jobs: int, seconds: float = SECONDS_EACH) -> Iterator[Row]:
    """Judge all configurations in some processes at once; rows come as they are ready."""
    waiting: queue.Queue[Configuration] = queue.Queue()
    rows: queue.Queue[Row] = queue.Queue()
    for configuration in configurations:
        waiting.put(configuration)

    def work() -> None:
        worker = Worker()
        try:
            while True:
                rows.put(worker.judge(waiting.get_nowait(), seconds))
        except queue.Empty:
            return
        finally:
            worker.stop()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for _ in configurations:
        yield rows.get()
    for thread in threads:
        thread.join()


def report_progress(rows: Iterator[Row], total: int) -> Iterator[Row]:
    """The same rows; each tenth, and each that is no success, as a line on stderr."""
    started = time.monotonic()
    for number, row in enumerate(rows, 1):
        if number % 10 == 0 or row.get("verdict") in {CRASHED, TOO_LONG}:
            elapsed = time.monotonic() - started
            print(
                f"{number} of {total}, {elapsed:.0f} s: {row['name']} ({row['implementation']}): {row.get('verdict')}",
                file=sys.stderr,
            )
        yield row
