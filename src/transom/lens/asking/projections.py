"""The output projection of each attention, found by what goes into it: W_O takes the heads just as they came.

There the heads can be asked as well which way they pull: what a number made of the model's output gains by each.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from transom.equations.heads import unfold
from transom.lens.sight import Sight
from transom.lens.trace import Trace

Projected = Callable[[Tensor], Tensor]  # (any, heads · d_value) → (any, d_out), without the bias


@dataclass(frozen=True, eq=False)
class Projection:
    """W_O of one attention as a linear map, and the module that it is, where it is one."""

    project: Projected
    module: nn.Module | None = None


@contextmanager
def projections(model: nn.Module, trace: Trace) -> Iterator[dict[str, Projection]]:
    """While the model runs and is watched, the projection of each attention under its name, where one is found."""
    own, found = set(model.modules()), {}

    def hook(module: nn.Module, given: tuple[Any, ...]) -> None:
        if not trace.seen or module not in own or not given or getattr(module, "weight", None) is None:
            return
        name, sight = trace.seen[-1]
        if name not in found and module.weight.dim() == 2 and takes(given[0], sight):  # pyright: ignore[reportCallIssue]
            found[name] = Projection(linear(module), module)

    handle = register_module_forward_pre_hook(hook)
    try:
        yield found
    finally:
        handle.remove()
    for name, sight in trace.items():
        if name not in found and (held := held_by(model, name, sight)) is not None:
            found[name] = Projection(held)


def takes(x: object, sight: Sight) -> bool:
    """Whether x is what the heads found, side by side."""
    if not isinstance(x, Tensor) or sight.joined is not None or sight.V.shape[3] == 0:
        return False
    heads = unfold(sight.output)
    return x.shape[-1] == heads.shape[-1] and x.numel() == heads.numel() and torch.equal(x.reshape(heads.shape), heads)


def linear(module: nn.Module) -> Projected:
    """A module as a linear map; how it keeps its parameters is its own affair."""
    if isinstance(module, nn.Linear):
        return matrix(module.weight)
    like: Any = module.weight
    return lambda x: (module(x.to(like.dtype)) - module(torch.zeros_like(x, dtype=like.dtype))).double()


def matrix(W_O: Float[Tensor, "d_out any"]) -> Projected:
    return lambda x: x.double() @ W_O.detach().double().mT


def held_by(model: nn.Module, name: str, sight: Sight) -> Projected | None:
    """The projection of a module that applies it itself."""
    if sight.joined is not None:
        return matrix(sight.joined.W_O)
    try:
        module = model.get_submodule(name)
    except AttributeError:
        return None
    return matrix(module.out_proj.weight) if isinstance(module, nn.MultiheadAttention) else None


def pulls(run: Callable[[], Tensor], found: dict[str, Projection]) -> dict[str, Float[Tensor, "queries any"]]:
    """The gradient of a number, which `run` makes of a run of the model, by what goes into each projection."""
    names = {one.module: name for name, one in found.items() if one.module is not None}
    if not names:
        return {}
    probes: dict[str, Tensor] = {}

    def hook(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        name = names.get(module)
        if name is None or name in probes:
            return None
        probes[name] = torch.zeros_like(given[0]).requires_grad_()
        return (given[0] + probes[name], *given[1:])

    handle = register_module_forward_pre_hook(hook)  # pyright: ignore[reportArgumentType]
    try:
        with torch.enable_grad():
            number = run()
    finally:
        handle.remove()
    sent = torch.autograd.grad(number, list(probes.values()), allow_unused=True) if number.requires_grad else ()
    pairs = zip(probes.items(), sent, strict=False)
    return {name: (torch.zeros_like(x) if g is None else g).detach().double().flatten(0, -2) for (name, x), g in pairs}
