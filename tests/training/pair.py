"""What each of two processes does in test_distributed.py: `python pair.py FOLDER`, with torchrun's environment."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
from toy import KEPT, batch, begun, take, trained, updated

from transom.names import Misfit
from transom.training.checkpoint_files import checkpoint_path, load_checkpoint
from transom.training.distributed import WRAPPINGS, World, join_world


def judged(run, tokens: torch.Tensor) -> list[float]:
    """The model used without its engine."""
    with run.world.gather_parameters(run.wrapped), torch.no_grad():
        names = [name for name, parameter in run.model.named_parameters() if type(parameter) is not torch.nn.Parameter]
        assert names == []
        return [float(run.model.logits(tokens).abs().sum()) for _ in range(2)]


def numbers(world: World) -> dict[str, object]:
    return {
        "rank": world.rank,
        "leads": world.leads,
        "summed": world.all_sum(3 + 4 * world.rank),
        "any": [world.any(world.rank == 1), world.any(world.rank == 0), world.any(False), world.any(True)],
        "agreed": world.broadcast(11 + world.rank),
    }


def shares(world: World, folder: Path) -> dict[str, object]:
    """Both engines: from the start, from a checkpoint of one process, and what a model says outside its engine."""
    found: dict[str, object] = {}
    tokens = batch(0, 0, slice(None))
    for sharding in WRAPPINGS:
        run = begun(world, sharding)
        first = judged(run, tokens)
        found[sharding] = trained(run, folder / sharding)
        found[f"{sharding}, judged"] = [first, judged(run, tokens)]
        found[f"{sharding}, parameters"] = sum(
            getattr(parameter, "_local_tensor", parameter).numel() for parameter in run.model.parameters()
        )
        run = begun(world, sharding, seed=41)
        take(run, load_checkpoint(checkpoint_path(folder / "alone", KEPT)))
        found[f"{sharding}, from one"] = trained(run, folder / f"{sharding}-from-one", KEPT)
        # A gradient after judging must be as good as one before.
        judged(run, tokens)
        found[f"{sharding}, after"] = updated(run, 0)
    return found


def complaint(world: World, late: float) -> list[str]:
    """What is said when the other process comes too late, and when it is gone."""
    found = []
    if world.rank == 1:
        time.sleep(late)
        os.kill(os.getpid(), signal.SIGKILL)
    for meeting in (lambda: world.wait("the end", seconds=late / 4), lambda: world.all_sum(1.0)):
        try:
            meeting()
        except Misfit as error:
            found.append(str(error))
    return found


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with join_world(seconds=30.0) as world:
        found = {"numbers": numbers(world), **shares(world, folder)}
        (folder / f"rank-{world.rank}.json").write_text(json.dumps(found))
        world.wait("before the end", seconds=20)
        (folder / "complaints.json").write_text(json.dumps(complaint(world, 2.0)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
