"""The instruments beside the clock (`timing`): memory as the peak of a process of its own, machine, notes, answers."""

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
SHARE = 0.8  # of the free memory that a contender may be expected to take


def free() -> int:
    """Bytes that could be had without swapping."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def resident() -> tuple[int, int]:
    """Bytes resident now, and at the peak since it was last reset."""
    status = Path("/proc/self/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return tuple(int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))  # pyright: ignore[reportReturnType]


def peak_of(prepare: Callable[..., Work], arguments: tuple[Any, ...]) -> int:
    """Bytes that the prepared work needs at its peak, beyond what was there before; runs in a process of its own."""
    torch.set_num_threads(2)
    work = prepare(*arguments)
    if sys.platform != "linux":
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is resident now
    before = resident()[0]
    work()
    return max(0, resident()[1] - before)


def peak_memory(prepare: Callable[..., Work], *arguments: Any) -> int:
    """`peak_of`, in a new process: what an earlier measurement left in the allocator does not count.

    On Linux it is forked from one that has imported what it needs and done nothing since: that saves seconds a
    measurement.
    """
    context = get_context("forkserver" if sys.platform == "linux" else "spawn")
    if sys.platform == "linux":
        context.set_forkserver_preload(["torch", prepare.__module__])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(peak_of, prepare, arguments).result()


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    named = [line.split(":")[1].strip() for line in cpu_lines() if line.startswith("model name")]
    return {
        "cpu": named[0] if named else "unknown",
        "threads": torch.get_num_threads(),
        "time": clock_name(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def cpu_lines() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def note(text: str) -> None:
    """Progress, on stderr: stdout is for the result."""
    print(text, file=sys.stderr, flush=True)


def spelled(facts: Mapping[str, object]) -> str:
    """Name and value of each, in one line."""
    return ", ".join(f"{name} {what}" for name, what in facts.items())


def answer(options: Namespace, result: object, text: str) -> None:
    """The end of every question: the result as JSON where that was asked for, as text where not."""
    print(json.dumps(result, indent=1) if options.json else "\n".join([text, *find_unsteady(result)]))
