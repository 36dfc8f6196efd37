"""Weights of an attention in any form, read by its linearity in the values: it runs again with zeros and ones.

With a value that is 1 for one key and 0 for all others, the output of a row *is* its weight for that key, with the
model's own bits. A module that projects to its values by a module of its own can be asked in this way, whatever it does
with blocks, windows, random keys or the order of its queries. What comes of it counts only if the weights reproduce the
output that the model used.
"""

import math
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.capture.call_state import CAPTURE, OwnWork, outside_model
from transom.lens.capture.captured_attention import CapturedAttention
from transom.lens.capture.eager_attention import HEADS, from_weights
from transom.lens.capture.layer_kinds import projection_role, value_projections
from transom.lens.capture.sparse_probe import Ask, SparseWeights, ask_sparse_weights
from transom.lens.capture.weight_products import is_row_stochastic

DENSE_WEIGHTS = 2**20  # of one attention; beyond that only those that are not 0 are kept
SIMPLE = Tensor | bool | int | float | str | None
OTHER_VALUES = "some of its rows use values of their own, so they were compared when it ran"


@dataclass(eq=False)
class ModuleRun:
    """What one more run of a module took and gave."""

    values: dict[nn.Module, list[Tensor]] = field(default_factory=dict)  # outputs of each projection to values
    inputs: list[Tensor] = field(default_factory=list)  # of the last projection that is not to Q, K or V
    result: object = None

    @property
    def output(self) -> Tensor | None:
        """The output of all heads side by side: what W_O takes, or what the module returns."""
        parts = self.inputs or [first_tensor(self.result)]
        if any(part is None or part.dim() != 3 for part in parts):
            return None
        return torch.cat([part for part in parts if part is not None], dim=1)


def first_tensor(result: object) -> Tensor | None:
    while isinstance(result, tuple | list) and result:
        result = result[0]
    return result if isinstance(result, Tensor) else None


def is_repeatable(args: object) -> bool:
    """Whether arguments are plain, so that a module may run again with them: a cache would grow."""
    if isinstance(args, tuple | list):
        return all(is_repeatable(value) for value in args)
    if isinstance(args, dict):
        return all(is_repeatable(value) for value in args.values())
    return isinstance(args, SIMPLE)


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """The random numbers after the block are those that would have come without it."""
    numpy: Any = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.random.set_state(states[2])


class ValueProbe:
    """Runs one module again, with its own values or with others."""

    def __init__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.projections = value_projections(module)
        self.others = [
            child
            for name, child in module.named_children()
            if projection_role(name.replace("_global", "")) is None
            and isinstance(getattr(child, "weight", None), Tensor)
        ]

    def run(self, values: Sequence[Tensor] | None = None) -> ModuleRun:
        """One run; the calls of each projection to values give `values` instead of their own, in order."""
        run = ModuleRun()

        def replace_values(child: nn.Module, _: Any, own: Tensor) -> Tensor | None:
            calls = run.values.setdefault(child, [])
            calls.append(own)
            return None if values is None else values[len(calls) - 1]

        def keep_input(child: nn.Module, args: tuple[Any, ...]) -> None:
            weight: Any = getattr(child, "weight", None)
            x = args[0] if args else None
            if isinstance(x, Tensor) and x.is_floating_point() and x.dim() == 3 and weight.dim() == 2:
                run.inputs.append(x)

        with ExitStack() as stack, torch.no_grad(), CAPTURE.enter(OwnWork()):
            for child in self.projections:
                stack.enter_context(child.register_forward_hook(replace_values))  # pyright: ignore[reportArgumentType]
            for child in self.others:
                stack.enter_context(child.register_forward_pre_hook(keep_input))  # pyright: ignore[reportArgumentType]
            run.result = self.module(*self.args, **self.kwargs)
        return run


def probe_weights(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
) -> CapturedAttention | str:
    """The attention of a module that has just run, or why it cannot be read in this way."""
    if module.training:
        return "in training it cannot be run again"
    if not is_repeatable(args) or not is_repeatable(kwargs):
        return "it cannot be run again, as it was called with a cache"
    heads = next((count for name in HEADS if isinstance(count := getattr(module, name, None), int)), 0)
    probe = ValueProbe(module, args, kwargs)
    if not heads or not probe.projections:
        return "its heads are not known"
    with random_numbers_kept():
        try:
            return read_probe(probe, heads, result)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            return f"it could not be run again ({type(error).__name__})"


def read_probe(probe: ValueProbe, heads: int, result: object) -> CapturedAttention | str:
    own = probe.run()
    output, before, again = own.output, first_tensor(result), first_tensor(own.result)
    if before is None or again is None or not torch.equal(before, again):
        return "it computes something else when it runs again"
    values = next(iter(own.values.values()), [])
    if output is None or not values or any(x.dim() != 3 or x.shape[2] % heads for x in values):
        return "its values have another layout"
    batch_axis = 0 if values[0].shape[0] == output.shape[0] else 1
    keys = sum(x.shape[1 - batch_axis] for x in values)
    shape = (output.shape[0], heads, output.shape[1], keys)
    if any(x.shape[batch_axis] != shape[0] for x in values):
        return "its values have another layout"
    ask = partial(ask_with_values, probe, values, batch_axis, heads)
    width = values[0].shape[2] // heads
    if math.prod(shape) > DENSE_WEIGHTS:
        found = ask_sparse_weights(ask, shape, width, values[0])
    else:
        found = ask_all_weights(ask, shape, width, values[0])
    return found if isinstance(found, str) else check_probed(found, own, output, batch_axis)


def ask_with_values(
    probe: ValueProbe, values: list[Tensor], batch_axis: int, heads: int, ones: Float[Tensor, "keys any"]
) -> Float[Tensor, "batch heads queries any"]:
    """What the module gives for each head with these values; a head may be wider than they are."""
    width, channels = values[0].shape[2] // heads, ones.shape[1]
    wide = F.pad(ones, (0, width - channels))[:, None].expand(-1, heads, -1).flatten(1)
    parts = wide.split([x.shape[1 - batch_axis] for x in values])
    probes = [part.unsqueeze(batch_axis).expand_as(x).contiguous() for part, x in zip(parts, values, strict=True)]
    output = probe.run(probes).output
    assert output is not None
    return output.unflatten(2, (heads, width)).transpose(1, 2)[..., :channels]


@dataclass(frozen=True, eq=False)
class DenseWeights:
    """All weights (batch, heads, queries, keys)."""

    weights: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.weights.shape

    @property
    def is_row_stochastic(self) -> bool:
        return is_row_stochastic(self.weights.contiguous(), one_key=True)

    def multiply(self, V: Tensor) -> Tensor:
        return self.weights.double() @ V.double()

    def to_captured(self, V: Tensor, output: Tensor, unproved: str) -> CapturedAttention:
        return from_weights(self.weights.clone(), V, output, unproved)


def ask_all_weights(ask: Ask, shape: tuple[int, int, int, int], width: int, like: Tensor) -> DenseWeights:
    """The weights for as many keys at a time as a head is wide."""
    one_each = torch.eye(shape[3], dtype=like.dtype, device=like.device)
    return DenseWeights(torch.cat([ask(ones) for ones in one_each.split(width, dim=1)], dim=3))


def check_probed(
    found: DenseWeights | SparseWeights, own: ModuleRun, output: Tensor, batch_axis: int
) -> CapturedAttention | str:
    """The attention, if the weights are a softmax's and reproduce the output with the module's own values."""
    heads, keys = found.shape[1], found.shape[3]
    rows = output.unflatten(2, (heads, -1)).transpose(1, 2).clone()
    if not found.is_row_stochastic:
        return "its rows do not sum to 1"
    fits = torch.zeros(rows.shape[:3], dtype=torch.bool, device=rows.device)
    sights = []
    for calls in own.values.values():
        joined = torch.cat([x.transpose(0, 1) if batch_axis else x for x in calls], dim=1)
        V = joined.unflatten(2, (heads, -1)).transpose(1, 2).clone()
        if V.shape[2] != keys:
            continue
        with outside_model():
            bound = 64 * torch.finfo(rows.dtype).eps * found.multiply(V.abs()).amax(dim=-1)
            fits |= (found.multiply(V) - rows.double()).abs().amax(dim=-1) <= bound + 1e-12
        sights.append((V, bool(fits.all())))
    if not bool(fits.all()):
        return "its output does not follow from its weights and values"
    V, alone = sights[0]
    with outside_model():
        return found.to_captured(V, rows, "" if alone else OTHER_VALUES)
