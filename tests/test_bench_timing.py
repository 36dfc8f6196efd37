"""The clock of the bench: turns, two runs, and no contender that runs, spins or holds memory in another's turn."""

import hashlib
import json
import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

timing = pytest.importorskip("bench.measuring.timing", reason="the bench is beside the tests, in the repository")
peers = import_module("bench.peers.contender_process")

# Leaves its number and that of a process it started in a file; both would spin for ever, and so does a thread of it.
SPINNING = """
import json, subprocess, sys, threading
from bench.peers.contender_loop import answer_requests
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
open(sys.argv[1], "w").write(json.dumps([__import__("os").getpid(), child.pid]))
answer_requests(lambda: sum(range(997)))
"""
# Says of the processes in that file whether they are there.
LOOKING = """
import json, os, sys
from bench.peers.contender_loop import answer_requests
def alive():
    return [number for number in json.load(open(sys.argv[1])) if os.path.exists(f"/proc/{number}/stat")
            and open(f"/proc/{number}/stat").read().rpartition(")")[2].split()[0] not in "ZX"]
answer_requests(alive)
"""
# Says that each of its calls took as long as the next number of a list in a file, and that it needed as many bytes.
SCRIPTED = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for _ in sys.stdin:
    first, *others = json.load(open(sys.argv[1]))
    json.dump(others, open(sys.argv[1], "w"))
    said = {"seconds": first, "processor_seconds": first / 2, "peak": 100 * first, "result": first}
    print(json.dumps(said), flush=True)
"""


def process(script: str, *arguments: object) -> peers.ContenderProcess:
    return peers.ContenderProcess([sys.executable, "-c", script, *map(str, arguments)])


def scripted(path: Path, calls: list[float]) -> peers.ContenderProcess:
    path.write_text(json.dumps(calls))
    return process(SCRIPTED, path)


def alive(numbers: list[int]) -> list[int]:
    states = {number: Path(f"/proc/{number}/stat") for number in numbers}
    found = {number: file.read_text().rpartition(")")[2].split()[0] for number, file in states.items() if file.exists()}
    return [number for number, state in found.items() if state not in "ZX"]


class Clock:
    """A clock that goes on only when a work says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(timing, "read_clock", lambda: self.now)

    def work(self, *seconds: float):
        """Takes each of these in turn, and the last one again and again."""
        calls = list(seconds)

        def call() -> None:
            self.now += calls.pop(0) if len(calls) > 1 else calls[0]

        return call


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_is_there_in_its_own_turns_only(tmp_path):
    numbers, seen = tmp_path / "numbers", []
    contenders = {
        "spinning": process(SPINNING, numbers),
        "looking": process(LOOKING, numbers),
        "here": lambda: seen.append(alive(json.loads(numbers.read_text())) if numbers.exists() else []),
    }
    times = timing.measure_interleaved(contenders, repeats=2, seconds=60)
    assert set(times) == set(contenders)
    assert len(json.loads(numbers.read_text())) == 2
    assert contenders["looking"].result == []
    assert len(seen) >= 3
    assert not any(seen)
    assert alive(json.loads(numbers.read_text())) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_spinning_contender_does_spin_in_its_own_turn(tmp_path):
    with process(SPINNING, tmp_path / "numbers") as spinning:
        spinning.ask()
        numbers = json.loads((tmp_path / "numbers").read_text())
        assert alive(numbers) == numbers
        assert set(peers.group_members(numbers[0])) == set(numbers)
    assert peers.group_members(numbers[0]) == []


def test_a_process_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(peers, "ENDED_AFTER", 0.3)
    script = "import time; print('{}', flush=True)\nwhile True: time.sleep(1)"
    with process(script) as stubborn:
        number = stubborn.process.pid
        assert alive([number])
    assert not alive([number])


def test_two_runs_that_differ_are_called_unsteady(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    contenders = {
        "steady": clock.work(1.0, 1.1, 1.0, 1.14, 1.2),  # the first call is not counted
        "flaky": clock.work(2.0, 2.0, 2.5, 2.62),
        "steady process": scripted(tmp_path / "steady", [9, 4, 3, 9, 4, 3]),
        "flaky process": scripted(tmp_path / "flaky", [9, 4, 3, 4, 4, 5]),
    }
    times = timing.measure_interleaved(contenders, repeats=4, seconds=1e6)
    assert {name: [round(least, 9) for least in one["runs"]] for name, one in times.items()} == {
        "steady": [1.0, 1.14],
        "flaky": [2.0, 2.62],
        "steady process": [3, 3],
        "flaky process": [3, 4],
    }
    assert times["flaky"]["best"] == pytest.approx(2.0)
    assert timing.unsteady_contenders(times) == {"flaky": 1.31, "flaky process": 1.33}
    assert times["flaky process"]["peaks"] == [300, 500]
    assert timing.unsteady_contenders(times, "peaks") == {"flaky process": 1.67}


def test_contenders_take_turns_and_all_come_twice(monkeypatch):
    monkeypatch.setattr(timing, "SHORT", 0.0)
    order: list[str] = []
    timing.measure_interleaved({name: lambda name=name: order.append(name) for name in "abc"}, repeats=4, seconds=60)
    assert "".join(order) == "abc" + "abcabc" * timing.RUNS


def test_a_short_work_is_done_once_more_before_it_is_timed(monkeypatch):
    clock, calls = Clock(monkeypatch), []
    works = {"short": clock.work(0.01), "long": clock.work(1.0)}
    counted = {name: lambda name=name, work=work: (calls.append(name), work()) for name, work in works.items()}
    times = timing.measure_interleaved(counted, repeats=2, seconds=1e6)
    assert (calls.count("short"), calls.count("long")) == (5, 3)
    assert times["short"]["best"] == pytest.approx(0.01)


def test_no_more_rounds_are_begun_than_there_is_time_for(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "_until", 0.0)
    calls: list[int] = []
    lasting = scripted(tmp_path / "lasting", [7, 5, 3, 2])
    times = timing.measure_interleaved({"work": lambda: calls.append(1), "process": lasting}, repeats=40, seconds=60)
    assert len(calls) == 1 + 2 * timing.RUNS
    assert times["process"]["runs"] == [7, 5]


def test_processor_time_is_that_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "_by_processor", True)
    times = timing.measure_interleaved({"process": scripted(tmp_path / "calls", [9, 4, 9, 4])}, repeats=2, seconds=60)
    assert times["process"]["best"] == 2
    assert timing.clock_name() == "of the processor"


def test_a_process_that_fails_is_missing_with_its_reason(tmp_path):
    contenders = {"failing": process("raise ValueError('there is no such peer')"), "here": lambda: None}
    missing: dict[str, str] = {}
    assert set(timing.measure_interleaved(contenders, 2, 60, missing)) == {"here"}
    assert missing == {"failing": "it ended with ValueError: there is no such peer"}
    with pytest.raises(peers.PeerUnavailable, match=r"^it ended with ValueError: there is no such peer$"):
        timing.measure_interleaved(contenders, 2, 60)
    broken = process("print('{}', flush=True); input(); raise SystemExit('it broke at work')")
    with pytest.raises(peers.PeerUnavailable, match=r"^it ended with it broke at work$"), broken:
        broken.ask()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_busy_thread_is_counted_and_a_waiting_one_is_not():
    over = threading.Event()
    waiting = threading.Thread(target=over.wait)
    busy = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha512", b"", b"", 200_000))  # without the GIL
    waiting.start()
    timing.settle(60)
    busy.start()
    assert timing.count_running_threads() == 1
    busy.join()
    over.set()
    waiting.join()


def test_no_turn_begins_while_threads_of_an_earlier_one_are_busy(monkeypatch):
    counts = [2, 1, 0, 5]
    monkeypatch.setattr(timing, "count_running_threads", lambda: counts.pop(0))
    timing.settle()
    assert counts == [5]
    said = (
        r"^no thread should be busy between two turns, but 5 still were after 0 s; measure that contender in a process"
    )
    with pytest.raises(RuntimeError, match=said + " of its own$"):
        timing.settle(0)


def test_a_result_says_where_it_is_unsteady():
    result = {
        "machine": {"threads": 2},
        "unsteady": {"Transom": 1.5},
        "compared": [{"shape": (1, 2), "kind": "full", "unsteady": {}}, {"tokens": 7, "unsteady": {"SDPA": 1.204}}],
    }
    assert list(timing.find_unsteady(result)) == [
        "unsteady: two runs of Transom differ 1.50 times",
        "unsteady: compared, 7: two runs of SDPA differ 1.20 times",
    ]
