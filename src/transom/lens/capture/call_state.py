"""The state of capture in one thread: who listens, who cuts edges, and which modules and attentions are running."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch._C import _get_tracing_state, _set_tracing_state  # pyright: ignore[reportAttributeAccessIssue]
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from transom.kernels import Problem
from transom.lens.capture.attention_listener import PATCHED, AttentionListener, ReadAttention
from transom.lens.capture.captured_attention import CapturedAttention, EdgeCut, Unreadable
from transom.lens.capture.torch_attention import FunctionCall
from transom.lens.capture.weight_products import HandAttention
from transom.lens.unseen_attention import Evidence

TRACED = (FakeTensor, FunctionalTensor)


@dataclass(frozen=True, eq=False)
class Leftover:
    """A softmax ran in a module and became part of no attention that was captured."""

    module: nn.Module | None
    reason: str
    evidence: Evidence
    run: int  # how many modules had run by then
    beside: bool = False  # whether it counts although an attention of the same module was captured


class TrackedOutput(NamedTuple):
    """Where the gradient of an attention's output comes out, and how to make (batch, heads, queries, d_value) of it."""

    edge: GradientEdge
    to_heads: Callable[[Tensor], Tensor]


@dataclass(eq=False, slots=True)
class ModuleCall:
    """A module's forward is running; its attentions and its softmax belong to it."""

    module: nn.Module
    count_before: int  # attentions that the thread had captured when it began
    cut: EdgeCut | None = None  # the edges that were cut out of its last softmax


@dataclass(eq=False)
class KernelCall:
    """One kernel computes the attention; the fused kernels inside it give their log-sum-exps."""

    log_sum_exps: list[Tensor] = field(default_factory=list)

    @property
    def lse(self) -> Tensor | None:
        """The log-sum-exp of the attention, if exactly one fused kernel computed all of it."""
        return self.log_sum_exps[0] if len(self.log_sum_exps) == 1 else None


@dataclass(eq=False)
class RepeatedCall:
    """A kernel with dropout runs again, to cut edges out of the softmax inside it."""

    shape: tuple[int, int, int, int]
    to_cut: EdgeCut
    cut: EdgeCut | None = None  # what was cut; None until the softmax has run


@dataclass(eq=False)
class EagerCall:
    """A Python function computes the attention step by step; its softmax gives the weights."""

    keys: int
    weights: list[Tensor] = field(default_factory=list)
    cut: EdgeCut | None = None


@dataclass(eq=False)
class OwnWork:
    """Transom computes something itself, or has captured already what runs; nothing in it is captured."""


AttentionCall = KernelCall | RepeatedCall | EagerCall | OwnWork
Attention = TypeVar("Attention", bound=AttentionCall)


class CaptureState(threading.local):
    """What one thread captures: for whom, and the modules and attentions that are running, outermost first."""

    def __init__(self) -> None:
        self.listeners: list[AttentionListener] = []
        self.only_listens = True  # whether no listener changes an output, cuts edges or takes gradients
        self.module_calls: list[ModuleCall] = []
        self.attention_calls: list[AttentionCall] = []
        self.count = 0  # of attentions captured so far
        self.runs = 0  # of modules so far
        self.ran: dict[nn.Module, int] = {}  # the modules that ran, and the number of their last run
        self.key_counts: set[int] = set()  # of the attentions captured so far
        self.hand = HandAttention()
        self.leftovers: list[Leftover] = []
        self.tracked: TrackedOutput | None = None  # of the attention that is being reported
        self.patched = False  # whether its output was replaced

    def snapshot(self) -> Callable[[], AbstractContextManager[None]]:
        """What this thread captures now, as a context in which another thread captures for the same listeners."""
        shared = {name: getattr(self, name) for name in ("ran", "leftovers", "key_counts", "runs")}
        listeners, calls = self.listeners, list(self.module_calls)

        @contextmanager
        def inherit() -> Iterator[None]:
            before = dict(vars(self))
            CaptureState.__init__(self)
            vars(self).update(shared, module_calls=list(calls))
            self.set_listeners(list(listeners))
            try:
                yield
            finally:
                vars(self).update(before)

        return inherit

    def set_listeners(self, listeners: list[AttentionListener]) -> None:
        """Listen for these from now on."""
        self.listeners = listeners
        self.only_listens = not any(one.cuts_edges or one.patches_outputs or one.takes_gradients for one in listeners)

    @property
    def patchers(self) -> list[AttentionListener]:
        return [listener for listener in self.listeners if listener.patches_outputs and listener.is_open]

    @property
    def cutters(self) -> list[AttentionListener]:
        return [listener for listener in self.listeners if listener.cuts_edges]

    @property
    def attention(self) -> AttentionCall | None:
        """The innermost attention that is running; None outside any."""
        calls = self.attention_calls
        return calls[-1] if calls else None

    @property
    def module_call(self) -> ModuleCall | None:
        """The innermost module that is running; None outside any."""
        return self.module_calls[-1] if self.module_calls else None

    @property
    def modules(self) -> list[nn.Module]:
        """The modules that are running, outermost first."""
        return [call.module for call in self.module_calls]

    @property
    def order(self) -> int:
        """Which attention of the innermost module the next one is."""
        call = self.module_call
        return 0 if call is None else self.count - call.count_before

    def starts_attention(self, x: object) -> bool:
        """Whether an attention of x is to be captured: somebody listens, x has data, and no attention is running."""
        state = self.__dict__
        return bool(state["listeners"]) and not state["attention_calls"] and is_concrete(x)

    @contextmanager
    def enter(self, call: Attention) -> Iterator[Attention]:
        """What runs in this block belongs to that attention."""
        self.attention_calls.append(call)
        try:
            yield call
        finally:
            self.attention_calls.remove(call)

    def clear_modules(self) -> None:
        """Drop all modules and softmaxes, once nobody listens any more."""
        self.module_calls.clear()
        self.hand.clear()
        self.leftovers.clear()
        self.key_counts.clear()
        self.ran.clear()

    def record_cut(self, cut: EdgeCut | None) -> None:
        """Remember what was cut out of a softmax: for the attention that it is part of, or else for its module."""
        call = self.attention or self.module_call
        if isinstance(call, RepeatedCall | EagerCall | ModuleCall):
            call.cut = cut

    def patch(self, output: Tensor, read: ReadAttention) -> Tensor:
        """The output (batch, heads, queries, d_value) that the model goes on with: its own, or a patched one."""
        for listener in self.patchers:
            with own_work():
                patched = listener.patch_output(output, read, self.modules, self.order)
            output, self.patched = (output, self.patched) if patched is None else (patched, True)
        return output

    def track(self, output: Tensor, to_heads: Callable[[Tensor], Tensor]) -> Tensor:
        """The output of an attention for the model to go on with, differentiable if a listener takes gradients."""
        scales = [listener.output_scale for listener in self.listeners if listener.takes_gradients]
        if not scales or not torch.is_grad_enabled():
            return output
        output = output if min(scales) == 1.0 else output * min(scales)
        source = output if output.requires_grad else output.detach().requires_grad_()
        self.tracked = TrackedOutput(get_gradient_edge(source), to_heads)
        return output if source is output else source.clone()  # a model may overwrite it, but not a leaf

    def publish_call(self, call: FunctionCall) -> None:
        """Report a call of PyTorch's attention function, if all of the listeners only listen."""
        order, modules, state = self.order, self.modules, self.__dict__
        state["count"] += 1
        state["key_counts"].add(call.key.shape[-2])
        with outside_model():
            for listener in state["listeners"]:
                if listener.is_open:
                    listener.on_call(call, modules, order)

    def publish(
        self, read: Callable[[], CapturedAttention | Unreadable], modules: list[nn.Module] | None = None
    ) -> None:
        """Report one attention to the listeners; `modules` are those it ran in, by default those that run now."""
        order, state = self.order, self.__dict__
        state["count"] += 1
        modules = self.modules if modules is None else modules
        with outside_model():
            captured = read()
            if isinstance(captured, CapturedAttention):
                state["key_counts"].add(captured.problem.K.shape[2])
                captured = replace(captured, unproved=PATCHED) if state["patched"] else captured
            for listener in state["listeners"]:
                if listener.is_open:
                    listener.on_attention(captured, modules, order)
        state["tracked"], state["patched"] = None, False

    def edges_to_cut(self, problem: Problem, modules: list[nn.Module] | None = None) -> EdgeCut | None:
        """The edges to cut out of the attention that is running; None if there are none."""
        cutters = self.cutters
        if not cutters:
            return None
        modules = self.modules if modules is None else modules
        with outside_model():
            cuts = [cutter.edges_to_cut(problem, modules, self.order) for cutter in cutters]
        cuts = [cut for cut in cuts if cut is not None]
        return reduce(or_, cuts) if cuts else None


CAPTURE = CaptureState()


@contextmanager
def own_work() -> Iterator[None]:
    """For what Transom computes in the model's stead: not captured, and without autocast."""
    autocast = torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext()
    with autocast, CAPTURE.enter(OwnWork()):
        yield


class OutsideModel:
    """A context that changes only what is not yet as it should be: it is entered for every attention."""

    def __enter__(self) -> None:
        self.tracing = _get_tracing_state()  # of torch.jit.trace
        if self.tracing is not None:
            _set_tracing_state(None)
        self.contexts: list[AbstractContextManager[object]] = []
        if torch.is_inference_mode_enabled():
            self.add(torch.inference_mode(False))
        if torch.is_grad_enabled():
            self.add(torch.no_grad())
        if torch.is_autocast_enabled("cpu"):
            self.add(torch.autocast("cpu", enabled=False))
        self.work = OwnWork()
        CAPTURE.attention_calls.append(self.work)

    def add(self, context: AbstractContextManager[object]) -> None:
        context.__enter__()
        self.contexts.append(context)

    def __exit__(self, *exception: object) -> None:
        CAPTURE.attention_calls.remove(self.work)
        for context in reversed(self.contexts):
            context.__exit__(None, None, None)
        if self.tracing is not None:
            _set_tracing_state(self.tracing)


def outside_model() -> OutsideModel:
    """For what Transom computes beside the model: not captured, without autocast, gradients and inference tensors,
    and untraced."""
    return OutsideModel()


def is_concrete(x: object) -> bool:
    """Whether x is a plain tensor with data: not nested, and not one that a compiler, vmap or grad traces with."""
    if type(x) is not Tensor and (not isinstance(x, Tensor) or isinstance(x, TRACED)):
        return False
    return not (x.is_meta or x.is_nested or is_functorch_wrapped_tensor(x))
