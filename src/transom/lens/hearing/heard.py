"""The arguments of PyTorch's attention operators, put in order as one of our problems."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from transom.equations.biases import Bias, GivenBias
from transom.equations.heads import fold
from transom.equations.masks import Causal, Given, Mask, Padding
from transom.kernels.fused import with_empty_rows
from transom.kernels.problem import Problem
from transom.lens.kept import Joined

UNCHECKED = "the model's own dropout of {:g} fell on the weights after those that are shown"


@dataclass(frozen=True, eq=False)
class Heard:
    """One attention as it went by: nothing is copied yet."""

    problem: Problem
    output: Tensor | None = None
    lse: Tensor | None = None
    joined: Joined | None = None
    unproved: str = ""
    zeroed: Mask | None = None  # False where a weight was set to 0 after the softmax


def problem_of(
    Q: Tensor, K: Tensor, V: Tensor, mask: Mask | None = None, bias: Bias | None = None, scale: float | None = None
) -> Problem:
    scale = 1.0 / math.sqrt(max(1, Q.shape[3])) if scale is None else float(scale)
    return Problem(Q=Q, K=K, V=V, mask=mask, bias=bias, scale=scale, softcap=None, dropout=0.0, seed=0)


def of_sdpa(
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
) -> Heard:
    """`F.scaled_dot_product_attention`: causal counts queries from the first key, bool masks are True to look."""
    Q, K, V = four_axes(query, key, value, enable_gqa)
    mask: Mask | None = Causal(start=0) if is_causal else None
    bias = None
    if attn_mask is not None:
        leading = output.shape[:-3]
        seen = mask_axes(attn_mask, tuple(leading))
        if attn_mask.dtype == torch.bool:
            mask = Given(seen) if mask is None else mask & Given(seen)
        else:
            bias = GivenBias(seen)
    problem = problem_of(Q, K, V, mask, bias, scale)
    output = output.reshape((*problem.whole[:3], V.shape[3]))
    lse = with_empty_rows(problem, lse) if lse is not None and lse.shape == problem.whole[:3] else None
    return Heard(problem, output, lse, unproved=UNCHECKED.format(dropout_p) if dropout_p else "")


def of_flash(
    output: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Heard:
    """The fused kernel called on its own, as compiled code does."""
    return of_sdpa(output, lse, query, key, value, attn_mask, dropout_p, is_causal, scale=scale)


def four_axes(Q: Tensor, K: Tensor, V: Tensor, grouped: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K and V as (batch, heads, token, width): the axis before the tokens is the heads, any before it the batch."""
    if Q.dim() == K.dim() == V.dim() == 4 and Q.shape[:2] == K.shape[:2] == V.shape[:2]:
        return Q, K, V
    Q, K, V = (x.reshape((1,) * (4 - x.dim()) + x.shape) if x.dim() < 4 else x for x in (Q, K, V))
    leading = torch.broadcast_shapes(Q.shape[:-3], K.shape[:-3], V.shape[:-3])
    heads = max(x.shape[-3] for x in (Q, K, V))
    shared = K.shape[-3] == V.shape[-3] and Q.shape[-3] == heads and (grouped or K.shape[-3] == 1)
    if not shared:
        Q, K, V = (repeated(x, heads) for x in (Q, K, V))
    batch = math.prod(leading)
    return tuple(x.expand((*leading, *x.shape[-3:])).reshape((batch, *x.shape[-3:])) for x in (Q, K, V))  # pyright: ignore[reportReturnType]


def repeated(x: Tensor, heads: int) -> Tensor:
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], dim=-3)


def mask_axes(mask: Tensor, leading: tuple[int, ...]) -> Tensor:
    """A mask with four axes, each whole or of size 1."""
    mask = unexpanded(mask)
    if mask.dim() <= 4 and len(leading) <= 1:
        return mask.reshape((1,) * (4 - mask.dim()) + mask.shape)
    mask = mask.reshape((1,) * (len(leading) + 3 - mask.dim()) + mask.shape)
    return mask.expand((*leading, *mask.shape[-3:])).reshape((math.prod(leading), *mask.shape[-3:]))


def unexpanded(x: Tensor) -> Tensor:
    """x with size 1 along the axes it was only expanded to."""
    for axis, stride in enumerate(x.stride()):
        if stride == 0 and x.shape[axis] > 1:
            x = x.narrow(axis, 0, 1)
    return x


def of_native(
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
) -> Heard:
    """The fast path of `nn.MultiheadAttention`: projections, attention and W_O in one step, padded or nested."""
    real = None
    used: Tensor = outputs[0]
    if query.is_nested:
        lengths = torch.tensor([len(row) for row in query.unbind()])
        real = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        query, key, value, used = (torch.nested.to_padded_tensor(x, 0.0) for x in (query, key, value, used))
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    Q, K, V = (fold(F.linear(x, W, b), num_head) for x, W, b in parts)
    seen = Padding(real) if real is not None else native_mask(mask, mask_type)
    return Heard(problem_of(Q, K, V, seen), joined=Joined(proj_weight, proj_bias, used, real))


def native_mask(mask: Tensor | None, kind: int | None) -> Mask | None:
    """Its masks are True (or not 0) where one may *not* look; kind 0 is (queries, keys), 1 (batch, keys), 2 whole."""
    if mask is None:
        return None
    seen = ~unexpanded(mask).bool()
    return (
        Padding(seen.reshape(-1, seen.shape[-1]))
        if kind == 1
        else Given(seen.reshape((1,) * (4 - seen.dim()) + seen.shape))
    )
