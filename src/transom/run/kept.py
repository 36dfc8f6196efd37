"""What a checkpoint holds of a training, and how a training goes on from one, bit for bit."""

from typing import Any

import msgspec
import torch
from torch import Tensor

from transom.names import Misfit
from transom.run.checkpoint import Checkpoint
from transom.run.parallel import shared_like
from transom.run.recipe import Recipe
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
    return {"model": gathered(dict(training.model.named_parameters())), "optimizer": gathered(moments(training))}


def moments(training: Training) -> dict[str, Tensor]:
    """What the optimizer remembers of each parameter, by the parameter's name."""
    state = training.optimizer.state
    return {
        f"{name}/{what}": value
        for name, parameter in training.model.named_parameters()
        for what, value in state.get(parameter, {}).items()
    }


def state(training: Training) -> dict[str, Any]:
    """Where the run stands, and by which recipe."""
    return {
        "standing": msgspec.to_builtins(training.standing),
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
    named = dict(training.model.named_parameters())
    check_names(set(named), set(checkpoint.tensors["model"]), checkpoint)
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(shared_like(checkpoint.tensors["model"][name], parameter))
    for key, value in checkpoint.tensors.get("optimizer", {}).items():
        name, _, what = key.rpartition("/")
        parameter = named[name]
        held = shared_like(value, parameter) if value.shape == parameter.shape else value
        training.optimizer.state[parameter][what] = held
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


def check_names(ours: set[str], theirs: set[str], checkpoint: Checkpoint) -> None:
    if ours != theirs:
        odd = sorted(ours ^ theirs)[0]
        raise Misfit(
            f"{checkpoint.path} must hold the parameters of this model, but {odd!r} is in only one of them;"
            " choose another folder"
        )
