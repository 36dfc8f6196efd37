"""Peak memory in a process of its own, facts about the machine, progress messages, printed answers; time: `timing`."""

import json
import resource
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from bench.measuring.timing import Work, clock_name, find_unsteady

MiB = 2**20
SHARE = 0.8  # of the free memory: a contender that would need more is not run


def free_memory() -> int:
    """Bytes available without swapping."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def read_resident_memory() -> tuple[int, int]:
    """Bytes resident now, and at the peak since the last reset."""
    status = Path("/proc/self/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return tuple(int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))  # pyright: ignore[reportReturnType]


def measure_peak_here(prepare: Callable[..., Work], arguments: tuple[Any, ...]) -> int:
    """Peak bytes of the prepared work, beyond those resident before it; called in a process of its own."""
    torch.set_num_threads(2)
    work = prepare(*arguments)
    if sys.platform != "linux":
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is resident now
    before = read_resident_memory()[0]
    work()
    return max(0, read_resident_memory()[1] - before)


def measure_peak_memory(prepare: Callable[..., Work], *arguments: Any) -> int:
    """Peak bytes of the prepared work in a new process, so that memory left by earlier measurements does not count.

    On Linux the process is forked from one that has only imported what it needs, which saves seconds each time.
    """
    context = get_context("forkserver" if sys.platform == "linux" else "spawn")
    if sys.platform == "linux":
        context.set_forkserver_preload(["torch", prepare.__module__])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measure_peak_here, prepare, arguments).result()


def machine_info() -> dict[str, object]:
    """Processor, threads, clock and torch: what the figures were measured on."""
    named = [line.split(":")[1].strip() for line in read_cpuinfo() if line.startswith("model name")]
    return {
        "cpu": named[0] if named else "unknown",
        "threads": torch.get_num_threads(),
        "time": clock_name(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def read_cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def note(text: str) -> None:
    """Print progress to stderr; stdout is for the result."""
    print(text, file=sys.stderr, flush=True)


def format_facts(facts: Mapping[str, object]) -> str:
    """Names and values in one line: `threads 2, torch 2.13.0`."""
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def print_answer(options: Namespace, result: object, text: str) -> None:
    """Print the result of a question: as JSON with `--json`, otherwise as text."""
    print(json.dumps(result, indent=1) if options.json else "\n".join([text, *find_unsteady(result)]))
