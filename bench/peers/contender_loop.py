"""The other end of a `ContenderProcess`: runs a contender once for each request, in any interpreter that has it."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Prepared = Callable[[], object]


def resident(word: str) -> int:
    """Bytes resident now (VmRSS), or at the peak since it was last set back (VmHWM)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[word].split()[0]) * 1024


def set_back() -> int:
    """Set the peak back to what is resident now, and give that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def wait(prepared: Prepared, plain: bool = True) -> None:
    """Work at each line of input: what it gave (if that is `plain` data), how long it took, and the bytes it needed."""
    before = set_back()
    say({"ready": True})
    for _ in sys.stdin:
        began, used = time.perf_counter(), time.process_time()
        found = prepared()
        seconds, processor_seconds = time.perf_counter() - began, time.process_time() - used
        answer = {"seconds": seconds, "processor_seconds": processor_seconds, "peak": resident("VmHWM") - before}
        say({**answer, "found": found if plain else None})
        del found
