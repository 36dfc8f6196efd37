"""The other end of a `ContenderProcess`: runs a contender once for each request, in any interpreter that has it."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Work = Callable[[], object]


def read_status_bytes(field: str) -> int:
    """Bytes resident now (VmRSS), or at the peak since the last reset (VmHWM)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


def reset_peak_memory() -> int:
    """Reset the peak to what is resident now, and return that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return read_status_bytes("VmRSS")


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


def answer_requests(work: Work, plain: bool = True) -> None:
    """Work once for each line of input; print the result (if it is `plain` data), the seconds and the peak bytes."""
    before = reset_peak_memory()
    print_json({"ready": True})
    for _ in sys.stdin:
        began, used = time.perf_counter(), time.process_time()
        result = work()
        seconds, processor_seconds = time.perf_counter() - began, time.process_time() - used
        answer = {
            "seconds": seconds,
            "processor_seconds": processor_seconds,
            "peak": read_status_bytes("VmHWM") - before,
        }
        print_json({**answer, "result": result if plain else None})
        del result
