"""Where every attention passes by: PyTorch's dispatcher, `transom.attend`, and the calls of modules.

A kernel of the dispatcher is wrapped by one that calls it and tells whoever watches what it was given and gave. The
model runs its own kernels in its own order, so its numbers keep their bits, however it came by its attention function.
All of it is put in place when the first watcher comes, and taken away when the last one leaves, of any thread; each
thread hears only itself.
"""

import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from transom.kernels import door
from transom.kernels.problem import Problem
from transom.lens.asking.cut import Cut, described
from transom.lens.asking.cutting import cut_native, cut_sdpa, recut, softmax_cut
from transom.lens.hearing import heard
from transom.lens.hearing.by_hand import of_multihead
from transom.lens.hearing.eager import looks_like_attention, of_interface, of_softmax, wrapped_interface
from transom.lens.hearing.ear import EAR, Cutter, Outline, Watcher, real
from transom.lens.hearing.heard import Heard

SDPA = "scaled_dot_product_attention"
FLASH = "_scaled_dot_product_flash_attention_for_cpu"
NATIVE = "_native_multi_head_attention"
SOFTMAX = "_softmax"
TWICE = "Using `torch.compile"  # … that hooks fire for the compiled module too, which is what ours want


def overheard_sdpa(kernel: Any) -> Callable[..., Any]:
    """A kernel that also tells what it did; what runs within it is not told again."""

    def wrapped(keys: Any, *given: Any, **named: Any) -> Any:
        run = lambda: kernel.call_boxed(keys, *given, **named)  # noqa: E731
        if not EAR.watchers or EAR.inside is not None or not real(given[0]):
            return run()
        state = torch.get_rng_state() if EAR.cutters else None
        with EAR.within() as sums:
            output = run()
        told = lambda: sdpa_told(output, sums, *given, **named)  # noqa: E731
        if state is None:
            EAR.tell(told)
            return output
        return cut_sdpa(output, told(), run, state)

    return wrapped


def overheard_native(kernel: Any) -> Callable[..., Any]:
    """The fast path of `nn.MultiheadAttention`, of tensors or nested ones."""

    def wrapped(keys: Any, *given: Any, **named: Any) -> Any:
        if not EAR.watchers or EAR.inside is not None or not real(given[0]):
            return kernel.call_boxed(keys, *given, **named)
        with EAR.within():
            output = kernel.call_boxed(keys, *given, **named)
        if not EAR.cutters:
            EAR.tell(lambda: heard.of_native(output, *given, **named))
            return output
        return cut_native(output, lambda: heard.of_native(output, *given, **named))

    return wrapped


def overheard_flash(kernel: Any) -> Callable[..., Any]:
    """The fused kernel: within an attention it gives that its log-sum-exp, on its own it is one."""

    def wrapped(keys: Any, *given: Any, **named: Any) -> Any:
        output, lse = kernel.call_boxed(keys, *given, **named)
        if EAR.watchers and real(given[0]):
            if EAR.inside is not None:
                EAR.inside.append(lse)
            else:
                if EAR.cutters:
                    EAR.cut(Outline.of(heard.of_flash(output, lse, *given, **named).problem, compiled=True))
                EAR.tell(lambda: heard.of_flash(output, lse, *given, **named))
        return output, lse

    return wrapped


def is_row_softmax(x: Tensor, dim: int) -> bool:
    return real(x) and x.dim() in (3, 4) and dim in (-1, x.dim() - 1)


def overheard_softmax(kernel: Any) -> Callable[..., Any]:
    """A softmax over the last axis: the weights of an attention computed by hand, or of something else."""

    def wrapped(keys: Any, x: Tensor, dim: int, widened: bool) -> Any:
        if EAR.deaf or not EAR.watchers or not is_row_softmax(x, dim):
            return kernel.call_boxed(keys, x, dim, widened)
        return tell_softmax(softmax_cut(x, lambda kept: kernel.call_boxed(keys, kept, dim, widened), False))

    return wrapped


def overheard_softmax_with_gradients(kernel: Any) -> Callable[..., Any]:
    """The same above autograd, where edges are cut out of it so that gradients follow."""

    def wrapped(keys: Any, x: Tensor, dim: int, widened: bool) -> Any:
        wants = EAR.cutters and x.requires_grad and torch.is_grad_enabled()
        if not wants or EAR.deaf or not is_row_softmax(x, dim):
            return kernel.call_boxed(keys, x, dim, widened)

        def run(kept: Tensor) -> Tensor:
            EAR.deaf = True
            try:
                return kernel.call_boxed(keys, kept, dim, widened)
            finally:
                EAR.deaf = False

        return tell_softmax(softmax_cut(x, run, True))

    return wrapped


def tell_softmax(weights: Tensor) -> Tensor:
    if EAR.weights is not None:
        EAR.weights.append(weights)
    elif EAR.inside is None and EAR.modules:
        if by_hand_in(EAR.modules[-1]):
            EAR.tell(lambda: of_softmax(weights, EAR.modules[-1]))
        elif not is_multihead(EAR.modules[-1]):
            EAR.passed[EAR.modules[-1]] = tuple(weights.shape)
    return weights


def eager_told(function: Callable[..., Any], given: inspect.BoundArguments) -> Any:
    """Hugging Face's eager attention: run as it is, and told as what its weights show it to be."""
    call = lambda: function(*given.args, **given.kwargs)  # noqa: E731
    if not EAR.watchers or EAR.inside is not None or not real(given.arguments.get("query")):
        return call()
    EAR.weights = weights = []
    EAR.keys, EAR.was_cut = given.arguments["key"].shape[2], None
    try:
        with EAR.within():
            result = call()
    finally:
        EAR.weights = EAR.keys = None
    cut = EAR.was_cut
    EAR.tell(lambda: of_interface(given, weights, result[0] if isinstance(result, tuple) else result, cut))
    return result


def sdpa_told(output: Tensor, sums: list[Tensor], *given: Any, **named: Any) -> Heard:
    return heard.of_sdpa(output, sums[0] if len(sums) == 1 else None, *given, **named)


def at_the_door(problem: Problem, solve: door.Solve) -> tuple[Tensor, Tensor]:
    """`transom.attend`, told with its mask and bias as they are."""
    if not EAR.watchers or EAR.inside is not None or not real(problem.Q):
        return solve(problem)
    with EAR.within():
        output, lse = solve(problem)
    one = Heard(problem, output, lse)
    new = recut(one)[0] if EAR.cutters else one
    EAR.tell(lambda: new)
    return (output if new.output is None else new.output), lse


def entered(module: nn.Module, given: tuple[Any, ...]) -> None:
    # A softmax may be a module of its own; it belongs to the one that calls it.
    if EAR.watchers and not torch.compiler.is_compiling() and not isinstance(module, nn.Softmax):
        EAR.modules.append(module)
        EAR.told.append(EAR.count)


def left(module: nn.Module, given: tuple[Any, ...], *rest: Any) -> None:
    """The end of a module's forward, also by an exception; then its named arguments are not among the rest."""
    if not EAR.watchers or torch.compiler.is_compiling() or module not in EAR.modules:
        return
    while EAR.modules[-1] is not module:
        EAR.pop()
    if len(rest) == 2 and is_multihead(module) and EAR.told[-1] == EAR.count:
        cut, EAR.was_cut = EAR.was_cut, None
        EAR.tell(lambda: multihead_told(module, given, rest, cut))
    EAR.pop()


def multihead_told(module: nn.MultiheadAttention, given: tuple[Any, ...], rest: Any, cut: Cut | None) -> Heard:
    one = of_multihead(module, given, *rest)
    return one if cut is None else described(one, cut)


def is_multihead(module: nn.Module) -> TypeGuard[nn.MultiheadAttention]:
    """Whether it is PyTorch's own layer; one with another `forward` takes and gives who knows what."""
    return isinstance(module, nn.MultiheadAttention) and type(module).forward is nn.MultiheadAttention.forward


def by_hand_in(module: nn.Module) -> bool:
    """Whether a softmax in this module is an attention computed by hand; PyTorch's own layer is told when it ends."""
    return looks_like_attention(module) and not is_multihead(module)


class Installed:
    """The wrapped kernels and hooks, in place while anybody watches."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.library: torch.library.Library | None = None
        self.hooks: list[Any] = []
        self.undo: Callable[[], None] = lambda: None
        # A thread may be about to enter a wrapped kernel while another takes it away: it must not vanish under it.
        self.alive: list[Any] = []
        self.silence: Any = None

    def add(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.put_up()

    def remove(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.take_down()

    def put_up(self) -> None:
        self.library = torch.library.Library("aten", "IMPL")
        self.wrap(SDPA, "CompositeImplicitAutograd", overheard_sdpa)
        self.wrap(FLASH, "CPU", overheard_flash)
        self.wrap(NATIVE, "CPU", overheard_native)
        self.wrap(NATIVE, "NestedTensorCPU", overheard_native)
        self.wrap(SOFTMAX, "CPU", overheard_softmax)
        self.wrap(SOFTMAX, "AutogradCPU", overheard_softmax_with_gradients)
        self.undo = wrapped_interface(eager_told)
        self.hooks = [
            register_module_forward_pre_hook(entered),
            register_module_forward_hook(left, with_kwargs=True, always_call=True),
        ]
        warnings.filterwarnings("ignore", message=TWICE, category=UserWarning)
        self.silence = warnings.filters[0]
        door.listener = at_the_door

    def wrap(self, operator: str, key: str, wrapper: Callable[[Any], Callable[..., Any]]) -> None:
        """Put a wrapper around the kernel of an operator; an alias of keys has the kernel of any one of them."""
        assert self.library is not None
        runs_for = "CPU" if key == "CompositeImplicitAutograd" else key
        kernel = torch.library.get_kernel(f"aten::{operator}", runs_for)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch says once that a kernel is replaced; it is put back
            self.library.impl(operator, wrapper(kernel), key, with_keyset=True, allow_override=True)
        self.alive.append(torch.library.get_kernel(f"aten::{operator}", runs_for))

    def take_down(self) -> None:
        door.listener = None
        if self.silence in warnings.filters:
            warnings.filters.remove(self.silence)  # pyright: ignore[reportAttributeAccessIssue]
        for hook in self.hooks:
            hook.remove()
            # PyTorch forgets this one entry, and would go on believing that there are hooks.
            modules._global_forward_hooks_with_kwargs.pop(hook.id, None)
        assert self.library is not None
        self.library._destroy()
        self.library = None
        self.undo()


INSTALLED = Installed()


@contextmanager
def listening(watcher: Watcher, cutter: Cutter | None = None) -> Iterator[None]:
    """While the block runs, `watcher` hears each attention of this thread, and `cutter` says what to cut out of it."""
    INSTALLED.add()
    EAR.watchers.append(watcher)
    if cutter is not None:
        EAR.cutters.append(cutter)
    try:
        yield
    finally:
        EAR.watchers.remove(watcher)
        if cutter is not None:
            EAR.cutters.remove(cutter)
        if not EAR.watchers:
            EAR.modules.clear()
            EAR.told.clear()
            EAR.passed.clear()
        INSTALLED.remove()
