"""What a checkpoint holds of a training, and how a training goes on from one, bit for bit."""

from pathlib import Path
from typing import Any

import msgspec
from torch import Tensor

from transom.names import Misfit
from transom.run.checkpoint_files import TENSORS, Checkpoint
from transom.run.checkpoint_state import parse_state
from transom.run.precision import AUTO
from transom.run.recipe import Recipe, Train, with_precision
from transom.run.states import (
    model_tensors,
    optimizer_settings,
    optimizer_tensors,
    restore_model,
    restore_optimizer,
)
from transom.run.task import Standing
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
    """Where the run stands, by which recipe, and from which data."""
    recipe = fixed(training.recipe)
    # The name of what is computed in, never "auto": on another machine that could be another.
    recipe["train"]["precision"] = training.precision.name
    found = {
        "standing": msgspec.to_builtins(training.standing),
        "optimizer": optimizer_settings(training.optimizer),
        "scale": training.precision.state(),
        "recipe": recipe,
    }
    inputs = {} if training.inputs is None else {"inputs": msgspec.to_builtins(training.inputs)}
    return {**found, **inputs}


def fixed(recipe: Recipe) -> dict[str, Any]:
    """The part of a recipe that a run cannot change on its way, as JSON has it."""
    told = msgspec.json.decode(msgspec.json.encode(recipe))
    train = {name: value for name, value in told["train"].items() if name in FIXED_OF_TRAIN}
    return {name: value for name, value in told.items() if name not in FREE} | {"train": train}


def put_back(training: Training, checkpoint: Checkpoint) -> None:
    """Make a new training stand where a checkpoint stood; after a Misfit it is of no more use."""
    saved = parse_state(checkpoint)
    check_recipe(training.recipe, saved.recipe, checkpoint.path.parent)
    check_place(training, saved.standing, checkpoint.path)
    moments = group(checkpoint, "optimizer")
    restore_model(training.model, group(checkpoint, "model"))
    restore_optimizer(training.model, training.optimizer, moments, saved.optimizer)
    training.precision.put_back(saved.scale)
    training.standing = saved.standing


def group(checkpoint: Checkpoint, name: str) -> dict[str, Tensor]:
    """A group of tensors that the checkpoint of a run holds."""
    if name not in checkpoint.tensors:
        raise Misfit(f"{checkpoint.path} must hold {name}{TENSORS}, but it does not; choose another folder")
    return checkpoint.tensors[name]


def check_place(training: Training, standing: Standing, path: Path) -> None:
    """Where a run stood is a place that its data has."""
    place, taken = standing.place, standing.place.updates * training.recipe.train.accumulate
    batches = training.task.batches(place.epoch) if place.epoch <= taken else 0
    if not place.position <= min(taken, batches):
        raise Misfit(
            f"{path} stands at batch {place.position} of epoch {place.epoch}, but after {taken} batches of this data"
            " no run stands there; restore the data it began with, or choose another folder"
        )


def check_recipe(recipe: Recipe, then: Recipe, folder: Path) -> None:
    """A run goes on only by the recipe it began with; "auto" is the precision it began with."""
    if recipe.train.precision == AUTO:
        recipe = with_precision(recipe, then.train.precision)
    found = difference(fixed(then), fixed(recipe))
    if found is not None:
        what, was, came = found
        raise Misfit(
            f"{folder} holds a run by another recipe: {what} was {was!r} and is {came!r} now;"
            " put it back, or choose another folder"
        )


def difference(then: dict[str, Any], now: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """The first setting that is not the same, with what it was and what it is; None where all are."""
    for name in {**now, **then}:
        was, came = then.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(came, dict):
            inner = difference(was, came)
            if inner is not None:
                return f"{name}.{inner[0]}", *inner[1:]
        elif was != came:
            return name, was, came
    return None
