"""Training compiled and not: `python compiled_runs.py FOLDER` prints a line of JSON that compares them.

A process of its own, because the shape checks of the tests are no code that can be compiled.
"""

import json
import sys
from pathlib import Path

import torch
from small_runs import outcome, pairs_file, recipe
from torch._dynamo.utils import counters

from transom.run.parallel import World
from transom.run.tasks import TASKS
from transom.run.train import train
from transom.run.training import Callback, Training

SMALL = {"optimizer": {"eps": 0.01}, "model": {"dropout": 0.3}}


class Stop(Callback):
    """Ends a run without ceremony after five updates."""

    def updated(self, training, step) -> None:
        if step.update == 5:
            raise KeyboardInterrupt


def training(folder: Path, name: str, compile: bool) -> Training:
    asked = recipe(folder / name, folder / "reverse.tsv", train={"compile": compile}, **SMALL)
    return Training(asked, TASKS[asked.task](asked, folder / name, print), World())


def main(folder: Path) -> dict[str, object]:
    pairs_file(folder)
    plain, compiled = (training(folder, name, name == "compiled") for name in ("plain", "compiled"))
    steps = [(plain.update(), compiled.update()) for _ in range(3)]
    parameters = zip(plain.model.parameters(), compiled.model.parameters(), strict=True)
    differences = [float((ours - theirs).detach().abs().max()) for ours, theirs in parameters]
    told = {"updates": 7, "judge_every": 4, "compile": True}
    whole, stopped = (recipe(folder / name, folder / "reverse.tsv", train=told, **SMALL) for name in ("one", "two"))
    train(whole)
    try:
        train(stopped, callbacks=[Stop()])
    except KeyboardInterrupt:
        train(stopped)
    return {
        "losses": [[one.loss for one in pair] for pair in steps],
        "norms": [[one.norm for one in pair] for pair in steps],
        "largest difference": max(differences),
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": len(counters["graph_break"]),
        "same after a stop": outcome(whole) == outcome(stopped),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(main(Path(sys.argv[1]))))
