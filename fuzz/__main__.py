"""`python -m fuzz [TARGET …]`: random and damaged input for everything that Transom takes from outside.

Each target is a file of `targets/`. One line of counts is printed per target. A failure is printed with the seed and
the number of its input: `python -m fuzz TARGET --seed S --case N` makes the same input again.
"""

import argparse
import secrets
from importlib import import_module
from typing import Any

from fuzz.campaign import run_campaign

TARGETS: dict[str, str] = {
    "lesson": "lessons (TOML): read, worked out, checked, corrected",
    "recipe": "recipes (TOML), with --set on top",
    "settings": "--set key=value alone",
    "trace": "trace files: header, numbers, sums; every tensor touched",
    "replay": "replay files",
    "model_folder": "config, manifest, headers, shards and tokenizer of a model folder",
    "tokenizer": "tokenizer.json of every kind",
    "corpus": "corpora in every format, .gz too",
    "vectors": "word vectors in every format, .gz and fastText's .bin too",
    "journal": "the log of a run, and the sums of `transom heads`",
    "hugging_face": "a Hugging Face folder, as far as the commands use it",
    "gguf": "GGUF files: header, metadata, tensors and tokenizer",
    "checkpoint": "checkpoints of a training run, damaged or forged, believed and gone on from",
    "requests": "requests to the local page: routes, fields, tokens, and bytes that are nearly HTTP",
    "lesson_settings": "lessons with settings put in, taken out and swapped, judged and corrected",
    "attend": "attention against float64: dtypes, engines, sizes, strides, masks, biases, and what hides behind them",
    "sight": "weights, scores, statistics, strongest keys, maps and receipts against float64",
}


def parse_options() -> argparse.Namespace:
    listed = "\n".join(f"  {name:<14}{what}" for name, what in TARGETS.items())
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", epilog=f"targets:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="what to fuzz; everything by default")
    parser.add_argument("--inputs", type=int, default=10_000_000, help="at most so many inputs per target")
    parser.add_argument("--seconds", type=float, default=20.0, help="at most so long per target (default 20)")
    parser.add_argument("--seed", type=int, default=None, help="by default a new one, which is printed")
    parser.add_argument("--case", type=int, default=None, help="only the input of this number")
    options = parser.parse_args()
    for name in options.targets:
        if name not in TARGETS:
            parser.error(f"there is no target {name!r}; there is {', '.join(TARGETS)}")
    return options


def main() -> int:
    options = parse_options()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    failed = False
    for name in options.targets or TARGETS:
        target: Any = import_module(f"fuzz.targets.{name}")
        report = run_campaign(name, target, seed, options.inputs, options.seconds, options.case)
        print(report.summary(), flush=True)
        for failure in report.failures:
            print(f"  {name} {failure}", flush=True)
        failed = failed or bool(report.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
