"""`nn.MultiheadAttention` where it computes its weights by hand, because they are wanted: the attention inside it."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transom.equations.biases import GivenBias
from transom.equations.heads import fold
from transom.equations.masks import Given, Mask, Padding
from transom.lens.hearing.heard import UNCHECKED, Heard, problem_of
from transom.lens.kept import Joined

SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)


def of_multihead(module: nn.MultiheadAttention, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> Heard:
    """Its projections computed once more, beside it; the receipt compares what comes out of W_O."""
    came = SIGNATURE.bind(module, *given, **named)
    came.apply_defaults()
    x = came.arguments
    query, key, value = (batch_first(x[name], module) for name in ("query", "key", "value"))
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    parts = zip((query, key, value), in_parameters(module), biases, strict=True)
    Q, K, V = (F.linear(tokens, W, b) for tokens, W, b in parts)
    K, V, extra = extended(module, K, V)
    Q, K, V = (fold(tokens, module.num_heads) for tokens in (Q, K, V))
    mask, bias = masks(x["attn_mask"], x["key_padding_mask"], extra, Q.shape[:2])
    joined = Joined(module.out_proj.weight, module.out_proj.bias, batch_first(result[0], module))
    dropped = module.dropout if module.training else 0.0
    unproved = UNCHECKED.format(dropped) if dropped else ""
    return Heard(problem_of(Q, K, V, mask, bias), joined=joined, unproved=unproved)


def batch_first(x: Tensor, module: nn.MultiheadAttention) -> Tensor:
    if x.dim() == 2:
        return x[None]
    return x if module.batch_first else x.transpose(0, 1)


def in_parameters(module: nn.MultiheadAttention) -> tuple[Tensor, ...]:
    if module.in_proj_weight is not None:
        return module.in_proj_weight.chunk(3)
    return (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)  # pyright: ignore[reportReturnType]


def extended(module: nn.MultiheadAttention, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor, int]:
    """Keys and values with the learned one and the one of zeros that the module may add at the end; how many."""
    extra = 0
    if module.bias_k is not None and module.bias_v is not None:
        K, V = (torch.cat([x, b.expand(len(x), 1, -1)], dim=1) for x, b in ((K, module.bias_k), (V, module.bias_v)))
        extra += 1
    if module.add_zero_attn:
        K, V = (F.pad(x, (0, 0, 0, 1)) for x in (K, V))
        extra += 1
    return K, V, extra


def masks(
    attn_mask: Tensor | None, padding: Tensor | None, extra: int, sizes: torch.Size
) -> tuple[Mask | None, GivenBias | None]:
    """Both of its masks: bool ones are True where one may *not* look, float ones are added to the scores."""
    mask: Mask | None = None
    bias: Tensor | None = None
    batch, heads = sizes
    for given, is_padding in ((attn_mask, False), (padding, True)):
        if given is None:
            continue
        if is_padding:
            seen = (given if given.dim() == 2 else given[None])[:, None, None]
        else:
            seen = given[None, None] if given.dim() == 2 else given.reshape(batch, heads, *given.shape[1:])
        if given.dtype == torch.bool:
            seen = F.pad(~seen, (0, extra), value=True)
            one: Mask = Padding(seen[:, 0, 0]) if is_padding else Given(seen)
            mask = one if mask is None else mask & one
        else:
            seen = F.pad(seen, (0, extra))
            bias = seen if bias is None else bias + seen
    return mask, None if bias is None else GivenBias(bias)
