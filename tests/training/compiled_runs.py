"""Training compiled and not: `python compiled_runs.py FOLDER` prints a line of JSON that compares them.

A process of its own, because the shape checks of the tests are no code that can be compiled.
"""

import json
import sys
from pathlib import Path

import torch
from small_runs import outcome, pairs_file, small_recipe
from torch._dynamo.utils import counters

from transom.training.distributed import World
from transom.training.loop import Callback, TrainingLoop
from transom.training.tasks import TASKS
from transom.training.train import train

SMALL = {"optimizer": {"eps": 0.01}, "model": {"dropout": 0.3}}


class Stop(Callback):
    """Ends a run without ceremony after five updates."""

    def on_update(self, training, result) -> None:
        if result.update == 5:
            raise KeyboardInterrupt


def training(folder: Path, name: str, compile: bool) -> TrainingLoop:
    recipe = small_recipe(folder / name, folder / "reverse.tsv", train={"compile": compile}, **SMALL)
    return TrainingLoop(recipe, TASKS[recipe.task](recipe, folder / name, print), World())


def main(folder: Path) -> dict[str, object]:
    data = pairs_file(folder)
    plain, compiled = (training(folder, name, name == "compiled") for name in ("plain", "compiled"))
    results = [(plain.update(), compiled.update()) for _ in range(3)]
    parameters = zip(plain.model.parameters(), compiled.model.parameters(), strict=True)
    differences = [float((ours - theirs).detach().abs().max()) for ours, theirs in parameters]
    settings = {"updates": 7, "judge_every": 4, "compile": True}
    whole, stopped = (small_recipe(folder / name, data, train=settings, **SMALL) for name in ("whole", "stopped"))
    train(whole)
    try:
        train(stopped, callbacks=[Stop()])
    except KeyboardInterrupt:
        train(stopped)
    return {
        "losses": [[result.loss for result in pair] for pair in results],
        "norms": [[result.norm for result in pair] for pair in results],
        "largest difference": max(differences),
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": len(counters["graph_break"]),
        "same after a stop": outcome(whole) == outcome(stopped),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(main(Path(sys.argv[1]))))
