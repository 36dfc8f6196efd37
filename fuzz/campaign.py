"""One campaign: many random inputs for one target, counted by outcome; whatever is not an outcome is a failure."""

import random
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from transom.names import Misfit

SECONDS_PER_INPUT = 20.0
MEBIBYTES_PER_CAMPAIGN = 2048  # by which the process may grow
REFUSED = "refused"  # the outcome of an input that Transom's own error answers


class Target(Protocol):
    """What is fuzzed: a module of `fuzz/targets` with these two functions."""

    def prepare(self, folder: Path) -> Any:
        """Build what all inputs share; `folder` is empty and is removed after the campaign."""
        ...

    def try_input(self, state: Any, rng: random.Random) -> str:
        """Make one input from `rng`, try it, and return the outcome as a word.

        A `Misfit` counts as refused. Any other exception is a failure: so compare by assert.
        """
        ...


class TookTooLong(BaseException):
    """One input took more than its time; not an Exception, so that no broad except swallows it."""


@dataclass
class Report:
    """What came of a campaign."""

    target: str
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    mebibytes: float = 0.0  # by which the process grew

    @property
    def inputs(self) -> int:
        return sum(self.outcomes.values()) + len(self.failures)

    def summary(self) -> str:
        """One line of counts."""
        outcomes = ", ".join(f"{count:,} {word}" for word, count in sorted(self.outcomes.items()))
        return (
            f"{self.target:<14}{self.inputs:>9,} inputs: {outcomes or 'none'}; {len(self.failures)} failures;"
            f" {self.seconds:.0f} s, {self.mebibytes:+.0f} MiB, seed {self.seed}"
        )


def run_campaign(
    name: str, target: Target, seed: int, inputs: int, seconds: float, case: int | None = None, most_failures: int = 10
) -> Report:
    """Try up to `inputs` inputs for up to `seconds`; with `case`, that one input alone."""
    report = Report(name, seed)
    with tempfile.TemporaryDirectory(prefix="transom-fuzz-") as folder:
        state = target.prepare(Path(folder))
        started, memory = time.monotonic(), peak_mebibytes()
        try:
            for number in range(inputs) if case is None else [case]:
                if time.monotonic() - started > seconds or len(report.failures) >= most_failures:
                    break
                try_one(report, target, state, number)
        finally:
            close = getattr(state, "close", None)
            if callable(close):
                close()
    report.seconds = time.monotonic() - started
    report.mebibytes = peak_mebibytes() - memory
    if report.mebibytes > MEBIBYTES_PER_CAMPAIGN:
        report.failures.append(f"the process grew by {report.mebibytes:.0f} MiB")
    return report


def try_one(report: Report, target: Target, state: Any, number: int) -> None:
    """Try the input of one number; the same seed and number make the same input."""
    rng = random.Random(f"{report.target} {report.seed} {number}")
    try:
        with time_limit(SECONDS_PER_INPUT):
            outcome = target.try_input(state, rng)
    except Misfit:
        outcome = REFUSED
    except TookTooLong:
        report.failures.append(f"--seed {report.seed} --case {number}: took more than {SECONDS_PER_INPUT:.0f} s")
        return
    except Exception:
        report.failures.append(f"--seed {report.seed} --case {number}:\n{traceback.format_exc(limit=-6)}")
        return
    report.outcomes[outcome] += 1


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong after some seconds of real time; in the main thread of a Unix process only."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TookTooLong

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
