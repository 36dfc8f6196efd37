"""Time: the minimum of interleaved repeats in two runs, while no other contender runs, spins or has a process.

A contender is a call in this process, or a `ContenderProcess`, which exists only during its turn. Before each turn the
bench waits until the threads of the earlier contender sleep (OpenMP's threads spin for a while). It does not set
OMP_WAIT_POLICY=passive instead: that would slow down every contender whose threads spin by default.
"""

import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.peers.contender_loop import Work
from bench.peers.contender_process import ContenderProcess, PeerUnavailable

RUNS = 2  # of each contender; the second run begins when every contender has had its first
STEADY = 1.15  # the minima of two runs may differ by this factor
SHORT = 0.05  # seconds: shorter work is called once before it is timed, so that waking its threads does not count
SETTLED_AFTER = 5.0  # seconds at most until the threads of the earlier contender sleep
CASE = ("shape", "kind", "causal", "tokens")  # the keys that distinguish the cases in a list of results
_until = float("inf")  # when the question's time is up
_by_processor = False


def set_time_limit(seconds: float) -> None:
    """After this many seconds from now, `measure_interleaved` begins no round that it can leave out."""
    global _until
    _until = time.monotonic() + seconds


def seconds_left() -> float:
    """Seconds until the time limit of the question."""
    return _until - time.monotonic()


def use_processor_time() -> None:
    """From now on measure processor time of all threads of a contender; waiting does not count."""
    global _by_processor
    _by_processor = True


def clock_name() -> str:
    """Which clock the seconds are from."""
    return "of the processor" if _by_processor else "on the clock"


def read_clock() -> float:
    return time.process_time() if _by_processor else time.perf_counter()


def count_running_threads() -> int:
    """Threads of this process that are running or ready to run, without the calling one."""
    asking, running = threading.get_native_id(), 0
    for task in Path("/proc/self/task").iterdir() if sys.platform == "linux" else ():
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        running += state == "R" and int(task.name) != asking
    return running


def settle(seconds: float = SETTLED_AFTER) -> None:
    """Wait until no other thread of this process is busy, so that the earlier contender does not disturb the next."""
    until = time.monotonic() + seconds
    while running := count_running_threads():
        if time.monotonic() > until:
            raise RuntimeError(
                f"no thread should be busy between two turns, but {running} still were after {seconds:.0f} s; "
                "measure that contender in a process of its own"
            )
        time.sleep(0.0005)


def measure_interleaved(
    contenders: Mapping[str, Work | ContenderProcess],
    repeats: int,
    seconds: float,
    missing: dict[str, str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Measure all contenders in turn, in two runs: `best` is the minimum, `median` says how noisy it was.

    Calls in this process alternate within a run; a process makes all its calls of a run in one turn, then ends. Each
    contender is called at least once a run; no round begins after `seconds`, or after the limit of `set_time_limit`.
    `runs` are the minima of the two runs, `peaks` the peak bytes of a process in each. A process that fails is added
    to `missing` with the reason; without `missing` this raises `PeerUnavailable`.
    """
    works = {name: one for name, one in contenders.items() if not isinstance(one, ContenderProcess)}
    processes = {name: one for name, one in contenders.items() if isinstance(one, ContenderProcess)}
    taken: dict[str, list[list[float]]] = {name: [] for name in contenders}
    peaks: dict[str, list[int]] = {name: [] for name in processes}
    rounds, budget = -(-repeats // RUNS), seconds / RUNS
    typical = {name: time_call(work) for name, work in works.items()}  # the first call also loads what is loaded once
    for _ in range(RUNS):
        for name, times in measure_in_turn(works, typical, rounds, budget).items():
            taken[name].append(times)
        for name, process in list(processes.items()):
            try:
                times, peak = measure_process(process, rounds, budget / len(contenders))
            except PeerUnavailable as reason:
                if missing is None:
                    raise
                missing[name] = str(reason)
                del processes[name], taken[name], peaks[name]
                continue
            taken[name].append(times)
            peaks[name].append(peak)
    return {name: summarize(runs, peaks.get(name)) for name, runs in taken.items()}


def time_call(work: Work) -> float:
    settle()
    start = read_clock()
    work()
    return read_clock() - start


def measure_in_turn(
    works: Mapping[str, Work], typical: dict[str, float], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Seconds of each call; a round calls every work once."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in begin_rounds(rounds if works else 0, seconds):
        for name, work in works.items():
            settle()
            if typical[name] < SHORT:
                work()
            start = read_clock()
            work()
            taken[name].append(read_clock() - start)
    return taken


def measure_process(process: ContenderProcess, rounds: int, seconds: float) -> tuple[list[float], int]:
    """Seconds of each call in one turn of a process, and its peak bytes; the first call counts only if it is alone."""
    key = "processor_seconds" if _by_processor else "seconds"
    settle()  # the threads of this process; it does nothing while the other works
    with process:
        first = process.ask()
        taken = [process.ask()[key] for _ in begin_rounds(rounds, seconds - first["seconds"], least=0)]
        return taken or [first[key]], process.peak


def begin_rounds(rounds: int, seconds: float, least: int = 1) -> Iterator[int]:
    """Number the rounds, as long as there is time for another."""
    begun = time.perf_counter()
    for number in range(rounds):
        if number >= least and (time.perf_counter() - begun > seconds or seconds_left() < 0):
            return
        yield number


def summarize(runs: list[list[float]], peaks: list[int] | None) -> dict[str, Any]:
    calls = [seconds for run in runs for seconds in run]
    found = {"best": min(calls), "median": statistics.median_high(calls), "runs": [min(run) for run in runs]}
    return found | ({"peak": min(peaks), "peaks": peaks} if peaks else {})


def unsteady_contenders(times: Mapping[str, Mapping[str, Any]], key: str = "runs") -> dict[str, float]:
    """The contenders whose two runs differ by more than STEADY, with the factor."""
    found = {name: max(one[key]) / max(min(one[key]), 1e-12) for name, one in times.items() if one.get(key)}
    return {name: round(ratio, 2) for name, ratio in found.items() if ratio > STEADY}


def find_unsteady(result: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """A line for each unsteady contender, at any depth of a result."""
    for key, value in result.items() if isinstance(result, dict) else ():
        if key == "unsteady":
            for name, ratio in value.items():
                where = f"{', '.join(path)}: " if path else ""
                yield f"unsteady: {where}two runs of {name} differ {ratio:.2f} times"
        else:
            yield from find_unsteady(value, (*path, str(key)))
    for one in result if isinstance(result, list) else ():
        case = [str(one[key]) for key in CASE if isinstance(one, dict) and key in one]
        yield from find_unsteady(one, (*path, *case))
