"""The linear maps that run before an attention, and the one that takes its heads: heard while a model runs again."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transom.layers.projections import LowRank, NarrowLinear
from transom.lens.asking.projections import takes
from transom.lens.sight import Sight
from transom.lens.trace import Trace
from transom.lens.watch import WHOLE_MODEL, watch

Map = tuple[Tensor, Tensor | None]  # W (d_in, d_out), and b


@dataclass(frozen=True, eq=False)
class Ran:
    """A linear map that ran: what it took and gave, and how its matrix is found."""

    x: Tensor
    output: Tensor
    map: Callable[[], Map]


@dataclass(eq=False)
class Overheard:
    """What ran around the attention of one module: projections before it, in order, and what took its heads."""

    module: nn.Module | None
    sight: Sight | None = None
    before: list[Ran] = field(default_factory=list)
    after: Ran | None = None


def overheard(model: nn.Module, run: Callable[[], object], name: str) -> Overheard:
    """Run the model, and hear the linear maps inside the module of that name, up to W_O."""
    heard = Overheard(module_of(model, name))
    inside = set() if heard.module is None else set(heard.module.modules())
    with ExitStack() as stack, watch(model, layers=name) as trace:
        for module in model.modules():
            if is_map(module):
                hook = hearing(heard, trace, module in inside)
                stack.callback(module.register_forward_hook(hook).remove)
            elif module is heard.module and isinstance(module, nn.MultiheadAttention):
                whole = module.register_forward_hook(multi_head(heard), with_kwargs=True)  # pyright: ignore[reportArgumentType]
                stack.callback(whole.remove)
        run()
    heard.sight = trace.seen[0][1]
    return heard


def module_of(model: nn.Module, name: str) -> nn.Module | None:
    """The module of a name; none where it runs in compiled code."""
    try:
        return model if name == WHOLE_MODEL else model.get_submodule(name)
    except AttributeError:
        return None


def is_map(module: nn.Module) -> bool:
    """Whether a module may be a linear map of vectors."""
    weight = getattr(module, "weight", None)
    return isinstance(module, NarrowLinear | LowRank) or (isinstance(weight, Tensor) and weight.dim() == 2)


def hearing(heard: Overheard, trace: Trace, inside: bool) -> Callable[..., None]:
    """Keeps what a map took and gave, if it came before the attention or takes its heads."""

    def hook(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        x = given[0] if given else None
        if not isinstance(x, Tensor) or not isinstance(output, Tensor) or not x.is_floating_point():
            return
        before = inside and not trace.seen
        if before or (trace.seen and heard.after is None and takes(x, trace.seen[0][1])):
            # Copies, as the model may go on to write over its own.
            ran = Ran(x.detach().clone(), output.detach().clone(), lambda: matrix_of(module, x))
            heard.before, heard.after = ([*heard.before, ran], None) if before else (heard.before, ran)

    return hook


def matrix_of(module: nn.Module, like: Tensor) -> Map:
    """W and b of a linear map; how it keeps its parameters is its own affair."""
    if isinstance(module, nn.Linear):
        return module.weight.detach().mT, None if module.bias is None else module.bias.detach()
    each = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)[None]
    b = module(torch.zeros_like(each[:, :1]))[0, 0]
    return module(each)[0] - b, b if bool(b.any()) else None


def multi_head(heard: Overheard) -> Callable[..., None]:
    """Keeps the same of a torch.nn.MultiheadAttention, which calls no modules for it."""

    def hook(module: nn.MultiheadAttention, given: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        told = dict(zip(("query", "key", "value"), given, strict=False)) | named
        for letter, (W, b) in zip(("query", "key", "value"), in_projections(module), strict=True):
            x = batch_first(module, told[letter]).detach()
            heard.before.append(Ran(x, F.linear(x, W.mT, b), lambda found=(W, b): found))
        last = module.out_proj
        result = batch_first(module, output[0]).detach()
        heard.after = Ran(result, result, lambda: matrix_of(last, result))

    return hook


def in_projections(module: nn.MultiheadAttention) -> list[Map]:
    own = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    weights = own if module.in_proj_weight is None else module.in_proj_weight.chunk(3)
    biases = (None, None, None) if module.in_proj_bias is None else module.in_proj_bias.detach().chunk(3)
    return [(W.detach().mT, b) for W, b in zip(weights, biases, strict=True)]  # pyright: ignore[reportOptionalMemberAccess]


def batch_first(module: nn.MultiheadAttention, x: Tensor) -> Tensor:
    if x.dim() == 2:
        return x[None]
    return x if module.batch_first else x.transpose(0, 1)


def rows_of(x: Tensor, batch: int, batches: int, tokens: int) -> Tensor | None:
    """One vector per token of a sequence of the batch; None where they are not laid out so."""
    if x.dim() == 2 and x.shape[0] == batches * tokens:
        x = x.unflatten(0, (batches, tokens))
    return x[batch] if x.dim() == 3 and x.shape[:2] == (batches, tokens) else None
