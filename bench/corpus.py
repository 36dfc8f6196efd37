"""How much memory does training take, over the size of the corpus?

Pairs of random words, in files of several sizes. A process of its own tokenises each into a token store and trains a
small translator on it for a few updates, while its anonymous resident memory is read from /proc (Linux): what a process
cannot give back without losing it, unlike pages of files. The smallest corpora are also trained from memory. The bar:
with a store the largest corpus takes at most 1.2 times the memory of the smallest, and at most 600 MiB.

    python -m bench.corpus [MB …] [--json]         (sizes in MB; 2,000 need half an hour and 5 GB of disk)
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring.instruments import MiB, machine_info, note
from bench.peers.environment import ROOT

MB = 10**6
SIZES = (8, 64, 256)  # MB
FROM_MEMORY = 64  # MB: larger ones are trained from the store alone
MOST_MIB, FLAT = 600, 1.2
WORDS, VOCABULARY, UPDATES = 30_000, 8_000, 30


def write_pairs(path: Path, size: int) -> int:
    """A TSV of about `size` bytes; returns the number of pairs."""
    rng, count = np.random.default_rng(1), 0
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(WORDS)]
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            lengths = rng.integers(2, 18, (20_000, 2))
            # Rare words are rare, as in language: ranks by the square of a uniform number.
            ranks = (rng.random(int(lengths.sum())) ** 2 * WORDS).astype(int).tolist()
            lines, first = [], 0
            for source, target in lengths.tolist():
                middle, end = first + source, first + source + target
                sides = (" ".join(words[rank] for rank in part) for part in (ranks[first:middle], ranks[middle:end]))
                lines.append("\t".join(sides))
                first = end
            file.write("\n".join(lines) + "\n")
            count += len(lines)
    return count


def train_here(corpus: str, folder: str, store: bool) -> None:
    """A short training; called in a process of its own. Prints when the data is ready."""
    from transom.training.loop import Callback
    from transom.training.recipe import parse_recipe
    from transom.training.train import train

    class Report(Callback):
        def on_note(self, text: str) -> None:
            print(text, file=sys.stderr, flush=True)

        def on_start(self, training: Any) -> None:
            print("ready", flush=True)

    sizes = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 128, "d_hidden": 256, "heads": 4}
    data = {"train": corpus, "format": "tsv", "held_out": 100, "test": 100, "longest": 64}
    table = {
        "task": "translate",
        "folder": folder,
        "data": {**data, **({"store": f"{folder}/store"} if store else {})},
        "tokens": {"kind": "bpe", "vocabulary": VOCABULARY},
        "model": sizes,
        "train": {
            "tokens": 2048,
            "updates": UPDATES,
            "judge_every": UPDATES,
            "checkpoint_every": UPDATES,
            "threads": 1,
        },
        "judge": {"write": False},
    }
    train(parse_recipe(table, "bench"), callbacks=[Report()])


def anonymous_memory(process: int) -> int:
    """Bytes of a process that no file backs; 0 when it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def measure_training(corpus: Path, folder: Path, store: bool) -> dict[str, float]:
    """Peaks of anonymous memory until the data is ready and while training, in MiB, and the seconds of each."""
    command = [sys.executable, "-m", "bench.corpus", "--child", str(corpus), str(folder), str(int(store))]
    begun, peaks, ready = time.monotonic(), [0, 0], 0.0
    with (folder.parent / "ready").open("w+") as said:
        process = subprocess.Popen(command, stdout=said, cwd=ROOT)
        try:
            while process.poll() is None:
                if not ready and (folder.parent / "ready").stat().st_size:
                    ready = time.monotonic()
                peaks[bool(ready)] = max(peaks[bool(ready)], anonymous_memory(process.pid))
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"the training of {corpus} ended with code {process.returncode}; its words are above")
    ended = time.monotonic()
    return {
        "data_MiB": peaks[0] / MiB,
        "training_MiB": peaks[1] / MiB,
        "data_seconds": ready - begun,
        "training_seconds": ended - ready,
    }


def measure_size(size: int) -> list[dict[str, Any]]:
    """A corpus of so many MB, from the store, and from memory if it is small."""
    rows = []
    for store in (True, False) if size <= FROM_MEMORY else (True,):
        with tempfile.TemporaryDirectory(prefix="bench-corpus-") as folder:
            path = Path(folder) / "pairs.tsv"
            pairs = write_pairs(path, size * MB)
            note(f"{size} MB, {pairs:,} pairs, from {'the store' if store else 'memory'} …")
            found = measure_training(path, Path(folder) / "run", store)
            rows.append({"MB": size, "pairs": pairs, "from": "store" if store else "memory", **found})
    return rows


def measure_sizes(sizes: tuple[int, ...]) -> dict[str, Any]:
    return {"machine": machine_info(), "corpora": [row for size in sizes for row in measure_size(size)]}


def is_flat(result: dict[str, Any]) -> bool:
    peaks = [max(row["data_MiB"], row["training_MiB"]) for row in result["corpora"] if row["from"] == "store"]
    return max(peaks) <= min(MOST_MIB, FLAT * peaks[0])


def render_table(result: dict[str, Any]) -> str:
    lines = [f"{'MB':>6}{'pairs':>12}  {'from':<8}{'data MiB':>10}{'training MiB':>14}{'data s':>9}{'training s':>12}"]
    for row in result["corpora"]:
        numbers = f"{row['data_MiB']:>10.0f}{row['training_MiB']:>14.0f}"
        seconds = f"{row['data_seconds']:>9.0f}{row['training_seconds']:>12.0f}"
        lines.append(f"{row['MB']:>6}{row['pairs']:>12,}  {row['from']:<8}{numbers}{seconds}")
    verdict = "yes" if is_flat(result) else "NO"
    lines.append(f"\nanonymous memory flat (≤ {FLAT} times) and ≤ {MOST_MIB} MiB with a store: {verdict}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus")
    parser.add_argument("sizes", nargs="*", type=int, metavar="MB", help="sizes of corpora")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    options = parser.parse_args()
    if options.child:
        train_here(options.child[0], options.child[1], bool(int(options.child[2])))
        return 0
    result = measure_sizes(tuple(options.sizes) or SIZES)
    print(json.dumps(result, indent=2) if options.json else render_table(result))
    return 0 if is_flat(result) else 1


if __name__ == "__main__":
    raise SystemExit(main())
