"""What each peer can do, for docs/compare.md: runs the probes of every peer on small models.

    python -m bench.features [--json]      every peer, each in the interpreter that has it (`make bench-peers`)

Each line is a probe and its result; of an error, the peer's own message.
"""

import json
import subprocess
import sys
import warnings

import torch

from bench.peers.environment import PACKAGES, ROOT, failure_reason, peer_python, peer_version
from bench.peers.probes import PEERS


def run_probes(name: str) -> dict[str, str]:
    """The result of each probe of a peer, in this interpreter."""
    found = {}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, probe in PEERS[name][1]().items():
            try:
                found[what] = probe()
            except Exception as error:  # any error of the peer is the result
                found[what] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
    return found


def run_probes_in_process(name: str) -> dict[str, str]:
    """The same in a process of the interpreter that has the peer."""
    interpreter = sys.executable if name in ("PyTorch", "Hugging Face", "Transom") else peer_python()
    command = [interpreter, "-m", "bench.features", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"": failure_reason(done.stderr, 1)}


def main() -> None:
    if len(sys.argv) == 2 and sys.argv[1] in PEERS:
        print(json.dumps(run_probes(sys.argv[1])))
        return
    found = {name: run_probes_in_process(name) for name in PEERS}
    if "--json" in sys.argv:
        print(json.dumps({"found": found, "versions": {peer: peer_version(peer) for peer in PACKAGES}}, indent=1))
        return
    for name, lines in found.items():
        print(f"{name} {peer_version(PEERS[name][0]) if PEERS[name][0] else ''}".strip())
        for probe, result in lines.items():
            print(f"  {probe:<36}{result}")


if __name__ == "__main__":
    main()
