"""What docs/compare.md says of each peer, tried out on small models with random parameters.

    python -m bench.features [--json]      every peer, each in the interpreter that has it (`make bench-peers`)

Each line is a thing tried and what came of it, in the peer's own words where it was an error.
"""

import json
import subprocess
import sys
import warnings

import torch

from bench.peers.environment import PACKAGES, ROOT, last_words, python, version
from bench.peers.probes import PEERS


def tried(name: str) -> dict[str, str]:
    """What came of each probe, in this interpreter."""
    found = {}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, probe in PEERS[name][1]().items():
            try:
                found[what] = probe()
            except Exception as error:  # what a peer may say is not foreseen, and is the answer
                found[what] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
    return found


def asked(name: str) -> dict[str, str]:
    """The same, in the interpreter that has the peer."""
    interpreter = sys.executable if name in ("PyTorch", "Hugging Face", "Transom") else python()
    command = [interpreter, "-m", "bench.features", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"": last_words(done.stderr, 1)}


def main() -> None:
    if len(sys.argv) == 2 and sys.argv[1] in PEERS:
        print(json.dumps(tried(sys.argv[1])))
        return
    found = {name: asked(name) for name in PEERS}
    if "--json" in sys.argv:
        print(json.dumps({"found": found, "versions": {peer: version(peer) for peer in PACKAGES}}, indent=1))
        return
    for name, lines in found.items():
        print(f"{name} {version(PEERS[name][0]) if PEERS[name][0] else ''}".strip())
        for what, came in lines.items():
            print(f"  {what:<36}{came}")


if __name__ == "__main__":
    main()
