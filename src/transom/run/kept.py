"""What a checkpoint holds of a training, and how a training goes on from one, bit for bit."""

from typing import Any

import msgspec
from torch import Tensor

from transom.names import Misfit
from transom.run.checkpoint import Checkpoint
from transom.run.recipe import Recipe, Train
from transom.run.states import (
    model_tensors,
    optimizer_settings,
    optimizer_tensors,
    restore_model,
    restore_optimizer,
)
from transom.run.task import Place, Standing
from transom.run.training import Training

# What may change between two starts of the same run: how far it goes, how often it is looked at, on what it runs.
FREE = {"folder", "judge"}
FREE_OF_TRAIN = {"updates", "epochs", "threads", "wrapping", "report_every", "judge_every", "checkpoint_every"}
FREE_OF_TRAIN |= {"keep", "average", "tensorboard", "compile"}
FIXED_OF_TRAIN = set(Train.__struct_fields__) - FREE_OF_TRAIN


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
        "scale": training.precision.state(),
        "recipe": fixed(msgspec.to_builtins(training.recipe)),
    }


def fixed(recipe: dict[str, Any]) -> dict[str, Any]:
    """The part of a recipe that a run cannot change on its way, as JSON has it; settings of other versions aside."""
    told = msgspec.json.decode(msgspec.json.encode(recipe))
    train = {name: value for name, value in told["train"].items() if name in FIXED_OF_TRAIN}
    return {name: value for name, value in told.items() if name not in FREE} | {"train": train}


def put_back(training: Training, checkpoint: Checkpoint) -> None:
    """Make a new training stand where a checkpoint stood."""
    check_recipe(training.recipe, checkpoint)
    restore_model(training.model, checkpoint.tensors["model"])
    moments, groups = checkpoint.tensors["optimizer"], checkpoint.state["optimizer"]
    restore_optimizer(training.model, training.optimizer, moments, groups)
    training.precision.put_back(checkpoint.state.get("scale", {}))
    standing = checkpoint.state["standing"]
    training.standing = Standing(**{**standing, "place": Place(**standing["place"])})


def check_recipe(recipe: Recipe, checkpoint: Checkpoint) -> None:
    """A run goes on only by the recipe it began with."""
    now, then = fixed(msgspec.to_builtins(recipe)), fixed(checkpoint.state["recipe"])
    for name in now:
        if now[name] != then.get(name):
            what, was, came = difference(name, then.get(name), now[name])
            raise Misfit(
                f"{checkpoint.path.parent} holds a run by another recipe: {what} was {was!r} and is {came!r} now;"
                " put it back, or choose another folder"
            )


def difference(name: str, then: Any, now: Any) -> tuple[str, Any, Any]:
    """The first setting of a section that is not the same, or the whole where it is no section."""
    if not isinstance(then, dict) or not isinstance(now, dict):
        return name, then, now
    key = next(key for key in {**now, **then} if now.get(key) != then.get(key))
    return f"{name}.{key}", then.get(key), now.get(key)
