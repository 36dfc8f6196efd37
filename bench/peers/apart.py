"""The other end of `environment.Apart`: a contender that waits to be told, in any interpreter that has it."""

import json
import sys
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


def wait(prepared: Prepared, **told: Any) -> None:
    """Work at each line of input: what the work gave, and the bytes it has needed so far beyond what was there."""
    before = set_back()
    say({"ready": True, **told})
    for _ in sys.stdin:
        found = prepared()
        say({"found": found, "peak": resident("VmHWM") - before})
