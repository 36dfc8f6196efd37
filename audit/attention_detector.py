"""Finds the attention in a run without Transom: it follows products of activations into further products.

A product of two activations (not of an activation and parameters) gives scores. What comes out of a softmax, an
exponential, a sigmoid or a rectifier of scores is weights, and a product of weights and another activation is
attention. Products of products without any such function in between are linear attention. The marks are kept by
storage, so that views and operations in place keep them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SOFTMAX, LINEAR, POOLED = "softmax", "linear", "pooled"  # kinds of attention that are found
PRODUCTS = {"mm", "bmm", "baddbmm", "addmm", "mv", "addbmm"}
NORMALISED = {"_softmax", "_log_softmax", "_safe_softmax", "_masked_softmax", "_sparse_softmax", "_sparse_log_softmax"}
ACTIVATED = {"exp", "exp_", "exp2", "sigmoid", "sigmoid_", "relu", "relu_", "square", "pow", "softplus", "threshold"}
# What comes out of these is no longer scores or weights, whatever goes in.
ENDED = {
    "native_layer_norm",
    "native_group_norm",
    "native_batch_norm",
    "convolution",
    "embedding",
    "cos",
    "sin",
    "_fused_rms_norm",
}
VIEWS = {"view", "_unsafe_view", "transpose", "permute", "expand", "unsqueeze", "squeeze", "clone", "_to_copy", "alias"}
MOST_HEADS = 16
FUSED = {"_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention"}
WHOLE = {"_native_multi_head_attention", "_transformer_encoder_layer_fwd"}
SCORES, WEIGHTS, WEAK_WEIGHTS = "scores", "weights", "weak weights"  # weak: a softmax, but not of a product
WEIGHTED = {WEIGHTS: "weighted values", WEAK_WEIGHTS: "weakly weighted values"}  # weights times values, not yet summed
STRENGTH = {None: 0, WEAK_WEIGHTS: 1, SCORES: 2, WEIGHTED[WEAK_WEIGHTS]: 3, WEIGHTED[WEIGHTS]: 4, WEIGHTS: 5}


@dataclass(frozen=True)
class Mark:
    """What a tensor is to the detector, and the function that it came from."""

    kind: str
    function: str
    weights: Tensor | None = None


@dataclass
class Detected:
    """One attention that ran: its modules (outermost first), its kind, and its weights if they were at hand."""

    modules: list[nn.Module]
    kind: str
    function: str
    weights: Tensor | None  # (…, queries, keys)


def storage_key(x: Tensor) -> int:
    return x.untyped_storage().data_ptr() if x.layout == torch.strided and not x.is_nested else id(x)


class AttentionDetector(TorchDispatchMode):
    """While it is active, `found` lists the attentions of all modules, in order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.found: list[Detected] = []
        self.stack: list[nn.Module] = []
        self.fixed = {storage_key(x) for x in (*model.parameters(), *model.buffers())}
        self.marks: dict[int, Mark] = {}  # by storage
        self.alive: list[Tensor] = []  # marked tensors, so that no other tensor gets their storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        inputs = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
        if name in FUSED:
            self.report(SOFTMAX, name, fused_weights(*args, **(kwargs or {})))
        elif name in WHOLE:
            self.report(SOFTMAX, name, None)
        mark = self.multiply(name, inputs) if name in PRODUCTS else self.pass_on(name, inputs)
        result = func(*args, **(kwargs or {}))
        outputs = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        if mark is not None and name not in FUSED | WHOLE:
            self.set_mark(mark, outputs)
        elif name.endswith("_") and name.rstrip("_") in {"zero", "fill", "normal", "uniform"}:
            self.marks.pop(storage_key(inputs[0]), None)
        return result

    def report(self, kind: str, function: str, weights: Tensor | None) -> None:
        self.found.append(Detected(list(self.stack), kind, function, weights))

    def mark_of(self, x: Tensor) -> Mark | None:
        return self.marks.get(storage_key(x))

    def set_mark(self, mark: Mark, outputs: list[Tensor]) -> None:
        for x in outputs:
            if x.is_floating_point() and storage_key(x) and storage_key(x) not in self.fixed:
                self.marks[storage_key(x)] = mark
                self.alive.append(x)

    def multiply(self, name: str, inputs: list[Tensor]) -> Mark | None:
        """The mark of a product; reports attention if one of the factors is weights, or itself a product."""
        left, right = inputs[-2:]
        if not left.is_floating_point() or {storage_key(left), storage_key(right)} & self.fixed:
            return self.mix_heads(left, right)
        marks = {side: self.mark_of(x) for side, x in (("left", left), ("right", right))}
        for side, kind in ((s, k) for k in (WEIGHTS, WEAK_WEIGHTS) for s in marks):
            mark = marks[side]
            if mark is not None and mark.kind == kind:
                weights = left if side == "left" else right.mT if right.dim() > 1 else right[None]
                self.report(SOFTMAX if kind == WEIGHTS else POOLED, mark.function, weights.detach().clone())
                return None
        if any(mark is not None and mark.kind == SCORES for mark in marks.values()):
            self.report(LINEAR, name, None)
            return None
        return Mark(SCORES, name)

    def mix_heads(self, left: Tensor, right: Tensor) -> Mark | None:
        """The mark of scores or weights times a small square of parameters: heads that are mixed stay what they are."""
        mark = self.mark_of(left)
        square = right.shape[-1] == right.shape[-2] <= MOST_HEADS
        return mark if square and mark is not None and mark.kind in (SCORES, WEIGHTS) else None

    def pass_on(self, name: str, inputs: list[Tensor]) -> Mark | None:
        """The mark of another operation's result: the strongest of its inputs', changed by a softmax and its like."""
        if name in ENDED or not inputs:
            return None
        marks = [self.mark_of(x) for x in inputs]
        mark = max(marks, key=lambda mark: STRENGTH[mark and mark.kind])
        if name in NORMALISED | ACTIVATED and mark is not None and mark.kind == SCORES:
            return Mark(WEIGHTS, name)
        if mark is None:
            return Mark(WEAK_WEIGHTS, name) if name in NORMALISED else None
        if mark.kind in WEIGHTED.values() and name in {"sum", "mean"}:
            self.report(SOFTMAX if mark.kind == WEIGHTED[WEIGHTS] else POOLED, mark.function, mark.weights)
            return None
        if mark.kind in WEIGHTED and name == "mul":
            return self.weigh(mark, inputs, marks)
        return None if mark.kind in WEIGHTED.values() and name not in VIEWS else mark

    def weigh(self, mark: Mark, inputs: list[Tensor], marks: list[Mark | None]) -> Mark:
        """The mark of weights times values, where there are more numbers than weights: the sum over keys follows."""
        if len(inputs) != 2 or None not in marks:
            return mark
        weights, values = inputs if marks[1] is None else inputs[::-1]
        size = torch.broadcast_shapes(weights.shape, values.shape).numel()
        if size == weights.numel() or storage_key(values) in self.fixed or not values.is_floating_point():
            return mark
        return Mark(WEIGHTED[mark.kind], mark.function, drop_last_axis(weights.detach().clone()))


def drop_last_axis(weights: Tensor) -> Tensor:
    """Weights without an axis of size 1 that was added to multiply them with values."""
    return weights[..., 0] if weights.dim() > 3 and weights.shape[-1] == 1 else weights


def fused_weights(Q: Tensor, K: Tensor, V: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The weights of a fused attention, from its arguments, in float64."""
    mask, scale = kwargs.get("attn_mask"), kwargs.get("scale")
    causal = bool(args[1]) if len(args) > 1 else bool(kwargs.get("is_causal"))
    K = K.repeat_interleave(Q.shape[-3] // K.shape[-3], -3)
    scores = Q.double() @ K.double().mT * (Q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf"))
    return torch.nan_to_num(scores.softmax(-1)).to(Q.dtype)


@contextmanager
def detect(model: nn.Module) -> Iterator[AttentionDetector]:
    """Detect attention in what runs inside the block."""
    detector = AttentionDetector(model)

    def enter(module: nn.Module, inputs: Any) -> None:
        detector.stack.append(module)

    def leave(module: nn.Module, inputs: Any, output: Any) -> None:
        while detector.stack and detector.stack.pop() is not module:
            pass

    hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        with detector:
            yield detector
    finally:
        for hook in hooks:
            hook.remove()
