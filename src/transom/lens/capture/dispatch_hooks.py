"""Intercepts every attention: in PyTorch's dispatcher, in `transom.attend`, and in the calls of modules.

Each attention kernel of the dispatcher is wrapped by one that calls it and reports its inputs and outputs. The model
runs its own kernels in its own order, so its output is bit-identical, wherever its attention function comes from.
The first listener of any thread installs the hooks and the last one removes them; each thread captures only its own
attentions.
"""

import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from transom.kernels import Problem, dispatch
from transom.lens.capture.call_state import (
    CAPTURE,
    AttentionListener,
    EagerCall,
    KernelCall,
    ModuleCall,
    OwnWork,
    is_concrete,
)
from transom.lens.capture.captured_attention import CapturedAttention
from transom.lens.capture.eager_attention import (
    from_eager_call,
    from_softmax,
    looks_like_attention,
    wrap_attention_interface,
)
from transom.lens.capture.edge_cut import cut_captured, cut_native, cut_sdpa, run_cut_softmax
from transom.lens.capture.torch_attention import (
    from_mha_call,
    from_native_mha,
    from_sdpa,
    mha_gradient_to_heads,
)

FLASH_ARGS = ("query", "key", "value", "dropout_p", "is_causal")  # positional arguments of the fused kernel
TWICE = "Using `torch.compile"  # … that hooks fire for the compiled module too, which is what ours want


def capture_sdpa(run: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """The function that most models call; what runs inside it is not reported again."""
    if not CAPTURE.starts_attention(args[0]):
        return run(*args, **kwargs)
    rng_state = torch.get_rng_state() if CAPTURE.cutters else None
    with CAPTURE.enter(KernelCall()) as call:
        output = run(*args, **kwargs)
    read = lambda: from_sdpa(output, call.lse, *args, **kwargs)  # noqa: E731
    if rng_state is None:
        output = CAPTURE.track(output, lambda gradient: gradient)
        CAPTURE.publish(read)
        return output
    return cut_sdpa(output, read(), lambda: run(*args, **kwargs), rng_state)


def capture_native_mha(run: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """The fast path of `nn.MultiheadAttention`, of tensors or nested ones."""
    if not CAPTURE.starts_attention(args[0]):
        return run(*args, **kwargs)
    with CAPTURE.enter(KernelCall()):
        outputs = run(*args, **kwargs)
    return cut_native(outputs, lambda: from_native_mha(outputs, *args, **kwargs))


def capture_flash(run: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """The fused kernel: inside an attention it gives the log-sum-exp; alone, in compiled code, it is an attention."""
    output, lse = run(*args, **kwargs)
    if isinstance(CAPTURE.attention, KernelCall):
        CAPTURE.attention.log_sum_exps.append(lse)
    elif CAPTURE.starts_attention(args[0]):
        named_args = dict(zip(FLASH_ARGS, args, strict=False))
        CAPTURE.publish(lambda: from_sdpa(output, lse, **named_args, **kwargs))
    return output, lse


def capture_softmax(
    run: Callable[..., Tensor], x: Tensor, dim: int, half_to_float: bool, above_autograd: bool = False
) -> Tensor:
    """A softmax over the last axis: the weights of an attention without a kernel, or of something else.

    It is captured above autograd if edges are to be cut, so that gradients follow, and else below it.
    """
    listening = CAPTURE.listeners
    if above_autograd:
        listening = CAPTURE.cutters and x.requires_grad and torch.is_grad_enabled()
    if not listening or not is_concrete(x) or x.dim() not in (3, 4) or dim not in (-1, x.dim() - 1):
        return run(x, dim, half_to_float)

    def run_softmax(scores: Tensor) -> Tensor:
        with CAPTURE.enter(OwnWork()):  # or what is captured above autograd would be captured below it again
            return run(scores, dim, half_to_float)

    return publish_softmax(run_cut_softmax(x, run_softmax, above_autograd))


def publish_softmax(weights: Tensor) -> Tensor:
    """Report the weights of a softmax, or keep them for the attention that it is part of; returns them."""
    attention, call = CAPTURE.attention, CAPTURE.module_call
    if isinstance(attention, EagerCall):
        attention.weights.append(weights)
    elif attention is None and call is not None and not is_multihead(call.module):  # which is reported when it ends
        if looks_like_attention(call.module):
            CAPTURE.publish(lambda: from_softmax(weights, call.module))
        else:
            CAPTURE.other_softmaxes[call.module] = tuple(weights.shape)
    return weights


def capture_eager(function: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
    """Run Hugging Face's eager attention unchanged, and report it by the weights of its softmax."""
    if not CAPTURE.starts_attention(bound.arguments.get("query")):
        return function(*bound.args, **bound.kwargs)
    with CAPTURE.enter(EagerCall(bound.arguments["key"].shape[2])) as call:
        result = function(*bound.args, **bound.kwargs)
    output = result[0] if isinstance(result, tuple) else result
    if isinstance(output, Tensor) and output.dim() == 4:
        output = CAPTURE.track(output, lambda gradient: gradient.transpose(1, 2))
        result = (output, *result[1:]) if isinstance(result, tuple) else output
    CAPTURE.publish(lambda: from_eager_call(bound.arguments, call.weights, output, call.cut))
    return result


def capture_attend(problem: Problem, solve: dispatch.Solve) -> tuple[Tensor, Tensor]:
    """`transom.attend`, with its mask and bias as they are."""
    if not CAPTURE.starts_attention(problem.Q):
        return solve(problem)
    with CAPTURE.enter(KernelCall()):
        output, lse = solve(problem)
    captured, _ = cut_captured(CapturedAttention(problem, output, lse))
    output = CAPTURE.track(output if captured.output is None else captured.output, lambda gradient: gradient)
    CAPTURE.publish(lambda: captured)
    return output, lse


def on_module_enter(module: nn.Module, args: tuple[Any, ...]) -> None:
    # A softmax may be a module itself; it belongs to the one that calls it.
    if CAPTURE.listeners and not torch.compiler.is_compiling() and not isinstance(module, nn.Softmax):
        CAPTURE.module_calls.append(ModuleCall(module, CAPTURE.count))


def on_module_exit(module: nn.Module, args: tuple[Any, ...], *kwargs_and_result: Any) -> Any:
    """The end of a module's forward; after an exception PyTorch leaves out the keyword arguments.

    Returns a result to use instead, or None.
    """
    if not CAPTURE.listeners or torch.compiler.is_compiling():
        return None
    call, tracked = CAPTURE.end_inner_modules(module), None
    if call is None:
        return None
    if len(kwargs_and_result) == 2 and is_multihead(module) and call.count_before == CAPTURE.count:
        kwargs, result = kwargs_and_result
        output = CAPTURE.track(result[0], lambda gradient: mha_gradient_to_heads(module, gradient))
        tracked = None if output is result[0] else (output, *result[1:])
        CAPTURE.publish(lambda: from_mha_call(module, args, kwargs, result, cut=call.cut))
    CAPTURE.module_calls.remove(call)
    return tracked


def is_multihead(module: nn.Module) -> TypeGuard[nn.MultiheadAttention]:
    """Whether it is PyTorch's own layer; one with another `forward` may take and return anything."""
    return isinstance(module, nn.MultiheadAttention) and type(module).forward is nn.MultiheadAttention.forward


# The operators that are captured, for which dispatch key, and by what.
OPERATORS: list[tuple[str, str, Callable[..., Any]]] = [
    ("scaled_dot_product_attention", "CompositeImplicitAutograd", capture_sdpa),
    ("_scaled_dot_product_flash_attention_for_cpu", "CPU", capture_flash),
    ("_native_multi_head_attention", "CPU", capture_native_mha),
    ("_native_multi_head_attention", "NestedTensorCPU", capture_native_mha),
    ("_softmax", "CPU", capture_softmax),
    ("_softmax", "AutogradCPU", partial(capture_softmax, above_autograd=True)),
]


class DispatchHooks:
    """The wrapped kernels and hooks, installed while anybody listens."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.undo = ExitStack()  # what `install` did, to be undone
        # Another thread may be about to enter a wrapped kernel when the hooks are removed, so kernels stay alive.
        self.alive: list[Any] = []

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
        library = torch.library.Library("aten", "IMPL")
        self.undo.callback(library._destroy)
        for operator, key, capture in OPERATORS:
            self.wrap(library, operator, key, capture)
        for hook in (
            register_module_forward_pre_hook(on_module_enter),
            register_module_forward_hook(on_module_exit, with_kwargs=True, always_call=True),
        ):
            # PyTorch's `remove` leaves this entry behind, and PyTorch would go on believing that there are hooks.
            self.undo.callback(modules._global_forward_hooks_with_kwargs.pop, hook.id, None)
            self.undo.callback(hook.remove)
        warnings.filterwarnings("ignore", message=TWICE, category=UserWarning)
        self.undo.callback(remove_warning_filter, warnings.filters[0])
        self.undo.callback(setattr, dispatch, "listener", None)
        dispatch.listener = capture_attend

    def wrap(self, library: torch.library.Library, operator: str, key: str, capture: Callable[..., Any]) -> None:
        """Let `capture` run the kernel of an operator for a dispatch key; an alias key has the kernel of CPU."""
        runs_for = "CPU" if key == "CompositeImplicitAutograd" else key
        kernel = torch.library.get_kernel(f"aten::{operator}", runs_for)

        def wrapped(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            return capture(partial(kernel.call_boxed, keyset), *args, **kwargs)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a kernel is replaced; `undo` puts it back
            library.impl(operator, wrapped, key, with_keyset=True, allow_override=True)
        self.alive.append(torch.library.get_kernel(f"aten::{operator}", runs_for))


def remove_warning_filter(entry: Any) -> None:
    if entry in warnings.filters:
        warnings.filters.remove(entry)  # pyright: ignore[reportAttributeAccessIssue]


INSTALLED = DispatchHooks()


@contextmanager
def listen(listener: AttentionListener) -> Iterator[None]:
    """While the block runs, report each attention of this thread to a listener, and cut the edges that it names."""
    INSTALLED.add()
    CAPTURE.listeners.append(listener)
    try:
        yield
    finally:
        CAPTURE.listeners.remove(listener)
        if not CAPTURE.listeners:
            CAPTURE.clear_modules()
        INSTALLED.remove()
