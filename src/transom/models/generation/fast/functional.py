"""The functions of modules without calling them: at one token, the call of a module costs more than its arithmetic."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.kernels.decode_program import UnsupportedPart
from transom.layers import Arrangement, Embedding, FeedForward, MultiHeadAttention, Projection

VectorMap = Callable[[Tensor], Tensor]
MOST_FUSED = 2**20  # numbers; fusing larger projections would only cost memory
LEAST_PACKED = 2**18  # numbers; smaller matrices gain nothing by being packed


class BlockParts:
    """A block as its equation sees it: its norms as functions, its numbers as they are, and no other module of it."""

    def __init__(self, block: Arrangement, norms: dict[str, Any]) -> None:
        self.block, self.norms = block, norms

    def __getattr__(self, name: str) -> Any:
        if name in self.norms:
            return self.norms[name]
        value = getattr(self.block, name)
        if isinstance(value, nn.Module):
            raise UnsupportedPart(f"a block whose equation calls {name} itself")
        return value


def embed_tokens(
    embedding: Embedding, tokens: Int[Tensor, "batch token"], at: Int[Tensor, "#batch token"]
) -> Float[Tensor, "rows d_model"]:
    """The vectors of tokens at these positions, row by row."""
    x = F.embedding(tokens, embedding.vectors) * embedding.scale
    return embedding.place(x, at).flatten(0, 1)


def as_function(module: nn.Module) -> VectorMap:
    """The module as a function of row vectors; an unknown module is called, with the rows as tokens of one sequence."""
    if type(module) is Projection:
        weight, bias = module.weight, module.bias
        return lambda x: F.linear(x, weight, bias)
    if type(module) is nn.LayerNorm:
        shape, gain, shift, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, gain, shift, eps)
    if type(module) is FeedForward:
        first, second, activation = as_function(module.W_1), as_function(module.W_2), module.activation
        return lambda x: second(activation(first(x)))
    if type(module) is nn.Identity:
        return lambda x: x
    return lambda x: module(x[None])[0]


def fused_qkv(layer: MultiHeadAttention) -> VectorMap:
    """Queries, keys and values side by side; by one matrix if all three are plain and small."""
    modules = [layer.W_Q, layer.W_K, layer.W_V]
    plain = [module for module in modules if type(module) is Projection]
    if len(plain) < 3 or sum(module.weight.numel() for module in plain) > MOST_FUSED:
        projections = [as_function(module) for module in modules]
        return lambda x: torch.cat([project(x) for project in projections], dim=-1)
    weight = torch.cat([module.weight for module in plain])
    bias = None if plain[0].bias is None else torch.cat([module.bias for module in plain])
    return lambda x: F.linear(x, weight, bias)


def unembedding_function(parameter: Tensor, rows: int, bias: Tensor | None = None) -> VectorMap:
    """x · each token's vector, plus the bias: the largest product of a step.

    For several rows on a CPU, oneDNN computes it with a packed copy of the matrix: the same numbers in little more than
    half the time.
    """
    has_onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    fits = parameter.device.type == "cpu" and parameter.dtype == torch.float32 and parameter.numel() >= LEAST_PACKED
    if rows == 1 or not (has_onednn and fits) or torch.is_autocast_enabled("cpu"):
        return lambda x: F.linear(x, parameter, bias)
    product = torch.ops.mkldnn._linear_pointwise.default
    packed = torch.ops.mkldnn._reorder_linear_weight.default(parameter.detach(), rows)
    return lambda x: product(x, packed, bias, "none", [], "")
