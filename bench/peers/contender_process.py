"""A contender in a process of its own, which exists during its turn and at no other time.

Between its turns there is no process, so the contender cannot run, spin or hold memory. Its module (under any
interpreter) prepares what its arguments name, says that it is ready, and answers each line of input with a line of JSON
(see `contender_loop`): seconds on the clock and of the processor, its peak memory, and its result.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENDED_AFTER = 10.0  # seconds that a process may take to end by itself


class PeerUnavailable(Exception):
    """A peer is not installed or failed; the message says why."""


def failure_reason(stderr: str, code: int) -> str:
    """The last line that a failed process wrote, or how it ended."""
    return (stderr.strip().splitlines() or [f"code {code}" if code >= 0 else f"signal {-code}"])[-1][:160]


def group_members(group: int) -> list[int]:
    """The live processes of a group."""
    found = []
    for folder in Path("/proc").iterdir() if sys.platform == "linux" else ():
        if folder.name.isdigit():
            try:
                state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                continue
            if int(its_group) == group and state not in "ZX":
                found.append(int(folder.name))
    return found


class ContenderProcess:
    """A process that starts on entry and ends on exit, with all its children; `ask` runs its work once."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.process: subprocess.Popen[str] | None = None
        self.peak = 0  # peak bytes of the work in the last turn
        self.result: Any = None  # of the last call

    def __enter__(self) -> "ContenderProcess":
        self.stderr = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, text=True, cwd=ROOT,
            start_new_session=True,
        )  # fmt: skip
        try:
            self.read_answer()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self) -> dict[str, Any]:
        """Run the work once; the answer has the seconds by its own clock."""
        assert self.process is not None, "only during its turn"
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # if it has ended, the missing answer below says why
            self.process.stdin.write("work\n")
            self.process.stdin.flush()
        answer = self.read_answer()
        self.peak, self.result = answer["peak"], answer["result"]
        return answer

    def read_answer(self) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):  # some peers print a greeting to stdout
                return json.loads(line)
        code = self.process.wait()
        self.stderr.seek(0)
        raise PeerUnavailable(f"it ended with {failure_reason(self.stderr.read(), code)}")

    def end(self) -> None:
        """Close its input, which ends it; then kill what is left of its group, and wait until nothing is."""
        assert self.process is not None
        group, process, self.process = self.process.pid, self.process, None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # if it has ended already
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDED_AFTER)
        if group_members(group):
            os.killpg(group, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        until = time.monotonic() + ENDED_AFTER
        while group_members(group):
            if time.monotonic() > until:
                raise RuntimeError(f"process group {group} was killed, but {group_members(group)} are still there")
            time.sleep(0.001)
        self.stderr.close()
