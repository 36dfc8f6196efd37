"""Where the peers live, and how one of them is set to work.

Peers want packages of their own, and so an environment of their own: `.venv-peers`, which `make bench-peers` makes
from requirements.txt beside this file, or the one whose python TRANSOM_BENCH_PEERS names. A peer is either run once
(`asked`), or kept waiting in a process of its own and told to work in its turn (`Apart`), so that its times are taken
between Transom's.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
INSTALLED = "make bench-peers"

# Each peer, and the package whose version it is known by.
PACKAGES = {
    "SDPA": "torch",
    "eager attention": "torch",
    "FlexAttention": "torch",
    "nn.Transformer": "torch",
    "Marian": "transformers",
    "Hugging Face": "transformers",
    "Hugging Face eager": "transformers",
    "CTranslate2": "ctranslate2",
    "TransformerLens": "transformer-lens",
    "nnsight": "nnsight",
    "BertViz": "bertviz",
    "JoeyNMT": "joeynmt",
    "llama.cpp": "cyllama",
    "captum": "captum",
}


class Absent(Exception):
    """A peer that is not here, or that did not work; the message says why."""


def python() -> str:
    """The interpreter that has the peers: Transom's own if there is none of theirs."""
    named = os.environ.get("TRANSOM_BENCH_PEERS")
    own = ROOT / ".venv-peers" / "bin" / "python"
    return named or (str(own) if own.exists() else sys.executable)


@cache
def versions() -> dict[str, str]:
    """The version of each package that a peer is known by: of the peers' environment, then of this one."""
    script = (
        "import importlib.metadata as m, json, sys\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    found: dict[str, str] = {}
    for interpreter in (sys.executable, python()):
        command = [interpreter, "-c", script, *sorted(set(PACKAGES.values()))]
        found |= json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def version(peer: str) -> str:
    return versions().get(PACKAGES[peer], "not installed")


def present(peer: str) -> str:
    """Its version; `Absent` if it is not installed."""
    if PACKAGES[peer] not in versions():
        raise Absent(f"{PACKAGES[peer]} is not installed; to have it: {INSTALLED}")
    return version(peer)


def command(module: str, *arguments: object, interpreter: str | None = None) -> list[str]:
    """A module of this folder, under the peers' interpreter, which need not have Transom, or under a named one."""
    return [interpreter or python(), "-m", f"bench.peers.{module}", *(json.dumps(one) for one in arguments)]


def last_words(text: str, code: int) -> str:
    return (text.strip().splitlines() or [f"code {code}" if code >= 0 else f"signal {-code}"])[-1][:160]


def asked(module: str, *arguments: object, seconds: float) -> Any:
    """What the module prints as JSON when it is run once."""
    try:
        done = subprocess.run(
            command(module, *arguments), capture_output=True, text=True, check=False, cwd=ROOT, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise Absent(f"it was not done after {seconds:.0f} s") from None
    if done.returncode:
        raise Absent(f"it ended with {last_words(done.stderr, done.returncode)}")
    return json.loads(done.stdout.strip().splitlines()[-1])


class Apart:
    """A contender in a process of its own, which works when it is called.

    The module is told what to prepare by its arguments; then it answers each line of input with a line of JSON.
    """

    def __init__(self, module: str, *arguments: object) -> None:
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            command(module, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints,
            text=True, cwd=ROOT,
        )  # fmt: skip
        self.told = self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):  # some peers greet on stdout
                return json.loads(line)
        code = self.process.wait()
        self.complaints.seek(0)
        raise Absent(f"it ended with {last_words(self.complaints.read(), code)}")

    def ask(self, what: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.answer()

    def __call__(self) -> Any:
        return self.ask("work")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.complaints.close()
