"""What one thread listens with: who watches, who cuts edges, and in which modules an attention runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from transom.equations.biases import Bias
from transom.equations.masks import Mask
from transom.kernels.problem import Problem
from transom.lens.asking.cut import Cut
from transom.lens.hearing.heard import Heard


@runtime_checkable
class Watcher(Protocol):
    """Someone who wants to know of each attention, in which modules it ran (outermost first), and as which of them.

    None stands for an attention that could not be read.
    """

    def hear(self, one: Heard | None, modules: list[nn.Module], order: int) -> None: ...


@dataclass(frozen=True, eq=False)
class Outline:
    """What is known of an attention before its edges are cut: its sizes, and what tells where its rows may look."""

    whole: tuple[int, int, int, int]
    mask: Mask | None = None
    bias: Bias | None = None
    scores: Tensor | None = None  # where they are held whole, masks and all
    compiled: bool = False  # whether gradients would not follow a change of what it gives

    @classmethod
    def of(cls, problem: Problem, compiled: bool = False) -> "Outline":
        return cls(problem.whole, problem.mask, problem.bias, compiled=compiled)


@runtime_checkable
class Cutter(Protocol):
    """Someone who wants edges cut out of attentions."""

    def cut(self, outline: Outline, modules: list[nn.Module], order: int) -> Cut | None: ...


class Ear(threading.local):
    """What one thread listens with."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.cutters: list[Cutter] = []
        self.modules: list[nn.Module] = []  # those whose forward is running, outermost first
        self.told: list[int] = []  # for each of them, how many attentions had been heard when it began
        self.count = 0
        self.inside: list[Tensor] | None = None  # within an attention: the log-sum-exps its kernels gave
        self.weights: list[Tensor] | None = None  # within one computed by hand: what its softmax gave
        self.keys: int | None = None  # … and how many keys it has
        self.to_cut: Cut | None = None  # what the softmax within a kernel is to be cut by
        self.was_cut: Cut | None = None  # what the last softmax was cut by
        self.deaf = False  # a softmax that is heard already
        # Where a softmax ran that was not taken for attention, and over which sizes, the last of each.
        self.passed: dict[nn.Module, tuple[int, ...]] = {}

    def pop(self) -> None:
        self.modules.pop()
        self.told.pop()

    @contextmanager
    def within(self) -> Iterator[list[Tensor]]:
        """What runs in here belongs to one attention."""
        before, self.inside = self.inside, []
        try:
            yield self.inside
        finally:
            self.inside = before

    @property
    def order(self) -> int:
        """Which attention of the innermost module the next one is."""
        return self.count - self.told[-1] if self.told else 0

    def tell(self, found: Callable[[], Heard | None]) -> None:
        """One attention went by; None is one that could not be read."""
        order = self.order
        self.count += 1
        with beside():
            one = found()
            for watcher in self.watchers:
                watcher.hear(one, self.modules, order)

    def cut(self, outline: Outline) -> Cut | None:
        """What is to be cut out of the attention that is running; None where nothing is."""
        found = None
        with beside():
            for cutter in self.cutters:
                one = cutter.cut(outline, self.modules, self.order)
                if one is not None:
                    found = one if found is None else found | one
        return found


EAR = Ear()


def exactly() -> torch.autocast | nullcontext[None]:
    return torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext()


@contextmanager
def beside() -> Iterator[None]:
    """Work of our own beside the model's: no gradients, no autocast, and tensors that live on after the block."""
    with torch.inference_mode(False), torch.no_grad(), exactly(), EAR.within():
        yield


def real(x: object) -> bool:
    """Whether a tensor holds numbers, and is not one that a compiler traces with."""
    return isinstance(x, Tensor) and not isinstance(x, FakeTensor | FunctionalTensor) and x.device.type != "meta"
