"""What of a model and its optimizer goes into a checkpoint, and how it comes back: by name, exactly, in any world."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from transom.names import Misfit
from transom.run.parallel import shared_like


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and lasting buffer under its first name; what is tied comes once."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            found[name] = tensor
        seen.add(id(tensor))
    return found


def restore_model(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put whole tensors back where `model_tensors` took them; all must fit before any is put."""
    held = model_tensors(model)
    check_names("the model", held, tensors)
    for name, tensor in tensors.items():
        check_fits(name, tensor, held[name])
    with torch.no_grad():
        for name, tensor in tensors.items():
            held[name].copy_(shared_like(tensor, held[name]))


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """What an optimizer remembers of each parameter, as `exp_avg/<name of the parameter>`."""
    return {
        f"{what}/{name}": value
        for name, _, parameter in learned(model, optimizer)
        for what, value in optimizer.state.get(parameter, {}).items()
    }


def optimizer_settings(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The settings of each group of parameters, as JSON has them."""
    return [
        {name: list(value) if isinstance(value, tuple) else value for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]


def restore_optimizer(
    model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], groups: list[dict[str, Any]]
) -> None:
    """Put back what `optimizer_tensors` and `optimizer_settings` took."""
    own = optimizer.state_dict()
    if len(groups) != len(own["param_groups"]):
        raise Misfit(
            f"the optimizer has {len(own['param_groups'])} groups of parameters, but {len(groups)} were kept;"
            " go on with the recipe the run began with"
        )
    parts = {name: (number, parameter) for name, number, parameter in learned(model, optimizer)}
    remembered: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in tensors.items():
        what, _, name = full_name.partition("/")
        check_names("the optimizer", [*parts], {name: tensor}, all_of_it=False)
        number, parameter = parts[name]
        if tensor.dim():  # the count of steps is one number, whole on every process
            check_fits(full_name, tensor, parameter)
            tensor = shared_like(tensor, parameter)
        remembered.setdefault(number, {})[what] = tensor.clone()
    for group, kept in zip(own["param_groups"], groups, strict=True):
        group.update({name: as_held(value, group.get(name)) for name, value in kept.items()})
    optimizer.load_state_dict({"state": remembered, "param_groups": own["param_groups"]})


def as_held(value: Any, held: Any) -> Any:
    return tuple(value) if isinstance(held, tuple) else value


def learned(model: nn.Module, optimizer: Optimizer) -> Iterator[tuple[str, int, nn.Parameter]]:
    """Each parameter of an optimizer: its name in the model, its number in the optimizer, and itself."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(parameters):
        yield names[id(parameter)], number, parameter


def check_names(whose: str, held: Any, came: Mapping[str, Tensor], all_of_it: bool = True) -> None:
    """What is put back is what is there, under the same names."""
    way_out = "go on with the recipe the run began with"
    for name in came:
        if name not in held:
            raise Misfit(f"{whose} has no {name!r}, but a checkpoint holds it; {way_out}")
    for name in held if all_of_it else ():
        if name not in came:
            raise Misfit(f"{whose} has {name!r}, but the checkpoint does not hold it; {way_out}")


def check_fits(name: str, came: Tensor, held: Tensor) -> None:
    if came.shape != held.shape or came.dtype != held.dtype:
        raise Misfit(
            f"{name!r} must be {tuple(held.shape)} of {held.dtype}, but the checkpoint holds {tuple(came.shape)} of"
            f" {came.dtype}; go on with the recipe the run began with"
        )
