"""Intercepts every attention: in PyTorch's dispatcher, in `transom.attend`, and in the calls of modules.

Each attention kernel of the dispatcher is wrapped by one that calls it and reports its inputs and outputs. The model
runs its own kernels in its own order, so its output is bit-identical, wherever its attention function comes from.
The first listener of any thread installs the hooks and the last one removes them; each thread captures only its own
attentions.
"""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from transom.kernels import Problem, dispatch
from transom.lens.capture.call_state import (
    CAPTURE,
    AttentionListener,
    EagerCall,
    KernelCall,
    is_concrete,
)
from transom.lens.capture.captured_attention import CapturedAttention, Unreadable
from transom.lens.capture.compiled_graphs import GRAPHS
from transom.lens.capture.eager_attention import UNREAD, from_eager_call, wrap_attention_interface
from transom.lens.capture.edge_cut import cut_captured, cut_native, cut_sdpa
from transom.lens.capture.hand_hooks import (
    capture_exp,
    capture_normalisation,
    capture_product,
    capture_scores,
    capture_softmax,
    capture_sparse_softmax,
    capture_sum,
)
from transom.lens.capture.kernel_overrides import OVERRIDES, Override
from transom.lens.capture.module_hooks import wrap_module_calls
from transom.lens.capture.thread_inheritance import wrap_threads
from transom.lens.capture.torch_attention import (
    FunctionCall,
    from_native_mha,
    from_nested_sdpa,
    from_sdpa,
    wrap_jagged_attention,
)

FLASH_ARGS = ("query", "key", "value", "dropout_p", "is_causal")  # positional arguments of the fused kernel


def capture_sdpa(run: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """The function that most models call; what runs inside it is not reported again."""
    if isinstance(args[0], Tensor) and args[0].is_nested:
        return capture_nested(run, *args, **kwargs)
    if not CAPTURE.starts_attention(args[0]):
        return run(*args, **kwargs)
    state = CAPTURE.__dict__  # of this thread; each look-up of a thread's attribute would cost as much again
    rng_state = None if state["only_listens"] or not CAPTURE.cutters else torch.get_rng_state()
    call, running = KernelCall(), state["attention_calls"]
    running.append(call)
    try:
        output = run(*args, **kwargs)
    finally:
        running.remove(call)
    if state["only_listens"]:
        CAPTURE.publish_call(FunctionCall(output, call.lse, *args, **kwargs))
        return output
    read = lambda: from_sdpa(output, call.lse, *args, **kwargs)  # noqa: E731
    if rng_state is not None:
        return cut_sdpa(output, read(), lambda: run(*args, **kwargs), rng_state)
    output = CAPTURE.patch(output, read)
    output = CAPTURE.track(output, lambda gradient: gradient)
    CAPTURE.publish(read)
    return output


def capture_nested(run: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """The same function on nested tensors."""
    if not CAPTURE.listeners or CAPTURE.attention is not None:
        return run(*args, **kwargs)
    with CAPTURE.enter(KernelCall()):
        output = run(*args, **kwargs)
    cannot_cut = Unreadable("it runs on nested tensors, of which edges cannot be cut")
    CAPTURE.publish(lambda: cannot_cut if CAPTURE.cutters else from_nested_sdpa(output, *args, **kwargs))
    return output


def capture_native_mha(run: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """The fast path of `nn.MultiheadAttention`, of tensors or nested ones."""
    if not CAPTURE.listeners or CAPTURE.attention is not None or not (args[0].is_nested or is_concrete(args[0])):
        return run(*args, **kwargs)
    with CAPTURE.enter(KernelCall()):
        outputs = run(*args, **kwargs)
    return cut_native(outputs, lambda: from_native_mha(outputs, *args, **kwargs))


def capture_flash(run: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """The fused kernel: inside an attention it gives the log-sum-exp; alone, in compiled code, it is an attention."""
    output, lse = run(*args, **kwargs)
    attention = CAPTURE.attention
    if isinstance(attention, KernelCall):
        attention.log_sum_exps.append(lse)
    elif CAPTURE.starts_attention(args[0]):
        named_args = dict(zip(FLASH_ARGS, args, strict=False))
        CAPTURE.publish(lambda: from_sdpa(output, lse, **named_args, **kwargs))
    return output, lse


def capture_eager(function: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
    """Run Hugging Face's eager attention unchanged, and report it by the weights of its softmax."""
    if not CAPTURE.starts_attention(bound.arguments.get("query")):
        return function(*bound.args, **bound.kwargs)
    with CAPTURE.enter(EagerCall(bound.arguments["key"].shape[2])) as call:
        result = function(*bound.args, **bound.kwargs)
    output = result[0] if isinstance(result, tuple) else result
    if isinstance(output, Tensor) and output.dim() == 4:
        read = lambda: from_eager_call(bound.arguments, call.weights, output, call.cut)  # noqa: E731
        output = CAPTURE.patch(output.transpose(1, 2), read).transpose(1, 2) if CAPTURE.patchers else output
        output = CAPTURE.track(output, lambda gradient: gradient.transpose(1, 2))
        result = (output, *result[1:]) if isinstance(result, tuple) else output
    CAPTURE.publish(lambda: from_eager_call(bound.arguments, call.weights, output, call.cut) or Unreadable(UNREAD))
    return result


def capture_attend(problem: Problem, solve: dispatch.Solve) -> tuple[Tensor, Tensor]:
    """`transom.attend`, with its mask and bias as they are."""
    if not CAPTURE.starts_attention(problem.Q):
        return solve(problem)
    with CAPTURE.enter(KernelCall()):
        output, lse = solve(problem)
    captured, _ = cut_captured(CapturedAttention(problem, output, lse))
    output = CAPTURE.patch(output if captured.output is None else captured.output, lambda: captured)
    output = CAPTURE.track(output, lambda gradient: gradient)
    captured = replace(captured, output=output.detach()) if CAPTURE.patched else captured
    CAPTURE.publish(lambda: captured)
    return output, lse


# The operators that are captured, for which dispatch key, and by what.
OPERATORS: list[Override] = [
    ("scaled_dot_product_attention", "CompositeImplicitAutograd", capture_sdpa),
    ("_scaled_dot_product_flash_attention_for_cpu", "CPU", capture_flash),
    ("_native_multi_head_attention", "CPU", capture_native_mha),
    ("_native_multi_head_attention", "NestedTensorCPU", capture_native_mha),
    ("_softmax", "CPU", capture_softmax),
    ("_log_softmax", "CPU", capture_normalisation),
    ("_masked_softmax", "CPU", capture_normalisation),
    ("_sparse_softmax", "SparseCPU", capture_sparse_softmax),
    ("exp", "CPU", capture_exp),
    ("exp_", "CPU", capture_exp),
    ("sum.dim_IntList", "CPU", capture_sum),
    ("bmm", "CPU", capture_product),
    ("baddbmm", "CPU", capture_scores),
]
# Those that are captured above autograd too, once edges are to be cut.
CUT_OPERATORS: list[Override] = [
    ("_softmax", "AutogradCPU", partial(capture_softmax, above_autograd=True)),
    ("bmm", "AutogradCPU", partial(capture_product, above_autograd=True)),
]


class DispatchHooks:
    """The wrapped kernels and calls, installed while anybody listens."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.undo = ExitStack()  # what `install` did, to be undone

    def add(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.install()

    def remove(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.undo.close()

    def install(self) -> None:
        self.undo.callback(wrap_attention_interface(capture_eager))
        self.undo.callback(wrap_threads())
        self.undo.callback(GRAPHS.wrap())
        self.undo.callback(wrap_jagged_attention(capture_nested))
        self.undo.callback(OVERRIDES.remove)
        OVERRIDES.install(OPERATORS)
        self.undo.callback(wrap_module_calls())
        self.undo.callback(setattr, dispatch, "listener", None)
        dispatch.listener = capture_attend


INSTALLED = DispatchHooks()


@contextmanager
def listen(listener: AttentionListener) -> Iterator[None]:
    """While the block runs, report each attention of this thread to a listener, and cut the edges that it names."""
    INSTALLED.add()
    if listener.cuts_edges:
        OVERRIDES.wrap_once(CUT_OPERATORS)
    CAPTURE.set_listeners([*CAPTURE.listeners, listener])
    try:
        yield
    finally:
        listener.is_open = False
        CAPTURE.set_listeners([one for one in CAPTURE.listeners if one is not listener])
        if not CAPTURE.listeners:
            CAPTURE.clear_modules()
        INSTALLED.remove()
