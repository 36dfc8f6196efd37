"""Normalising a token's vector: the equations behind `torch.nn.LayerNorm` and `torch.nn.RMSNorm`."""

import torch
from jaxtyping import Float
from torch import Tensor


def layer_norm(
    x: Float[Tensor, "... d_model"],
    gain: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "... d_model"]:
    """(x − mean) / √(variance + ε) · gain + bias, over the numbers of one token (Ba et al. 2016, equation 4)."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * gain + bias


def rms_norm(
    x: Float[Tensor, "... d_model"], gain: Float[Tensor, " d_model"], eps: float = 1e-5
) -> Float[Tensor, "... d_model"]:
    """x / √(mean of squares + ε) · gain: no centring, no bias (Zhang & Sennrich 2019, equation 4)."""
    return x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps) * gain
