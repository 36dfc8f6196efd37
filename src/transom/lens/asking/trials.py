"""Running a model again and again on one input, each time without some edges: many at once, as entries of one batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from transom.lens.asking.edge import Edge
from transom.lens.asking.knock_out import How, knock_out
from transom.names import Misfit

AT_ONCE = 32  # copies of the input in one run, at most
TOKENS_AT_ONCE = 4096  # tokens of all copies together
NUMBERS_AT_ONCE = 2**26  # numbers that a run may give: 256 MB in float32
ALIKE = 1e-3  # how far a copy may be from the input alone, as a share of its largest number

Read = Callable[[Any], Tensor]


@dataclass(frozen=True, eq=False)
class Call:
    """A model and what it is given: one sequence."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module, inputs: object) -> "Call":
        """The call that inputs stand for: a mapping by name, a tuple or list by place, or one tensor."""
        if not isinstance(model, nn.Module):
            raise Misfit(f"effect takes a torch.nn.Module, but got {type(model).__name__}; give the model itself")
        if model.training:
            raise Misfit("effect compares runs, but the model is training and draws dropout; call model.eval() first")
        if isinstance(inputs, Mapping):
            call = cls(model, named=dict(inputs))
        elif isinstance(inputs, Tensor):
            call = cls(model, (inputs,))
        elif isinstance(inputs, tuple | list):
            call = cls(model, tuple(inputs))
        else:
            raise Misfit(
                "inputs are what the model is called with, a dict, a tuple or a tensor, but got"
                f" {type(inputs).__name__}; a tokenizer gives them with return_tensors='pt'"
            )
        call.check()
        return call

    def check(self) -> None:
        for value in (*self.args, *self.named.values()):
            if hasattr(value, "get_seq_length") or type(value).__name__.endswith("Cache"):
                raise Misfit("effect runs the model many times, but inputs hold a cache, which grows; leave it out")

    def __call__(self, copies: int = 1) -> Any:
        with torch.no_grad():
            args = (copied(value, copies) for value in self.args)
            return self.model(*args, **{name: copied(value, copies) for name, value in self.named.items()})

    def with_gradients(self) -> Any:
        return self.model(*self.args, **self.named)


def copied(value: Any, copies: int) -> Any:
    """A tensor of one sequence as a batch of so many; anything else as it is."""
    one = isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == 1
    return value.repeat(copies, *[1] * (value.dim() - 1)) if one and copies > 1 else value


@dataclass(eq=False)
class Trials:
    """Runs a call without edges, and gives what was read of it with and without them, on the same path."""

    call: Call
    read: Read
    unchanged: Tensor  # what is read with all edges, of the one sequence
    how: How
    tokens: int  # of the longest attention
    progress: Callable[[int, int], None] | None = None
    single: bool = False  # whether copies turned out not to be copies

    def run(self, edges: Sequence[Edge]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each edge, what is read with it and without it."""
        whole = self.unchanged
        at_once = self.room(whole)
        if len(edges) > 1 and at_once > 1 and not copies_work(self.call, self.read, whole):
            self.single = True
        at_once = 1 if self.single else at_once
        for first in range(0, len(edges), at_once):
            some = edges[first : first + at_once]
            pairs = list(self.together(some) if at_once > 1 else self.alone(some[0], whole))
            if self.progress is not None:
                self.progress(min(first + at_once, len(edges)), len(edges))
            yield from pairs

    @property
    def whole(self) -> Tensor:
        return self.unchanged[0]

    def room(self, whole: Tensor) -> int:
        """How many edges go into one run, beside the copy that keeps them all."""
        numbers = self.tokens * (whole.shape[-1] if whole.dim() > 1 else 1)
        most = min(AT_ONCE, TOKENS_AT_ONCE // max(1, self.tokens), NUMBERS_AT_ONCE // max(1, numbers))
        return max(1, most - 1)

    def together(self, edges: Sequence[Edge]) -> Iterator[tuple[Tensor, Tensor]]:
        placed = [replace(edge, batch=place) for place, edge in enumerate(edges, 1)]
        with knock_out(self.call.model, edges=placed, how=self.how):
            found = self.read(self.call(len(edges) + 1))
        for row in found[1:]:
            yield found[0], row

    def alone(self, edge: Edge, whole: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        with knock_out(self.call.model, edges=[edge], how=self.how):
            yield whole[0], self.read(self.call())[0]


def copies_work(call: Call, read: Read, whole: Tensor) -> bool:
    """Whether a batch of copies gives for each of them what the input gives alone."""
    try:
        found = read(call(2))
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    if found.shape != (2, *whole.shape[1:]):
        return False
    near = ALIKE * float(whole[whole.isfinite()].abs().max()) if whole.isfinite().any() else 0.0
    return all(torch.allclose(row, whole[0], rtol=0.0, atol=near, equal_nan=True) for row in found)
