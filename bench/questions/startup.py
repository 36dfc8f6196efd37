"""How long until the library is ready, and how much does it install?

Times whole processes, in turn: the command, `transom see` on a sentence, and the import of each library up to what a
user needs of it. For all of them torch is most of it, so the import of torch is timed too. Then the packages that pip
adds beyond torch, and their bytes.

    python -m bench startup [--json] [--quick]
"""

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.measuring.instruments import MiB, machine_info, note, print_answer
from bench.measuring.timing import Work, measure_interleaved, unsteady_contenders
from bench.peers.environment import (
    PACKAGES,
    ROOT,
    PeerUnavailable,
    module_command,
    peer_python,
    require_peer,
    run_module,
)

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


def prepare_process(command: list[str]) -> Work:
    def work() -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)

    return work


def contender_commands(quick: bool) -> dict[str, list[str]]:
    if quick:
        return {name: OURS[name] for name in IN_QUICK}
    found = dict(OURS)
    for peer, line in THEIRS.items():
        try:
            require_peer(peer)
        except PeerUnavailable as missing:
            note(f"{peer} is left out: {missing}")
        else:
            found[peer] = [peer_python(), "-c", line]
    return found


def measure_packages(peers: list[str]) -> dict[str, dict[str, Any]]:
    """What each library installs, measured in the interpreter that has it."""
    note("packages of each …")
    here = subprocess.run(
        module_command("package_size", ["transom", "transformers"], interpreter=sys.executable),
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    found = json.loads(here.stdout)
    found |= run_module("package_size", [PACKAGES[peer] for peer in peers], seconds=60) if peers else {}
    return found


def run(options: Namespace) -> int:
    """Measure and print."""
    commands = contender_commands(options.quick)
    note(f"{len(commands)} processes, in turn …")
    times = measure_interleaved(
        {name: prepare_process(one) for name, one in commands.items()}, 2 if options.quick else 7, SECONDS
    )
    result = {
        "machine": machine_info(),
        "seconds": {name: time["best"] for name, time in times.items()},
        "median_seconds": {name: time["median"] for name, time in times.items()},
        "not run": dict.fromkeys(THEIRS, "left out of a quick run") if options.quick else {},
        "unsteady": unsteady_contenders(times),
        "brought": measure_packages([peer for peer in THEIRS if peer in commands]),
    }
    print_answer(options, result, render_table(result))
    return 0


def render_table(result: dict[str, Any]) -> str:
    lines = [f"{'':<28}{'seconds':>9}{'median':>9}"]
    for name, seconds in result["seconds"].items():
        lines.append(f"{name:<28}{seconds:>9.2f}{result['median_seconds'][name]:>9.2f}")
    lines.append(f"\n{'beyond torch':<28}{'packages':>9}{'MiB':>9}   of which")
    for name, found in result["brought"].items():
        largest = ", ".join(f"{one} {size / MiB:.0f}" for one, size in found["largest"].items())
        start = f"{name + ' ' + found['version']:<28}"
        lines.append(f"{start}{found['packages']:>9}{found['bytes'] / MiB:>9.0f}   {largest}")
    return "\n".join(lines)
