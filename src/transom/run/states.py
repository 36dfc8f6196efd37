"""What of a model and its optimizer goes into a checkpoint, and how it comes back: by name, exactly, in any world."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from transom.names import Misfit
from transom.run.parallel import shared_like

GO_ON = "go on with the recipe the run began with"


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


def check_parameters(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Complain unless every parameter of a model is among some tensors, with its shape and dtype.

    Unlike `model_tensors` this does not ask for a state dict, at which a sharded model would take its shares again.
    """
    for name, parameter in model.named_parameters():
        check_names("the model", [name], {name: tensors[name]} if name in tensors else {})
        check_fits(name, tensors[name], parameter)


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
    """Put back what `optimizer_tensors` and `optimizer_settings` took; all must fit before any is put."""
    own = optimizer.state_dict()
    if len(groups) != len(own["param_groups"]):
        raise Misfit(
            f"the optimizer has {len(own['param_groups'])} groups of parameters, but {len(groups)} were kept; {GO_ON}"
        )
    parts = {name: (number, parameter) for name, number, parameter in learned(model, optimizer)}
    remembered: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in tensors.items():
        what, _, name = full_name.partition("/")
        check_names("the optimizer", [*parts], {name: tensor}, all_of_it=False)
        number, parameter = parts[name]
        if what == "step":  # one number, whole on every process
            check_count(full_name, tensor)
        else:
            check_fits(full_name, tensor, parameter)
            tensor = shared_like(tensor, parameter)
        remembered.setdefault(number, {})[what] = tensor.clone()
    check_remembered(optimizer, parts, remembered)
    for group, kept in zip(own["param_groups"], groups, strict=True):
        group.update({name: restored_setting(name, value, group) for name, value in kept.items()})
    optimizer.load_state_dict({"state": remembered, "param_groups": own["param_groups"]})


def check_count(name: str, came: Tensor) -> None:
    """The number of updates that an optimizer counted for a parameter."""
    if came.dim() or not came.is_floating_point() or not 0 <= float(came) < 2**53:
        raise Misfit(
            f"{name!r} must be one number of updates, but the checkpoint holds {spelled_tensor(came)}; {GO_ON}"
        )


def check_remembered(
    optimizer: Optimizer, parts: Mapping[str, tuple[int, nn.Parameter]], remembered: Mapping[int, Mapping[str, Tensor]]
) -> None:
    """Of a parameter that was ever updated, an optimizer of the Adam family remembers three things, and no others."""
    if not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
        return
    expected = {"step", "exp_avg", "exp_avg_sq"}
    expected |= {"max_exp_avg_sq"} if any(group.get("amsgrad") for group in optimizer.param_groups) else set()
    for name, (number, _) in parts.items():
        came = set(remembered.get(number, expected))
        for odd in sorted(came ^ expected):
            verb = "needs" if odd in expected else "has no"
            held = "does not hold it" if odd in expected else "holds it"
            raise Misfit(f"the optimizer {verb} {f'{odd}/{name}'!r}, but the checkpoint {held}; {GO_ON}")


def restored_setting(name: str, value: Any, group: Mapping[str, Any]) -> Any:
    """A setting of an optimizer as the optimizer holds it, once it is one that it has and of its kind."""
    held = group.get(name)
    if isinstance(held, tuple) and isinstance(value, list):
        fits = len(value) == len(held) and all(is_number(one) and 0 <= one < 1 for one in value)
        value = tuple(map(float, value)) if fits else tuple(value)
    elif isinstance(held, int | float) and not isinstance(held, bool):
        fits = is_number(value) and value >= 0
    else:  # a choice of how to compute
        fits = name in group and type(value) is type(held) and value == held
    if not fits or name == "params":
        came = "has none" if name not in group else f"has {held!r}"
        raise Misfit(
            f"the checkpoint holds the optimizer's setting {name!r} as {value!r}, but this one {came}; {GO_ON}"
        )
    return value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53


def learned(model: nn.Module, optimizer: Optimizer) -> Iterator[tuple[str, int, nn.Parameter]]:
    """Each parameter of an optimizer: its name in the model, its number in the optimizer, and itself."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(parameters):
        yield names[id(parameter)], number, parameter


def check_names(whose: str, held: Any, came: Mapping[str, Tensor], all_of_it: bool = True) -> None:
    """What is put back is what is there, under the same names."""
    for name in came:
        if name not in held:
            raise Misfit(f"{whose} has no {name!r}, but a checkpoint holds it; {GO_ON}")
    for name in held if all_of_it else ():
        if name not in came:
            raise Misfit(f"{whose} has {name!r}, but the checkpoint does not hold it; {GO_ON}")


def check_fits(name: str, came: Tensor, held: Tensor) -> None:
    if came.shape != held.shape or came.dtype != held.dtype:
        raise Misfit(
            f"{name!r} must be {spelled_tensor(held)}, but the checkpoint holds {spelled_tensor(came)}; {GO_ON}"
        )


def spelled_tensor(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} of {tensor.dtype}"
