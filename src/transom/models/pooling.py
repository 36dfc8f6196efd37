"""One vector for a sequence of vectors, and heads of an encoder."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.layers import Projection
from transom.layers.position_encoding import Vectors
from transom.models.position_ids import Real

Pooling = Callable[[Tensor, Tensor | None], Tensor]


def mean_pool(x: Vectors, real: Real | None = None) -> Float[Tensor, "batch d_model"]:
    """The mean over the real tokens; zeros if there are none."""
    if real is None:
        return x.mean(dim=1) if x.shape[1] else x.sum(dim=1)
    # Padding may hold NaN, which times 0 would stay NaN, so it is filled with 0.
    counts = real.sum(dim=1, keepdim=True).clamp(min=1)
    return x.masked_fill(~real[..., None], 0.0).sum(dim=1) / counts


def first_pool(x: Vectors, real: Real | None = None) -> Float[Tensor, "batch d_model"]:
    """The vector of the first real token."""
    if real is None:
        return x[:, 0]
    indices = real.int().argmax(dim=1)
    return x.gather(1, indices[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]


POOLINGS: dict[str, Pooling] = {"mean": mean_pool, "first": first_pool}


class Pooler(nn.Module):
    """activation(x W + b) of the vector of a sequence (Devlin et al. 2019, where the activation is tanh)."""

    def __init__(self, d_model: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.W, self.activation = Projection(d_model, d_model), activation

    def forward(self, x: Float[Tensor, "batch d_model"]) -> Float[Tensor, "batch d_model"]:
        return self.activation(self.W(x))


POOLERS: dict[str, Callable[[Tensor], Tensor] | None] = {"none": None, "tanh": torch.tanh, "relu": torch.relu}


class MaskedTokenHead(nn.Module):
    """Logits of the tokens behind masks: Norm(gelu(x W + b)) · each token's vector + a number per token.

    (Devlin et al. 2019, task 1; the vectors are those of the embedding.)
    """

    def __init__(self, d_model: int, vocabulary: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.W, self.norm = Projection(d_model, d_model), norm(d_model)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self, x: Vectors, vectors: Float[Tensor, "vocabulary d_model"]
    ) -> Float[Tensor, "batch token vocabulary"]:
        return self.norm(nn.functional.gelu(self.W(x))) @ vectors.mT + self.bias
