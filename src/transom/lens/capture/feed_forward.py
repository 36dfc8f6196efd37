"""A feed-forward part at one token, unit by unit: what goes in, what each hidden unit computes, what it writes.

The model runs once more. W_1, W_2 and the activation between them are recognised by their numbers:
activation(x W_1 + b_1), for a gated part times x W_up + b_up, must be what W_2 took. What cannot be proved is an error.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transom.lens.capture.head_origin import is_linear_map, matrix_of
from transom.lens.capture.output_projection import find_module
from transom.lens.capture.residual_sizes import block_path
from transom.names import Misfit, check_index

ROUNDING = 64  # times the precision of the numbers, of the largest or of the sum of magnitudes

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "ReLU": torch.relu,
    "GELU": F.gelu,
    "GELU (tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "SiLU": F.silu,
    "quick GELU": lambda x: x * torch.sigmoid(1.702 * x),
    "ReLU²": lambda x: torch.relu(x).square(),
    "tanh": torch.tanh,
}


@dataclass(frozen=True, eq=False)
class LinearMap:
    """x W + b of all hidden units at one token: W (d_model, d_hidden), b, and what the model computed."""

    W: Float[Tensor, "d_model d_hidden"]
    b: Float[Tensor, " d_hidden"] | None
    output: Float[Tensor, " d_hidden"]


@dataclass(frozen=True, eq=False)
class FeedForwardUnits:
    """The hidden units of a feed-forward part at one token: vectors in float64, parameters as the model has them.

    activation   a name in ACTIVATIONS, applied to `gate`
    x            what goes in
    gate, up     x W_1 + b_1, and of a gated part x W_up + b_up, which it is multiplied by
    hidden       what W_2 takes
    W_2, b_2     (d_hidden, d_out); `output` is hidden W_2 + b_2, as the model computed it
    module       the one that applies W_2
    """

    activation: str
    x: Float[Tensor, " d_model"]
    gate: LinearMap
    up: LinearMap | None
    hidden: Float[Tensor, " d_hidden"]
    W_2: Float[Tensor, "d_hidden d_out"]
    b_2: Float[Tensor, " d_out"] | None
    output: Float[Tensor, " d_out"]
    module: nn.Module


class MatrixCall(NamedTuple):
    """A linear map that ran, with all rows: its module, its input, and its output or one half of it."""

    module: nn.Module
    x: Tensor
    output: Tensor
    half: int | None = None  # which half of the output, where gate and up are one matrix

    def parameters(self) -> tuple[Tensor, Tensor | None]:
        W, b = matrix_of(self.module, self.x)
        if self.half is None:
            return W, b
        return W.chunk(2, dim=-1)[self.half], None if b is None else b.chunk(2, dim=-1)[self.half]


class ProvenPart(NamedTuple):
    """W_2's call, the activation and the calls whose outputs it takes; `error` is how far the proof is off."""

    error: float
    activation: str
    gate: MatrixCall
    up: MatrixCall | None
    second: MatrixCall


def find_feed_forward(model: nn.Module, run: Callable[[], object], name: str, row: int) -> FeedForwardUnits:
    """The feed-forward part of the block that holds the attention `name`, at one token of its lane."""
    block = block_path(name)
    module = find_module(model, block)
    with torch.no_grad():
        calls = [] if module is None else capture_calls(module, run)
        found = next((proof for second in reversed(calls) if (proof := prove_part(calls, second))), None)
        if found is None:
            raise Misfit(
                f"the feed-forward part of {block} cannot be taken apart: no two of its matrices with a known"
                f" activation between them ({', '.join(ACTIVATIONS)}) give what it computed"
            )
        if sum(call.module is found.second.module for call in calls) > 1:
            raise Misfit(f"the feed-forward part of {block} ran several times, and only one that runs once is shown")
        return units_at(found, check_index(row, "token", len(rows_of(found.second.x))), block)


def capture_calls(block: nn.Module, run: Callable[[], object]) -> list[MatrixCall]:
    """The linear maps that run in a block, in order."""
    calls: list[MatrixCall] = []

    def on_linear(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if args and isinstance(args[0], Tensor) and args[0].is_floating_point() and isinstance(output, Tensor):
            calls.append(MatrixCall(module, args[0].detach().clone(), output.detach().clone()))

    with ExitStack() as stack:
        for module in block.modules():
            if is_linear_map(module):
                stack.enter_context(module.register_forward_hook(on_linear))
        run()
    return calls


def rows_of(x: Tensor) -> Tensor:
    return x.flatten(0, -2)


def prove_part(calls: list[MatrixCall], second: MatrixCall) -> ProvenPart | None:
    """The maps and the activation that give what `second` took; the closest ones, or None."""
    hidden = rows_of(second.x)
    before = list(candidates(calls[: next(i for i, call in enumerate(calls) if call is second)], hidden.shape))
    eps = max(torch.finfo(hidden.dtype).eps, torch.finfo(torch.float32).eps)
    tolerance = ROUNDING * eps * float(hidden.abs().max())
    proofs = []
    for gate in before:
        for name, activation in ACTIVATIONS.items():
            activated = activation(rows_of(gate.output))
            for up in (None, *(other for other in before if other is not gate)):
                product = activated if up is None else activated * rows_of(up.output)
                error = float((product - hidden).abs().max())
                if error <= tolerance and bool(hidden.any()):
                    proofs.append(ProvenPart(error, name, gate, up, second))
    return min(proofs, key=lambda proof: proof.error, default=None)


def candidates(calls: list[MatrixCall], shape: torch.Size) -> Iterator[MatrixCall]:
    """Calls whose outputs have this shape; of one that is twice as wide, each half."""
    for call in calls:
        rows = rows_of(call.output)
        if rows.shape == shape:
            yield call
        elif rows.shape == (shape[0], 2 * shape[1]):
            for half, output in enumerate(rows.chunk(2, dim=-1)):
                yield call._replace(output=output, half=half)


def units_at(found: ProvenPart, row: int, block: str) -> FeedForwardUnits:
    """The proven part at one token; each of its sums is computed again in float64 and compared."""
    W_2, b_2 = found.second.parameters()
    x, hidden = rows_of(found.gate.x)[row].double(), rows_of(found.second.x)[row].double()
    gate = linear_map_at(found.gate, row, block)
    up = None if found.up is None else linear_map_at(found.up, row, block)
    output = rows_of(found.second.output)[row]
    require_sum(hidden, W_2, b_2, output, block)
    return FeedForwardUnits(found.activation, x, gate, up, hidden, W_2, b_2, output.double(), found.second.module)


def linear_map_at(call: MatrixCall, row: int, block: str) -> LinearMap:
    W, b = call.parameters()
    output = rows_of(call.output)[row]
    require_sum(rows_of(call.x)[row].double(), W, b, output, block)
    return LinearMap(W, b, output.double())


def require_sum(x: Tensor, W: Tensor, b: Tensor | None, output: Tensor, block: str) -> None:
    """x W + b must be what the model computed, but for rounding."""
    total, magnitude = x @ W.double(), x.abs() @ W.double().abs()
    if b is not None:
        total, magnitude = total + b.double(), magnitude + b.double().abs()
    eps = max(torch.finfo(output.dtype).eps, torch.finfo(torch.float32).eps)
    if not bool(((total - output.double()).abs() <= ROUNDING * eps * (magnitude + 1e-6)).all()):
        raise Misfit(f"the feed-forward part of {block} is not shown: its sums are not what the model computed")


def hidden_gradient(
    model: nn.Module, run: Callable[[], object], units: FeedForwardUnits, read: Callable[[Any], Tensor], row: int
) -> tuple[Float[Tensor, " d_hidden"], Float[Tensor, " d_out"]]:
    """The gradient of a number of the model's result at one token, by the hidden units and by what the part gives."""
    entered: list[Tensor] = []
    left: list[Tensor] = []

    def begin_here(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        entered.append(args[0].detach().requires_grad_())
        return (entered[-1], *args[1:])

    def end_here(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        left.append(output)

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            units.module.register_forward_pre_hook(begin_here),
            units.module.register_forward_hook(end_here),
        ):
            number = read(run())[0]
            found = (
                torch.autograd.grad(number, [*entered, *left], allow_unused=True)
                if number.requires_grad
                else (None, None)
            )
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
    by_hidden, by_output = (
        torch.zeros_like(zeros) if one is None else rows_of(one)[row].double()
        for one, zeros in zip(found, (units.hidden, units.output), strict=True)
    )
    return by_hidden, by_output
