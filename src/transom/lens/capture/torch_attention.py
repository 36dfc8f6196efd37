"""The arguments of PyTorch's attention functions as one of Transom's problems.

These are `F.scaled_dot_product_attention`, its fused kernel, and `nn.MultiheadAttention` on its fast path and off it.
"""

import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transom.equations.biases import TensorBias
from transom.equations.heads import split_heads
from transom.equations.masks import Causal, Mask, Padding, TensorMask
from transom.kernels import mark_empty_rows
from transom.lens.attention.record import JoinedOutput
from transom.lens.capture.captured_attention import (
    CapturedAttention,
    EdgeCut,
    Unreadable,
    combine_masks,
    dropout_note,
    make_problem,
)

FROM_FIRST_KEY = Causal(start=0)  # how PyTorch counts
MHA_SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)


def from_sdpa(
    output: Tensor,
    lse: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> CapturedAttention:
    """A call of the function; causal counts queries from the first key, and bool masks are True where allowed."""
    Q, K, V = align_heads(query, key, value, enable_gqa)
    masks: list[Mask] = [FROM_FIRST_KEY] if is_causal else []
    bias = None
    if attn_mask is not None:
        attn_mask = mask_to_four_axes(attn_mask, tuple(output.shape[:-3]))
        if attn_mask.dtype == torch.bool:
            masks.append(TensorMask(attn_mask))
        else:
            bias = TensorBias(attn_mask)
    problem = make_problem(Q, K, V, combine_masks(masks), bias, scale)
    shape = problem.shape[:3]
    output = output if output.dim() == 4 else output.reshape((*shape, V.shape[3]))
    lse = mark_empty_rows(problem, lse) if lse is not None and lse.shape == shape else None
    return CapturedAttention(problem, output, lse, unproved=dropout_note(dropout_p))


@dataclass(eq=False, slots=True)
class FunctionCall:
    """A call of the function as it ran: what it gave, and its arguments; its tensors are the model's own, or copies."""

    output: Tensor
    lse: Tensor | None
    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it has no mask, and its tensors are (batch, heads, token, width) of one batch."""
        query, key, value = self.query.shape, self.key.shape, self.value.shape
        return self.attn_mask is None and len(query) == len(key) == len(value) == 4 and query[0] == key[0] == value[0]

    def to_captured(self) -> CapturedAttention:
        tensors = (self.output, self.lse, self.query, self.key, self.value, self.attn_mask)
        return from_sdpa(*tensors, self.dropout_p, self.is_causal, scale=self.scale, enable_gqa=self.enable_gqa)

    def copy(self, copy: Callable[[Tensor], Tensor]) -> "FunctionCall":
        """The same with copies of its tensors, if it is plain."""
        lse = None if self.lse is None else copy(self.lse)
        tensors = (copy(self.output), lse, copy(self.query), copy(self.key), copy(self.value))
        return FunctionCall(*tensors, None, self.dropout_p, self.is_causal, self.scale, self.enable_gqa)


def from_nested_sdpa(
    output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> CapturedAttention | Unreadable:
    """A call of the function with nested tensors of (heads, token, width): padded, with the padding masked."""
    if attn_mask is not None or query.dim() != 4:
        return Unreadable("it runs on nested tensors with a mask, or with other axes than heads, token and width")
    (Q, rows), (K, columns), (V, _), (used, _) = (pad_nested(x) for x in (query, key, value, output))
    masks: list[Mask] = [TensorMask(rows[:, None, :, None] & columns[:, None, None])]
    if is_causal:
        masks.append(Causal(start=0))
    problem = make_problem(*align_heads(Q, K, V, enable_gqa), combine_masks(masks), scale=scale)
    return CapturedAttention(problem, used, unproved=dropout_note(dropout_p))


def pad_nested(x: Tensor) -> tuple[Tensor, Tensor]:
    """A nested tensor of (heads, token, width) padded to (batch, heads, token, width), and True where it is real."""
    parts = [part.detach() for part in x.unbind()]
    longest = max(part.shape[1] for part in parts)
    lengths = torch.tensor([part.shape[1] for part in parts])
    padded = torch.stack([F.pad(part, (0, 0, 0, longest - part.shape[1])) for part in parts])
    return padded, (torch.arange(longest)[None] < lengths[:, None]).to(padded.device)


def wrap_jagged_attention(capture: Callable[..., Tensor]) -> Callable[[], None]:
    """Let `capture` run the function on jagged nested tensors, which is Python; returns a function that undoes it."""
    library: Any = sys.modules.get("torch.nested._internal.ops")
    name = "jagged_scaled_dot_product_attention"
    original = getattr(library, name, None)
    if original is None:
        return lambda: None
    setattr(library, name, partial(capture, original))
    return lambda: setattr(library, name, original)


def align_heads(Q: Tensor, K: Tensor, V: Tensor, grouped: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K and V as (batch, heads, token, width): the axis before the tokens is the heads, any before it the batch."""
    if Q.dim() == K.dim() == V.dim() == 4 and Q.shape[:2] == K.shape[:2] == V.shape[:2]:
        return Q, K, V
    Q, K, V = (x.reshape((1,) * (4 - x.dim()) + x.shape) if x.dim() < 4 else x for x in (Q, K, V))
    leading = torch.broadcast_shapes(Q.shape[:-3], K.shape[:-3], V.shape[:-3])
    heads = max(x.shape[-3] for x in (Q, K, V))
    shared = K.shape[-3] == V.shape[-3] and Q.shape[-3] == heads and (grouped or K.shape[-3] == 1)
    if not shared:
        Q, K, V = (repeat_heads(x, heads) for x in (Q, K, V))
    batch = math.prod(leading)
    return tuple(x.expand((*leading, *x.shape[-3:])).reshape((batch, *x.shape[-3:])) for x in (Q, K, V))  # pyright: ignore[reportReturnType]


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], dim=-3)


def mask_to_four_axes(mask: Tensor, leading: tuple[int, ...]) -> Tensor:
    """A mask with four axes, each of full size or of size 1; `leading` are the axes before the heads."""
    mask = unexpand(mask)
    if mask.dim() <= 4 and len(leading) <= 1:
        return mask.reshape((1,) * (4 - mask.dim()) + mask.shape)
    mask = mask.reshape((1,) * (len(leading) + 3 - mask.dim()) + mask.shape)
    return mask.expand((*leading, *mask.shape[-3:])).reshape((math.prod(leading), *mask.shape[-3:]))


def unexpand(x: Tensor) -> Tensor:
    """x with size 1 along the axes that `expand` made."""
    for axis, stride in enumerate(x.stride()):
        if stride == 0 and x.shape[axis] > 1:
            x = x.narrow(axis, 0, 1)
    return x


def from_native_mha(
    outputs: tuple[Tensor, Tensor | None],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> CapturedAttention:
    """The fast path: projections, attention and W_O in one kernel, padded or nested."""
    real = None
    output = outputs[0]
    if query.is_nested:
        lengths = torch.tensor([len(row) for row in query.unbind()])
        real = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        query, key, value, output = (torch.nested.to_padded_tensor(x, 0.0) for x in (query, key, value, output))
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    Q, K, V = (split_heads(F.linear(x, W, b), num_head) for x, W, b in parts)
    visible = Padding(real) if real is not None else native_mask(mask, mask_type)
    return CapturedAttention(
        make_problem(Q, K, V, visible), joined_output=JoinedOutput(proj_weight, proj_bias, output, real)
    )


def native_mask(mask: Tensor | None, kind: int | None) -> Mask | None:
    """A mask of the fast path, which is True where a key is hidden; kind 0 is (queries, keys), 1 (batch, keys)."""
    if mask is None:
        return None
    visible = ~unexpand(mask).bool()
    if kind == 1:
        return Padding(visible.reshape(-1, visible.shape[-1]))
    return TensorMask(visible.reshape((1,) * (4 - visible.dim()) + visible.shape))


def from_mha_call(
    module: nn.MultiheadAttention, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, cut: EdgeCut | None
) -> CapturedAttention:
    """A call that uses no kernel, because it returns its weights: the projections are computed a second time."""
    arguments = bind_mha_args(module, args, kwargs)
    inputs = (batch_first(arguments[name], module) for name in ("query", "key", "value"))
    Q, K, V = (F.linear(x, W, b) for x, (W, b) in zip(inputs, in_projections(module), strict=True))
    keys = K.shape[1]
    K, V = append_extra_keys(module, K, V)
    extra = K.shape[1] - keys
    Q, K, V = (split_heads(x, module.num_heads) for x in (Q, K, V))
    mask, bias = read_mha_masks(arguments["attn_mask"], arguments["key_padding_mask"], extra, Q.shape[:2])
    joined = JoinedOutput(module.out_proj.weight, module.out_proj.bias, batch_first(result[0], module))
    unproved = dropout_note(module.dropout if module.training else 0.0)
    return CapturedAttention(make_problem(Q, K, V, mask, bias), joined_output=joined, unproved=unproved).with_cut(cut)


def mha_gradient_to_heads(module: nn.MultiheadAttention, gradient: Tensor) -> Tensor:
    """The gradient of a module's output as that of its heads, before W_O."""
    return split_heads(batch_first(gradient, module) @ module.out_proj.weight.to(gradient.dtype), module.num_heads)


def bind_mha_args(module: nn.MultiheadAttention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, defaults included."""
    bound = MHA_SIGNATURE.bind(module, *args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def batch_first(x: Tensor, module: nn.MultiheadAttention) -> Tensor:
    if x.dim() == 2:
        return x[None]
    return x if module.batch_first else x.transpose(0, 1)


def in_projections(module: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor | None]]:
    """W (d_out, d_in) and b of Q, K and V."""
    weights: Any = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    if module.in_proj_weight is not None:
        weights = module.in_proj_weight.chunk(3)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    return list(zip(weights, biases, strict=True))


def append_extra_keys(module: nn.MultiheadAttention, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
    """K and V with the learned key and the key of zeros that the module may append."""
    if module.bias_k is not None and module.bias_v is not None:
        K, V = (torch.cat([x, b.expand(len(x), 1, -1)], dim=1) for x, b in ((K, module.bias_k), (V, module.bias_v)))
    if module.add_zero_attn:
        K, V = (F.pad(x, (0, 0, 0, 1)) for x in (K, V))
    return K, V


def read_mha_masks(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, extra: int, sizes: torch.Size
) -> tuple[Mask | None, TensorBias | None]:
    """Both masks of a call: bool ones are True where a key is hidden, float ones are added to the scores."""
    masks: list[Mask] = []
    biases: list[Tensor] = []
    if attn_mask is not None:
        attn_mask = attn_mask[None, None] if attn_mask.dim() == 2 else attn_mask.reshape(sizes + attn_mask.shape[1:])
    if key_padding_mask is not None:
        key_padding_mask = (key_padding_mask if key_padding_mask.dim() == 2 else key_padding_mask[None])[:, None, None]
    for hidden in (attn_mask, key_padding_mask):
        if hidden is None:
            continue
        if hidden.dtype != torch.bool:
            biases.append(F.pad(hidden, (0, extra)))
            continue
        visible = F.pad(~hidden, (0, extra), value=True)
        masks.append(Padding(visible[:, 0, 0]) if hidden is key_padding_mask else TensorMask(visible))
    return combine_masks(masks), TensorBias(reduce(add, biases)) if biases else None
