"""How long until it is ready, and how much does it bring along?

Processes from start to end, in turn: the command, a sentence seen through the translator inside, and each library
imported up to the thing one needs of it. torch is most of it for everybody, so its own time stands beside them. Then
the packages that pip adds beyond torch, and their bytes.

    python -m bench startup [--json] [--quick]
"""

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.measuring.instruments import MiB, answer, machine, note
from bench.measuring.timing import Work, interleaved, unsteady
from bench.peers.environment import PACKAGES, ROOT, Absent, asked, command, present, python

BIN = Path(sys.executable).parent
SECONDS = 120
OURS: dict[str, list[str]] = {
    "python alone": [sys.executable, "-c", "pass"],
    "transom --version": [str(BIN / "transom"), "--version"],
    "transom --help": [str(BIN / "transom"), "--help"],
    "import torch": [sys.executable, "-c", "import torch"],
    "import transom": [sys.executable, "-c", "import transom"],
    "transom.watch at hand": [sys.executable, "-c", "import transom; transom.watch"],
    "transom see": [str(BIN / "transom"), "see", "Where do you live?"],
    "Hugging Face": [sys.executable, "-c", "from transformers import GPT2Model"],
}
IN_QUICK = ("python alone", "transom.watch at hand", "Hugging Face")
THEIRS = {
    "TransformerLens": "from transformer_lens.model_bridge import TransformerBridge",
    "nnsight": "from nnsight import NNsight",
    "BertViz": "from bertviz import head_view",
    "captum": "import captum.attr",
}


def process(command: list[str]) -> Work:
    def work() -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)

    return work


def contenders(quick: bool) -> dict[str, list[str]]:
    if quick:
        return {name: OURS[name] for name in IN_QUICK}
    found = dict(OURS)
    for peer, line in THEIRS.items():
        try:
            present(peer)
        except Absent as missing:
            note(f"{peer} is left out: {missing}")
        else:
            found[peer] = [python(), "-c", line]
    return found


def sizes(peers: list[str]) -> dict[str, dict[str, Any]]:
    """What each brings, asked of the interpreter that has it."""
    note("what each brings along …")
    here = subprocess.run(
        command("package_size", ["transom", "transformers"], interpreter=sys.executable),
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    found = json.loads(here.stdout)
    found |= asked("package_size", [PACKAGES[peer] for peer in peers], seconds=60) if peers else {}
    return found


def run(options: Namespace) -> int:
    """Measure and print."""
    commands = contenders(options.quick)
    note(f"{len(commands)} processes, in turn …")
    times = interleaved({name: process(one) for name, one in commands.items()}, 2 if options.quick else 7, SECONDS)
    result = {
        "machine": machine(),
        "seconds": {name: time["best"] for name, time in times.items()},
        "median_seconds": {name: time["median"] for name, time in times.items()},
        "not run": dict.fromkeys(THEIRS, "left out of a quick run") if options.quick else {},
        "unsteady": unsteady(times),
        "brought": sizes([peer for peer in THEIRS if peer in commands]),
    }
    answer(options, result, table(result))
    return 0


def table(result: dict[str, Any]) -> str:
    lines = [f"{'':<28}{'seconds':>9}{'median':>9}"]
    for name, seconds in result["seconds"].items():
        lines.append(f"{name:<28}{seconds:>9.2f}{result['median_seconds'][name]:>9.2f}")
    lines.append(f"\n{'beyond torch':<28}{'packages':>9}{'MiB':>9}   of which")
    for name, found in result["brought"].items():
        largest = ", ".join(f"{one} {size / MiB:.0f}" for one, size in found["largest"].items())
        start = f"{name + ' ' + found['version']:<28}"
        lines.append(f"{start}{found['packages']:>9}{found['bytes'] / MiB:>9.0f}   {largest}")
    return "\n".join(lines)
