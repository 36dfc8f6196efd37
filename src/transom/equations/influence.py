"""What a number loses with an attention edge, to first order: A the weights, g the number's gradient by the output o.

Without key j the rest of a row is renormalised: o' = (o − Aⱼ vⱼ) / (1 − Aⱼ), so o' − o = Aⱼ / (1 − Aⱼ) · (o − vⱼ),
exactly (Geva et al. 2023 knock edges out so). g · (o' − o) is then the change of the number, to first order.
Below, GV = g · vⱼ for each key, and GO = g · o for each row.
"""

import torch
from jaxtyping import Float
from torch import Tensor

NEAR_ONE = 0.9  # above this weight, 1 − A has lost digits: the other keys are summed instead


def removal_influence(
    A: Float[Tensor, "*any rows columns"], GV: Float[Tensor, "*any rows columns"], GO: Float[Tensor, "*any rows"]
) -> Float[Tensor, "*any rows columns"]:
    """A / (1 − A) · (g·o − g·v): an edge knocked out before the softmax. Good for weights up to NEAR_ONE."""
    return finite_product(A / (1.0 - A).clamp_min(1.0 - NEAR_ONE), GO[..., None] - GV)


def zeroing_influence(
    A: Float[Tensor, "*any rows columns"], GV: Float[Tensor, "*any rows columns"]
) -> Float[Tensor, "*any rows columns"]:
    """−A · g·v: an edge knocked out after the softmax."""
    return -finite_product(A, GV)


def finite_product(A: Tensor, x: Tensor) -> Tensor:
    """A · x, and 0 where A is 0: a masked value may be NaN or infinite."""
    return torch.where(A == 0.0, 0.0, A * x)


def joint_removal_influence(
    A_S: Float[Tensor, "*any"],
    GV_S: Float[Tensor, "*any"],
    rest: Float[Tensor, "*any"],
    GV_rest: Float[Tensor, "*any"],
    GO: Float[Tensor, "*any"],
) -> Float[Tensor, "*any"]:
    """A set S of keys knocked out together before the softmax: A_S / (1 − A_S) · (g·o − g·v̄_S), v̄_S their mean value.

    A_S = Σ A and GV_S = Σ A g·v over the set, rest = 1 − A_S and GV_rest = Σ A g·v over the other keys. If the set has
    most of the weight, it is computed as GV_rest / rest − g·o, which is the same. A row that loses all its keys gives
    zeros, so the change is −g·o.
    """
    some = rest.clamp_min(torch.finfo(rest.dtype).tiny)
    most = torch.where(rest > 0.0, GV_rest / some - GO, -GO)
    return torch.where(A_S == 0.0, 0.0, torch.where(A_S > 0.5, most, (A_S * GO - GV_S) / some))


def weight_to_no_key(A: Float[Tensor, "*any columns"], least: float = 1e-5) -> Float[Tensor, "*any"]:
    """1 − Σ A of whole rows: what a model with sinks gives to no key; 0 if it is no more than rounding."""
    sink = 1.0 - A.sum(dim=-1)
    return torch.where(sink > least, sink, 0.0)
