"""Runs a model on one input without each of many edges, several in one batch, and measures how its output changes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.ablation.edge import Edge
from transom.lens.ablation.knock_out import How, knock_out
from transom.lens.capture.watch import check_is_model
from transom.names import Misfit, format_shape

MAX_COPIES = 32  # copies of the input in one run
MAX_TOKENS = 4096  # tokens of all copies together
MAX_NUMBERS = 2**26  # numbers that a run may return: 256 MB in float32
ALIKE = 1e-3  # how far a copy may be from the input alone, as a share of its largest number
NATS, SHARE = "nats", "share"

ReadOutput = Callable[[Any], Tensor]  # of a model's result, what is compared: (batch, …)


@dataclass(frozen=True, eq=False)
class ModelCall:
    """A model and its arguments, for one sequence."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_inputs(cls, model: nn.Module, inputs: object, caller: str = "effect") -> "ModelCall":
        """The call that inputs stand for: a mapping by name, a tuple or list by position, or one tensor."""
        check_is_model(model, caller)
        if model.training:
            raise Misfit(
                f"{caller} compares runs, but the model is training and draws dropout; call model.eval() first"
            )
        if isinstance(inputs, Mapping):
            call = cls(model, kwargs=dict(inputs))
        elif isinstance(inputs, Tensor | tuple | list):
            call = cls(model, (inputs,) if isinstance(inputs, Tensor) else tuple(inputs))
        else:
            raise Misfit(
                "inputs are what the model is called with, a dict, a tuple or a tensor, but got"
                f" {type(inputs).__name__}; a tokenizer gives them with return_tensors='pt'"
            )
        for value in (*call.args, *call.kwargs.values()):
            if hasattr(value, "get_seq_length") or type(value).__name__.endswith("Cache"):
                raise Misfit(f"{caller} runs the model many times, but inputs hold a cache, which grows; leave it out")
        return call

    def __call__(self, copies: int = 1, gradients: bool = False) -> Any:
        """Run the model on so many copies of the sequence, as one batch."""
        with torch.set_grad_enabled(gradients):
            args = (repeat_input(value, copies) for value in self.args)
            return self.model(*args, **{name: repeat_input(value, copies) for name, value in self.kwargs.items()})


def repeat_input(value: Any, copies: int) -> Any:
    """A tensor of one sequence as a batch of copies; anything else unchanged."""
    is_sequence = isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == 1
    return value.repeat(copies, *[1] * (value.dim() - 1)) if is_sequence and copies > 1 else value


@dataclass(eq=False)
class AblatedRuns:
    """Runs a call without each edge, and reads the output with and without it, computed in the same way."""

    call: ModelCall
    read: ReadOutput
    baseline: Tensor  # what is read with all edges, of the one sequence: (1, …)
    how: How
    tokens: int  # of the longest attention
    progress: Callable[[int, int], None] | None = None
    one_by_one: bool = False  # whether copies of the input turned out not to make a batch

    def run(self, edges: Sequence[Edge]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each edge, what is read with it and without it."""
        return self.run_sets([[edge] for edge in edges])

    def run_sets(self, sets: Sequence[Sequence[Edge]]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each set of edges, what is read with them and without all of them."""
        size = self.batch_size()
        if len(sets) > 1 and size > 1 and not self.batching_works():
            self.one_by_one = True
        size = 1 if self.one_by_one else size
        for first in range(0, len(sets), size):
            batch = sets[first : first + size]
            if size > 1:
                in_batch = [replace(edge, batch=entry) for entry, edges in enumerate(batch, 1) for edge in edges]
                baseline, *outputs = self.run_without(in_batch, len(batch) + 1)
            else:
                baseline, outputs = self.baseline[0], self.run_without(batch[0])
            if self.progress is not None:
                self.progress(min(first + size, len(sets)), len(sets))
            yield from ((baseline, output) for output in outputs)

    def batch_size(self) -> int:
        """How many edges go into one run, beside the copy that keeps them all."""
        numbers = self.tokens * (self.baseline.shape[-1] if self.baseline.dim() > 1 else 1)
        most = min(MAX_COPIES, MAX_TOKENS // max(1, self.tokens), MAX_NUMBERS // max(1, numbers))
        return max(1, most - 1)

    def batching_works(self) -> bool:
        """Whether a batch of copies gives for each copy what the input gives alone."""
        expected = self.baseline
        try:
            outputs = self.read(self.call(2))
        except (RuntimeError, ValueError, IndexError, TypeError):
            return False
        if outputs.shape != (2, *expected.shape[1:]):
            return False
        tolerance = ALIKE * float(expected[expected.isfinite()].abs().max()) if expected.isfinite().any() else 0.0
        return all(torch.allclose(row, expected[0], rtol=0.0, atol=tolerance, equal_nan=True) for row in outputs)

    def run_without(self, edges: Sequence[Edge], copies: int = 1) -> Tensor:
        with knock_out(self.call.model, edges=edges, how=self.how):
            return self.read(self.call(copies))


class OutputChanges(NamedTuple):
    """For each edge how far the model's output moves without it.

    For logits in nats: KL(with ‖ without), summed over positions. For vectors as a share of their length:
    ‖without − with‖ / ‖with‖.
    """

    values: list[float]
    unit: str


def measure_changes(
    model: nn.Module,
    inputs: object,
    edges: Sequence[Edge],
    tokens: int,
    how: How = "before",
    progress: Callable[[int, int], None] | None = None,
) -> OutputChanges | None:
    """How far the output moves without each edge alone; None if the model returns nothing that can be compared.

    `tokens` is the length of its longest attention.
    """
    call = ModelCall.from_inputs(model, inputs)
    for read, unit, change in ((read_logits, NATS, kl_sum), (read_hidden, SHARE, relative_change)):
        try:
            baseline = read(call())
        except Misfit:
            continue
        runs = AblatedRuns(call, read, baseline, how, tokens, progress)
        return OutputChanges([change(*pair) for pair in runs.run(edges)], unit)
    return None


def logits_of(result: Any) -> Tensor:
    """The logits of a model's result: the tensor itself, or its attribute `logits`."""
    logits = result if isinstance(result, Tensor) else getattr(result, "logits", None)
    if not isinstance(logits, Tensor) or logits.dim() not in (2, 3):
        got = format_shape(logits, "") if isinstance(logits, Tensor) else type(result).__name__
        raise Misfit(
            f"the model gives no logits (batch, vocabulary) or (batch, token, vocabulary), but {got}; say what to"
            " measure, as in output=lambda result: result.last_hidden_state[:, 0].norm(dim=-1)"
        )
    return logits


def read_logits(result: Any) -> Tensor:
    """The logits of all positions."""
    return logits_of(result).detach().double()


def hidden_of(result: Any) -> Tensor:
    """The vectors of all positions that a model returns first."""
    hidden = result if isinstance(result, Tensor) else getattr(result, "last_hidden_state", None)
    if not isinstance(hidden, Tensor) or hidden.dim() < 2 or not hidden.is_floating_point():
        raise Misfit(f"the model gives no vectors to compare, but {type(result).__name__}; use effect with output=…")
    return hidden


def read_hidden(result: Any) -> Tensor:
    """The vectors of all positions, in float64."""
    return hidden_of(result).detach().double()


def divergence(baseline: Float[Tensor, "... vocabulary"], without: Float[Tensor, "... vocabulary"]) -> Tensor:
    """KL(with ‖ without) in nats, of logits with all edges and without some."""
    p, q = torch.log_softmax(baseline, dim=-1), torch.log_softmax(without, dim=-1)
    terms = p.exp() * (p - q)
    return torch.where(p == -torch.inf, 0.0, terms).sum(dim=-1).clamp_min(0.0)


def kl_sum(baseline: Tensor, without: Tensor) -> float:
    return float(divergence(baseline, without).sum())


def relative_change(baseline: Tensor, without: Tensor) -> float:
    return float((without - baseline).norm() / baseline.norm().clamp_min(torch.finfo(baseline.dtype).tiny))
