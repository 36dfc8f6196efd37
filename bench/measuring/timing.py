"""Time: the minimum of interleaved repeats, taken in two runs, while no other contender runs, spins or holds a process.

A contender is a call in this process or a `ContenderProcess`, which exists only during its turn. Before each turn the
threads that an earlier contender left busy (OpenMP's wait actively for some time) must have gone to sleep. No wait
policy is set for that: OMP_WAIT_POLICY=passive would slow down each call of whoever waits actively by default.
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.peers.contender_process import Absent, ContenderProcess

Work = Callable[[], object]
RUNS = 2  # of each contender, one after all others had theirs
STEADY = 1.15  # times that the minima of two runs may differ
SHORT = 0.05  # seconds: a shorter work is done once more before it is timed, since waking its threads would count
SETTLED_AFTER = 5.0  # seconds at most until the threads of an earlier contender sleep
CASE = ("shape", "kind", "causal", "tokens")  # what tells apart the cases in a list of results
_until = float("inf")  # when the question's time is up
_by_processor = False


def allow(seconds: float) -> None:
    """From now on: once this many seconds have passed, `interleaved` begins no more rounds than it must."""
    global _until
    _until = time.monotonic() + seconds


def left() -> float:
    """Seconds that the question still has."""
    return _until - time.monotonic()


def by_processor_time() -> None:
    """From now on `interleaved` counts what a contender computed, in all its threads; waiting does not count."""
    global _by_processor
    _by_processor = True


def clock_name() -> str:
    """What the seconds are of."""
    return "of the processor" if _by_processor else "on the clock"


def read_clock() -> float:
    return time.process_time() if _by_processor else time.perf_counter()


def count_running_threads() -> int:
    """Threads of this process that run or could run now, but for the one that asks."""
    asking, running = threading.get_native_id(), 0
    for task in Path("/proc/self/task").iterdir() if sys.platform == "linux" else ():
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        running += state == "R" and int(task.name) != asking
    return running


def settle(seconds: float = SETTLED_AFTER) -> None:
    """Wait until no other thread of this process is busy: what an earlier contender left must not disturb the next."""
    until = time.monotonic() + seconds
    while running := count_running_threads():
        if time.monotonic() > until:
            raise RuntimeError(
                f"no thread should be busy between two turns, but {running} still were after {seconds:.0f} s; "
                "measure that contender in a process of its own"
            )
        time.sleep(0.0005)


def interleaved(
    contenders: Mapping[str, Work | ContenderProcess],
    repeats: int,
    seconds: float,
    missing: dict[str, str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Measure all contenders in turn, in two runs: `best` is the minimum, `median` says how noisy it was.

    Calls in this process alternate within a run; a process has all its calls of a run in one turn, and then ends. Each
    is called at least once a run; no more rounds are begun once `seconds` have passed, or the time that `allow` gave.
    `runs` are the minima of the two runs, `peaks` the bytes that a process needed in each. A process that fails is
    named in `missing`, with its reason; without `missing` that raises `Absent`.
    """
    works = {name: one for name, one in contenders.items() if not isinstance(one, ContenderProcess)}
    processes = {name: one for name, one in contenders.items() if isinstance(one, ContenderProcess)}
    taken: dict[str, list[list[float]]] = {name: [] for name in contenders}
    peaks: dict[str, list[int]] = {name: [] for name in processes}
    rounds, budget = -(-repeats // RUNS), seconds / RUNS
    typical = {name: time_call(work) for name, work in works.items()}  # the first call: what is loaded once
    for _ in range(RUNS):
        for name, times in measure_in_turn(works, typical, rounds, budget).items():
            taken[name].append(times)
        for name, process in list(processes.items()):
            try:
                times, peak = measure_process(process, rounds, budget / len(contenders))
            except Absent as reason:
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
    """Seconds of each call: one of every work a round."""
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
    """Seconds of each call in one turn of a process, and the bytes it needed; the first counts if it is alone."""
    key = "processor_seconds" if _by_processor else "seconds"
    settle()  # of this process, which does nothing while the other works
    with process:
        first = process.ask()
        taken = [process.ask()[key] for _ in begin_rounds(rounds, seconds - first["seconds"], least=0)]
        return taken or [first[key]], process.peak


def begin_rounds(rounds: int, seconds: float, least: int = 1) -> Iterator[int]:
    """The numbers of the rounds, as long as there is time for another."""
    begun = time.perf_counter()
    for number in range(rounds):
        if number >= least and (time.perf_counter() - begun > seconds or left() < 0):
            return
        yield number


def summarize(runs: list[list[float]], peaks: list[int] | None) -> dict[str, Any]:
    calls = [seconds for run in runs for seconds in run]
    found = {"best": min(calls), "median": statistics.median_high(calls), "runs": [min(run) for run in runs]}
    return found | ({"peak": min(peaks), "peaks": peaks} if peaks else {})


def unsteady(times: Mapping[str, Mapping[str, Any]], key: str = "runs") -> dict[str, float]:
    """The contenders whose two runs do not agree, and by how many times they differ."""
    found = {name: max(one[key]) / max(min(one[key]), 1e-12) for name, one in times.items() if one.get(key)}
    return {name: round(ratio, 2) for name, ratio in found.items() if ratio > STEADY}


def find_unsteady(result: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """A line for each contender that a result says was unsteady, wherever in it."""
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
