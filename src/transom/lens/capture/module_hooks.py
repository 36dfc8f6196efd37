"""Intercepts the calls of modules: which of them run, and when each of them ends.

`nn.Module._call_impl` is wrapped: with a hook for all modules PyTorch would call each of them by its slow way.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._C._dynamo.eval_frame import (  # pyright: ignore[reportMissingModuleSource]
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
)

from transom.lens.capture.call_state import CAPTURE, ModuleCall
from transom.lens.capture.eager_attention import is_multihead
from transom.lens.capture.hand_reports import EndedCall, note_consumer, report_ended
from transom.lens.capture.torch_attention import from_mha_call, mha_gradient_to_heads

Run = Callable[..., Any]
# Layers that are known to compute no attention, and call no module.
PLAIN = {
    *(nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.Identity),
    *(nn.Dropout, nn.Conv1d, nn.Conv2d, nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid),
}


def wrap_module_calls() -> Callable[[], None]:
    """Note each call of a module while somebody listens; returns a function that undoes it."""
    run = nn.Module._call_impl

    def call_noted(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return run(module, *args, **kwargs)
        state = CAPTURE.__dict__  # of this thread; each look-up of a thread's attribute would cost as much again
        if not state["listeners"] or isinstance(module, nn.Softmax):
            return run(module, *args, **kwargs)  # a softmax may be a module itself; it belongs to the one that calls it
        hand, calls = state["hand"], state["module_calls"]
        if calls and holds_no_attention(module, args, state):
            return run(module, *args, **kwargs)
        if hand.sums and args:
            note_consumer(module, args[0])
        call = ModuleCall(module, state["count"])
        calls.append(call)
        state["runs"] = number = state["runs"] + 1
        state["ran"][module] = number
        result = None
        try:
            result = run_multihead(run, call, args, kwargs) if is_multihead(module) else run(module, *args, **kwargs)
        finally:  # after an exception too
            if calls and (hand.sums or hand.waiting or hand.product_sizes or hand.refused or hand.segment_sums):
                report_ended(EndedCall(module, args, kwargs, result))
            if calls and calls[-1] is call:
                calls.pop()
        return result

    def put_back() -> None:
        # Whoever replaced it in between keeps what it put there; ours then does nothing, as nobody listens.
        if nn.Module._call_impl is call_noted:
            nn.Module._call_impl = run

    # `torch.compile` is to compile what this calls, not this itself.
    set_code_exec_strategy(call_noted.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.DEFAULT))
    nn.Module._call_impl = call_noted  # pyright: ignore[reportAttributeAccessIssue]
    return put_back


def holds_no_attention(module: nn.Module, args: tuple[Any, ...], state: dict[str, Any]) -> bool:
    """Whether no attention can have this module's name; that a known layer runs is noted at once."""
    if "_orig_mod" in state["module_calls"][-1].module._modules:
        return True  # in compiled code nothing but the whole has a name
    if type(module) not in PLAIN or "forward" in module.__dict__:
        return False
    if module._forward_hooks or module._forward_pre_hooks:  # in which anything may run
        return False
    state["runs"] = state["ran"][module] = state["runs"] + 1
    if state["hand"].sums and args:
        note_consumer(module, args[0])
    return True


def run_multihead(run: Run, call: ModuleCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """PyTorch's own layer: if it used no kernel, it is read from its arguments and its result."""
    module, seen, thread = call.module, [(args, kwargs, None)], threading.get_ident()
    assert is_multihead(module)

    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if threading.get_ident() == thread:
            seen.append((args, kwargs, result))

    if module._forward_hooks or module._forward_pre_hooks:  # which may change its arguments and its result
        with module.register_forward_hook(keep, prepend=True, with_kwargs=True):
            result = run(module, *args, **kwargs)
    else:
        result = run(module, *args, **kwargs)
        seen.append((args, kwargs, result))
    if call.count_before != CAPTURE.count:
        return result
    used_args, used_kwargs, used_result = seen[-1]
    output = CAPTURE.track(result[0], lambda gradient: mha_gradient_to_heads(module, gradient))
    CAPTURE.publish(lambda: from_mha_call(module, used_args, used_kwargs, used_result, cut=call.cut))
    return result if output is result[0] else (output, *result[1:])
