"""The state of a training run as tensors and numbers, saved into a checkpoint and restored from it."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from transom.names import Misfit
from transom.training.distributed import shard_like
from transom.training.loop import TrainingLoop
from transom.training.recipe import fixed_settings
from transom.training.resume import SavedRun
from transom.training.task import RunState

WAY_OUT = "resume with the recipe the run started with"
ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")  # of each parameter that was ever updated


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and persistent buffer under its first name; tied ones once."""
    first_names: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        first_names.setdefault(id(tensor), (name, tensor))
    return dict(first_names.values())


def restore_model(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy whole tensors back to where `model_tensors` took them from, after checking that all fit."""
    own = model_tensors(model)
    check_names("the model", own, tensors)
    for name, tensor in tensors.items():
        check_tensor_fits(name, tensor, own[name])
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(shard_like(tensor, own[name]))


def check_parameters(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Raise an error unless every parameter of a model is among some tensors, with its shape and dtype.

    Unlike `model_tensors` this takes no state dict, because that would shard a gathered model again.
    """
    parameters = dict(model.named_parameters())
    check_names("the model", parameters, parameters.keys() & tensors.keys())
    for name, parameter in parameters.items():
        check_tensor_fits(name, tensors[name], parameter)


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's state of each parameter, as `exp_avg/<name of the parameter>`."""
    return {
        f"{key}/{name}": value
        for name, _, parameter in optimized_parameters(model, optimizer)
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def optimizer_settings(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The settings of each parameter group, as JSON has them."""
    return [
        {name: list(value) if isinstance(value, tuple) else value for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]


def restore_optimizer(
    model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], groups: list[dict[str, Any]]
) -> None:
    """Restore what `optimizer_tensors` and `optimizer_settings` took, after checking that all fits."""
    own_groups = optimizer.state_dict()["param_groups"]
    if len(groups) != len(own_groups):
        raise Misfit(f"the optimizer has {len(own_groups)} parameter groups, but {len(groups)} were saved; {WAY_OUT}")
    parameters = {name: (number, parameter) for name, number, parameter in optimized_parameters(model, optimizer)}
    updated = {name.partition("/")[2] for name in tensors}
    expected = [f"{key}/{name}" for name in parameters if name in updated for key in ADAM_STATE]
    check_names("the optimizer", expected, tensors)
    state: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition("/")
        number, parameter = parameters[name]
        if key == "step":  # one number, whole on every process
            check_step(full_name, tensor)
        else:
            check_tensor_fits(full_name, tensor, parameter)
            tensor = shard_like(tensor, parameter)
        state.setdefault(number, {})[key] = tensor.clone()
    for own, saved in zip(own_groups, groups, strict=True):
        restore_settings(own, saved)
    optimizer.load_state_dict({"state": state, "param_groups": own_groups})


def check_step(name: str, saved: Tensor) -> None:
    """The number of updates that an optimizer counted for a parameter."""
    if saved.dim() or not saved.is_floating_point() or not 0 <= float(saved) < 2**53:
        raise Misfit(f"{name!r} must be a number of updates, but the checkpoint has {describe(saved)}; {WAY_OUT}")


def restore_settings(own: dict[str, Any], saved: dict[str, Any]) -> None:
    """Restore the rate of a parameter group; its other settings follow from the recipe and must be the same."""
    for name, value in saved.items():
        value = tuple(value) if isinstance(value, list) else value
        if name == "lr" and isinstance(value, float) and value >= 0:
            own["lr"] = value
        elif name not in own or (type(value), value) != (type(own[name]), own[name]):
            has = f"has {own[name]!r}" if name in own else "has none"
            raise Misfit(f"the checkpoint has the optimizer's {name!r} as {value!r}, but this one {has}; {WAY_OUT}")


def optimized_parameters(model: nn.Module, optimizer: Optimizer) -> Iterator[tuple[str, int, nn.Parameter]]:
    """Each parameter of an optimizer: its name in the model, its number in the optimizer, and itself."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(parameters):
        yield names[id(parameter)], number, parameter


def check_names(owner: str, own: Collection[str], saved: Collection[str]) -> None:
    """The saved tensors have the same names as the model's own."""
    for name in saved:
        if name not in own:
            raise Misfit(f"{owner} has no {name!r}, but a checkpoint holds it; {WAY_OUT}")
    for name in own:
        if name not in saved:
            raise Misfit(f"{owner} has {name!r}, but the checkpoint does not hold it; {WAY_OUT}")


def check_tensor_fits(name: str, saved: Tensor, own: Tensor) -> None:
    if saved.shape != own.shape or saved.dtype != own.dtype:
        raise Misfit(f"{name!r} must be {describe(own)}, but the checkpoint has {describe(saved)}; {WAY_OUT}")


def describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} of {tensor.dtype}"


def checkpoint_tensors(training: TrainingLoop) -> dict[str, dict[str, Tensor]]:
    """Whole parameters and optimizer state, on the leading process; every process must call this."""
    gather = training.world.gather_tensors
    return {
        "model": gather(model_tensors(training.model)),
        "optimizer": gather(optimizer_tensors(training.model, training.optimizer)),
    }


def checkpoint_state(training: TrainingLoop) -> dict[str, Any]:
    """The numbers of a run beside its tensors: `SavedState`, as JSON has it."""
    recipe = fixed_settings(training.recipe)
    # The precision itself, never "auto", which could mean another one on another machine.
    recipe["train"]["precision"] = training.precision.name
    state = {
        "standing": msgspec.to_builtins(training.state),
        "optimizer": optimizer_settings(training.optimizer),
        "scale": training.precision.scaler.state_dict(),  # {} without float16
        "recipe": recipe,
    }
    return state if training.inputs is None else {**state, "inputs": msgspec.to_builtins(training.inputs)}


def restore(training: TrainingLoop, saved: SavedRun) -> None:
    """Bring a new training loop to where a checkpoint was; after a Misfit it must not be used."""
    check_data_position(training, saved.state, saved.checkpoint.path)
    moments = saved.checkpoint.group("optimizer")
    restore_model(training.model, saved.checkpoint.group("model"))
    restore_optimizer(training.model, training.optimizer, moments, saved.optimizer)
    if saved.scale:
        training.precision.scaler.load_state_dict(saved.scale)
    training.state = saved.state


def check_data_position(training: TrainingLoop, state: RunState, path: Path) -> None:
    """The data has the batch where a run was."""
    position, taken = state.position, state.position.updates * training.recipe.train.accumulate
    batches = training.task.batches(position.epoch) if position.epoch <= taken else 0
    if position.batch > min(taken, batches):
        raise Misfit(
            f"{path} is at batch {position.batch} of epoch {position.epoch}, but after {taken} batches of this data"
            " no run is there; restore the data it started with, or choose another folder"
        )
