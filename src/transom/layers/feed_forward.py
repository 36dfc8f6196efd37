"""Feed-forward layers, which treat each token by itself between two attentions."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transom.layers.checks import check_positive, check_vectors
from transom.layers.dropout import Dropout
from transom.layers.projections import Projection


class FeedForward(nn.Module):
    """activation(x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, equation 2, where the activation is max(0, ·))."""

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        activation: Callable[[Tensor], Tensor] = torch.relu,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_positive(d_model=d_model, d_hidden=d_hidden)
        self.d_model = d_model
        self.W_1 = Projection(d_model, d_hidden, bias=bias)
        self.W_2 = Projection(d_hidden, d_model, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch token d_model"]) -> Float[Tensor, "batch token d_model"]:
        check_vectors("feed-forward", x, self.d_model, self.W_1.weight)
        return self.W_2(self.dropout(self.activation(self.W_1(x))))


class GatedFeedForward(nn.Module):
    """(activation(x W_gate) ⊗ x W_up) W_down: one half gates the other (Shazeer 2020, section 2)."""

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_positive(d_model=d_model, d_hidden=d_hidden)
        self.d_model, self.activation = d_model, activation
        self.W_gate = Projection(d_model, d_hidden, bias=bias)
        self.W_up = Projection(d_model, d_hidden, bias=bias)
        self.W_down = Projection(d_hidden, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch token d_model"]) -> Float[Tensor, "batch token d_model"]:
        check_vectors("feed-forward", x, self.d_model, self.W_gate.weight)
        return self.W_down(self.dropout(self.activation(self.W_gate(x)) * self.W_up(x)))


class SwiGLU(GatedFeedForward):
    """(silu(x W_gate) ⊗ x W_up) W_down (Shazeer 2020, equation 6)."""

    def __init__(self, d_model: int, d_hidden: int, bias: bool = False, dropout: float = 0.0) -> None:
        super().__init__(d_model, d_hidden, F.silu, bias, dropout)


def gelu_tanh(x: Tensor) -> Tensor:
    """x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), close to x Φ(x) (Hendrycks & Gimpel 2016, section 2)."""
    return F.gelu(x, approximate="tanh")


# Each is built by FEED_FORWARDS[name](d_model, d_hidden, bias=…, dropout=…).
FEED_FORWARDS: dict[str, Callable[..., nn.Module]] = {
    "relu": partial(FeedForward, activation=torch.relu),
    "gelu": partial(FeedForward, activation=F.gelu),
    "gelu_tanh": partial(FeedForward, activation=gelu_tanh),
    "silu": partial(FeedForward, activation=F.silu),
    "swiglu": SwiGLU,
    "geglu": partial(GatedFeedForward, activation=F.gelu),
    "geglu_tanh": partial(GatedFeedForward, activation=gelu_tanh),
}
