"""W_O of each attention of a running model: the linear map that takes its heads, and the gradient that reaches it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from transom.equations.heads import merge_heads
from transom.lens.attention.sight import Sight
from transom.lens.capture.evidence import WHOLE_MODEL
from transom.lens.trace import Trace


@dataclass(frozen=True, eq=False)
class OutputProjection:
    """W_O of one attention: its matrix, the module that applies it, or both."""

    W_O: Float[Tensor, "d_out any"] | None = None
    module: nn.Module | None = None

    def project(self, x: Float[Tensor, "any any2"]) -> Float[Tensor, "any d_out"]:
        """The joined heads through W_O, without the bias, however the module stores its parameters."""
        if self.W_O is not None:
            return x.double() @ self.W_O.detach().double().mT
        module: Any = self.module
        x = x.to(module.weight.dtype)
        return (module(x) - module(torch.zeros_like(x))).double()


@contextmanager
def capture_output_projections(model: nn.Module, trace: Trace) -> Iterator[dict[str, OutputProjection]]:
    """While the model runs and is watched, the output projection of each attention by name, if one is found."""
    own_modules = set(model.modules())
    projections: dict[str, OutputProjection] = {}

    def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
        weight: Any = getattr(module, "weight", None)
        if not trace.entries or module not in own_modules or not args or weight is None:
            return
        name, sight = trace.entries[-1]
        if name not in projections and weight.dim() == 2 and is_joined_heads(args[0], sight.require_full()):
            projections[name] = OutputProjection(weight if isinstance(module, nn.Linear) else None, module)

    with register_module_forward_pre_hook(hook):
        yield projections
    for name, sight in trace.items():
        if name not in projections and (W_O := built_in_projection(model, name, sight.require_full())) is not None:
            projections[name] = OutputProjection(W_O)


def is_joined_heads(x: object, sight: Sight) -> bool:
    """Whether x is the output of all heads, side by side."""
    if not isinstance(x, Tensor) or sight.joined_output is not None or sight.V.shape[3] == 0:
        return False
    heads = merge_heads(sight.output)
    return x.shape[-1] == heads.shape[-1] and x.numel() == heads.numel() and torch.equal(x.reshape(heads.shape), heads)


def built_in_projection(model: nn.Module, name: str, sight: Sight) -> Tensor | None:
    """W_O of an attention that applies it without calling a module."""
    if sight.joined_output is not None:
        return sight.joined_output.W_O
    module = find_module(model, name)
    return module.out_proj.weight if isinstance(module, nn.MultiheadAttention) else None


def find_module(model: nn.Module, name: str) -> nn.Module | None:
    """The module of an attention; None if the attention ran in compiled code."""
    try:
        return model if name == WHOLE_MODEL else model.get_submodule(name)
    except AttributeError:
        return None


def projection_gradients(
    run: Callable[[], Tensor], projections: dict[str, OutputProjection]
) -> dict[str, Float[Tensor, "queries any"]]:
    """The gradient of the number that `run` computes with the model, by the input of each projection."""
    names = {projection.module: name for name, projection in projections.items() if projection.module is not None}
    if not names:
        return {}
    probes: dict[str, Tensor] = {}

    def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        name = names.get(module)
        if name is None or name in probes:
            return None
        probes[name] = torch.zeros_like(args[0]).requires_grad_()
        return (args[0] + probes[name], *args[1:])

    with register_module_forward_pre_hook(hook), torch.enable_grad():  # pyright: ignore[reportArgumentType]
        number = run()
    if not number.requires_grad:
        return {}
    gradients = torch.autograd.grad(number, list(probes.values()), allow_unused=True, materialize_grads=True)
    return {name: g.detach().double().flatten(0, -2) for name, g in zip(probes, gradients, strict=True)}
