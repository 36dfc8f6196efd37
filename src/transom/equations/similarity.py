"""Ways to score a query against a key: the dot product of the paper, and the two it is usually compared with."""

import torch
from jaxtyping import Float
from torch import Tensor


def dot(
    Q: Float[Tensor, "... queries d_head"], K: Float[Tensor, "... keys d_head"]
) -> Float[Tensor, "... queries keys"]:
    """q · k: grows with the lengths of both and with how well they point the same way."""
    return Q @ K.mT


def cosine(
    Q: Float[Tensor, "... queries d_head"], K: Float[Tensor, "... keys d_head"], smallest: float = 1e-12
) -> Float[Tensor, "... queries keys"]:
    """q · k / (‖q‖ ‖k‖): direction only, always within [−1, 1]."""
    lengths = Q.norm(dim=-1)[..., :, None] * K.norm(dim=-1)[..., None, :]
    return Q @ K.mT / lengths.clamp_min(smallest)


def additive(
    Q: Float[Tensor, "... queries any"],
    K: Float[Tensor, "... keys any2"],
    W_Q: Float[Tensor, "any d_hidden"],
    W_K: Float[Tensor, "any2 d_hidden"],
    w: Float[Tensor, " d_hidden"],
) -> Float[Tensor, "... queries keys"]:
    """w · tanh(q W_Q + k W_K): a small network scores each pair (Bahdanau et al. 2015, section A.1.2)."""
    return torch.tanh((Q @ W_Q)[..., :, None, :] + (K @ W_K)[..., None, :, :]) @ w


SIMILARITIES = {"dot": dot, "cosine": cosine, "additive": additive}
