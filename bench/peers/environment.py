"""The environment of the peers, and how a peer is run in it.

Peers need packages that Transom does not, so they have their own environment: `.venv-peers`, which `make bench-peers`
builds from requirements.txt beside this file, or the one whose python TRANSOM_BENCH_PEERS names. A peer is run once
(`run_module`) or measured in turns (`module_contender`); each turn is a process of its own.
"""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

from bench.peers.contender_process import ROOT, ContenderProcess, PeerUnavailable, failure_reason

INSTALL_COMMAND = "make bench-peers"

# Each peer, and the package whose version is printed with it.
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
    "ContextCite": "context-cite",
}


def peer_python() -> str:
    """The interpreter that has the peers; Transom's own if there is no other."""
    named = os.environ.get("TRANSOM_BENCH_PEERS")
    own = ROOT / ".venv-peers" / "bin" / "python"
    return named or (str(own) if own.exists() else sys.executable)


@cache
def installed_versions() -> dict[str, str]:
    """The version of each installed package of PACKAGES: in the peers' environment, otherwise in this one."""
    script = (
        "import importlib.metadata as m, json, sys\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    found: dict[str, str] = {}
    for interpreter in (sys.executable, peer_python()):
        command = [interpreter, "-c", script, *sorted(set(PACKAGES.values()))]
        found |= json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def peer_version(peer: str) -> str:
    return installed_versions().get(PACKAGES[peer], "not installed")


def require_peer(peer: str) -> str:
    """The version of a peer; raises `PeerUnavailable` if it is not installed."""
    if PACKAGES[peer] not in installed_versions():
        raise PeerUnavailable(f"{PACKAGES[peer]} is not installed; to have it: {INSTALL_COMMAND}")
    return peer_version(peer)


def module_command(module: str, *arguments: object, interpreter: str | None = None) -> list[str]:
    """The command that runs a module of this folder, by default in the peers' interpreter, which may lack Transom."""
    return [interpreter or peer_python(), "-m", f"bench.peers.{module}", *(json.dumps(one) for one in arguments)]


def run_module(module: str, *arguments: object, seconds: float) -> Any:
    """Run a module of this folder once in the peers' interpreter; returns the JSON it prints."""
    try:
        done = subprocess.run(
            module_command(module, *arguments), capture_output=True, text=True, check=False, cwd=ROOT, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise PeerUnavailable(f"it was not done after {seconds:.0f} s") from None
    if done.returncode:
        raise PeerUnavailable(f"it ended with {failure_reason(done.stderr, done.returncode)}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def module_contender(module: str, *arguments: object, interpreter: str | None = None) -> ContenderProcess:
    """A module of this folder as a contender with a process for each turn."""
    return ContenderProcess(module_command(module, *arguments, interpreter=interpreter))


def question_contender(module: str, arguments: list[Any], threads: int) -> ContenderProcess:
    """The work that `prepare` of a question's module returns, in this interpreter; measured like a peer."""
    return module_contender("question_contender", module, arguments, threads, interpreter=sys.executable)
