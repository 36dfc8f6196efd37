"""What a module computes, without the machinery that calling it sets going: at one token that machinery costs most."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transom.layers import FeedForward, MultiHeadAttention, Projection

Map = Callable[[Tensor], Tensor]
JOINED = 2**20  # numbers; larger projections are not joined into one, as that would only cost memory
PACKED = 2**18  # numbers; smaller matrices gain nothing by being packed


def bare(module: nn.Module) -> Map:
    """The module's function of its parameters, of vectors in rows; a module of another kind is called as it is, with
    the rows as the tokens of one sequence.
    """
    if type(module) is Projection:
        weight, bias = module.weight, module.bias
        return lambda x: F.linear(x, weight, bias)
    if type(module) is nn.LayerNorm:
        shape, gain, shift, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, gain, shift, eps)
    if type(module) is FeedForward:
        first, second, activation = bare(module.W_1), bare(module.W_2), module.activation
        return lambda x: second(activation(first(x)))
    if type(module) is nn.Identity:
        return lambda x: x
    return lambda x: module(x[None])[0]


def joined(layer: MultiHeadAttention) -> Map:
    """Queries, keys and values side by side; by one matrix where the three are plain and small."""
    parts = [layer.W_Q, layer.W_K, layer.W_V]
    plain = [part for part in parts if type(part) is Projection]
    if len(plain) < 3 or sum(part.weight.numel() for part in plain) > JOINED:
        maps = [bare(part) for part in parts]
        return lambda x: torch.cat([part(x) for part in maps], dim=-1)
    weight = torch.cat([part.weight for part in plain])
    bias = None if plain[0].bias is None else torch.cat([part.bias for part in plain])
    return lambda x: F.linear(x, weight, bias)


def unembedded(parameter: Tensor, rows: int) -> Map:
    """x · each token's vector: the largest product of a step.

    For several rows on a CPU it is done by oneDNN with the matrix laid out for it once, which gives the same numbers
    in little more than half the time.
    """
    known = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    fits = parameter.device.type == "cpu" and parameter.dtype == torch.float32 and parameter.numel() >= PACKED
    if rows == 1 or not (known and fits) or torch.is_autocast_enabled("cpu"):
        return lambda x: F.linear(x, parameter)
    product = torch.ops.mkldnn._linear_pointwise.default
    packed = torch.ops.mkldnn._reorder_linear_weight.default(parameter.detach(), rows)
    return lambda x: product(x, packed, None, "none", [], "")
