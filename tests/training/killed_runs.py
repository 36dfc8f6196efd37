"""A training run that is killed at random moments and started again until it is done.

`python killed_runs.py FOLDER KILLS SEED` trains once in peace in FOLDER/whole, then in FOLDER/killed with at least so
many kills, and prints a line of JSON: how many kills there were, when they came, and whether all that is left of the
two runs is the same. It forks, so that torch is loaded once; everything else is as in a run that is started anew.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from small_runs import outcome, pairs_file, small_recipe

from transom.training.loop import Callback
from transom.training.train import train


class Tells(Callback):
    """Says each update as it is done."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def on_update(self, training, result) -> None:
        os.write(self.pipe, f"{result.update}\n".encode())


def run_recipe(folder: Path, name: str, updates: int):
    """A checkpoint every other update, and a judgement now and then, so that every kind of moment is met."""
    settings = {"updates": updates, "judge_every": 7, "checkpoint_every": 2, "average": 3, "keep": 2, "accumulate": 2}
    return small_recipe(folder / name, folder / "reverse.tsv", train=settings)


def started(run, pipe: int) -> int:
    """A child that trains; its exit code tells whether it came to the end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train(run, callbacks=[Tells(pipe)])
            code = 0
        finally:
            os._exit(code)
    return child


def killed(run, chance: random.Random) -> tuple[int, int]:
    """Start the run and kill it at a random moment; gives its status and the last update it told of, or 0."""
    hears, tells = os.pipe()
    child = started(run, tells)
    os.close(tells)
    with os.fdopen(hears) as lines:
        # Some are killed while they load and look at what is left, most in or between updates, judging and keeping.
        said = [lines.readline() for _ in range(chance.choice((0, 1, 2, 3, 4, 5)))]
        time.sleep(chance.uniform(0.0, 0.02 if said else 0.15))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        said += lines.readlines()
    return status, max((int(line) for line in said if line.endswith("\n")), default=0)


def in_peace(run) -> int:
    """The run to its end, in a child too: this process itself never computes, so that it has no threads to fork."""
    return os.waitpid(started(run, os.open(os.devnull, os.O_WRONLY)), 0)[1]


def main(folder: Path, kills: int, seed: int) -> dict[str, object]:
    pairs_file(folder, count=90)
    chance, moments = random.Random(seed), []
    # A start that is killed wins two or three updates, and some win none: the end is not reached before the last.
    updates = 4 * kills
    whole = run_recipe(folder, "whole", updates)
    in_peace(whole)
    run = run_recipe(folder, "killed", updates)
    status = -1
    while len(moments) < kills:
        status, update = killed(run, chance)
        if not os.WIFSIGNALED(status):
            break
        moments.append(update)
    if os.WIFSIGNALED(status):
        status = in_peace(run)
    (sha, lines), (other_sha, other_lines) = outcome(whole), outcome(run)
    return {
        "kills": len(moments),
        "moments": moments,
        "updates": updates,
        "epochs": max(line.get("epoch", 0) for line in lines) + 1,
        "ended": status,
        "same parameters": sha == other_sha,
        "same log": lines == other_lines,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    place, *numbers = sys.argv[1:]
    print(json.dumps(main(Path(place), *map(int, numbers))))
