"""What a checkpoint holds of a training, and how a training goes on from one, bit for bit."""

from typing import Any

import msgspec
from torch import Tensor

from transom.names import Misfit
from transom.run.checkpoint import Checkpoint
from transom.run.recipe import Recipe
from transom.run.states import (
    model_tensors,
    optimizer_settings,
    optimizer_tensors,
    restore_model,
    restore_optimizer,
)
from transom.run.task import Place, Standing
from transom.run.training import Training

# What may change between two starts of the same run: none of it touches what an update computes.
FREE = {
    "folder": None,
    "judge": None,
    "train": {"updates", "epochs", "threads", "report_every", "judge_every", "checkpoint_every", "keep", "average"},
}


def tensors(training: Training) -> dict[str, dict[str, Tensor]]:
    """Parameters and optimizer, whole, on the process that leads; every process must ask."""
    gathered = training.world.gathered
    return {
        "model": gathered(model_tensors(training.model)),
        "optimizer": gathered(optimizer_tensors(training.model, training.optimizer)),
    }


def state(training: Training) -> dict[str, Any]:
    """Where the run stands, and by which recipe."""
    return {
        "standing": msgspec.to_builtins(training.standing),
        "optimizer": optimizer_settings(training.optimizer),
        "recipe": fixed(training.recipe),
    }


def fixed(recipe: Recipe) -> dict[str, Any]:
    """The part of a recipe that a run cannot change on its way."""
    told = msgspec.json.decode(msgspec.json.encode(recipe))
    found = {name: value for name, value in told.items() if FREE.get(name, ()) is not None}
    found["train"] = {name: value for name, value in told["train"].items() if name not in (FREE["train"] or ())}
    return found


def put_back(training: Training, checkpoint: Checkpoint) -> None:
    """Make a new training stand where a checkpoint stood."""
    check_recipe(training.recipe, checkpoint)
    restore_model(training.model, checkpoint.tensors["model"])
    moments, groups = checkpoint.tensors["optimizer"], checkpoint.state["optimizer"]
    restore_optimizer(training.model, training.optimizer, moments, groups)
    standing = checkpoint.state["standing"]
    training.standing = Standing(**{**standing, "place": Place(**standing["place"])})


def check_recipe(recipe: Recipe, checkpoint: Checkpoint) -> None:
    """A run goes on only by the recipe it began with."""
    now, then = fixed(recipe), checkpoint.state["recipe"]
    for name in now:
        if now[name] != then.get(name):
            raise Misfit(
                f"{checkpoint.path.parent} holds a run by another recipe: {name} was {then.get(name)!r} and is"
                f" {now[name]!r} now; put it back, or choose another folder"
            )
