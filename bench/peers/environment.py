"""Where the peers live, and how one of them is set to work.

Peers want packages of their own, and so an environment of their own: `.venv-peers`, which `make bench-peers` makes
from requirements.txt beside this file, or the one whose python TRANSOM_BENCH_PEERS names. A peer is either run once
(`asked`), or measured in turns (`contender`), each in a process that ends with the turn.
"""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

from bench.peers.contender_process import ROOT, Absent, ContenderProcess, last_words

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


def contender(module: str, *arguments: object, interpreter: str | None = None) -> ContenderProcess:
    """A module of this folder as a contender whose process lives only during its turns."""
    return ContenderProcess(command(module, *arguments, interpreter=interpreter))


def own_contender(module: str, arguments: list[Any], threads: int) -> ContenderProcess:
    """What `prepare` of a question's module gives for these arguments, in this interpreter; measured like a peer."""
    return contender("question_contender", module, arguments, threads, interpreter=sys.executable)
