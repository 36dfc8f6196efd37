"""Logits and their cross-entropy in one go, a few rows at a time: the whole logits are never held.

For a vocabulary of ten thousand the logits are by far the largest tensor of a training step, and are read five times
over: for the loss, its gradient, and the two products behind. Here each chunk of rows is made, used for all of it and
thrown away while it is still in the cache.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_NUMBERS = 2**20  # logits held at once: 4 MB in float32


def linear_cross_entropy(
    hidden: Float[Tensor, "any d_model"],
    unembedding: Float[Tensor, "vocabulary d_model"],
    targets: Int[Tensor, " any"],
    padding: int | None = None,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`equations.losses.cross_entropy` of hidden @ unembedding.mT: the sum over real targets, and their count."""
    if padding is not None:
        real = (targets != padding).nonzero()[:, 0]
        hidden, targets = hidden.index_select(0, real), targets.index_select(0, real)
    return LinearCrossEntropy.apply(hidden, unembedding, targets, smoothing), torch.tensor(len(targets))  # pyright: ignore[reportReturnType]


class LinearCrossEntropy(torch.autograd.Function):
    """The gradients are taken in the forward pass, where the chunk's logits are at hand; backward only scales them."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, unembedding: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        wanted = any(ctx.needs_input_grad[:2])
        of_hidden = torch.empty_like(hidden) if wanted else None
        of_unembedding = torch.zeros_like(unembedding) if wanted else None
        # Σ over the vocabulary of the logits is hidden · Σ of the unembedding: no pass over the logits for it.
        centre = unembedding.mean(dim=0)
        total = hidden.new_zeros((), dtype=torch.float64)
        rows = max(1, CHUNK_NUMBERS // len(unembedding))
        for first in range(0, len(hidden), rows):
            chunk, told = hidden[first : first + rows], targets[first : first + rows]
            logs = torch.log_softmax(chunk @ unembedding.mT, dim=-1)
            named = (chunk * unembedding[told]).sum(dim=-1)
            at_target = logs.gather(1, told[:, None])[:, 0]
            spread = chunk @ centre - (named - at_target)
            total -= ((1.0 - smoothing) * at_target + smoothing * spread).sum()
            if of_hidden is not None and of_unembedding is not None:
                of_hidden[first : first + rows] = to_hidden(logs.exp_(), unembedding, told, centre, smoothing)
                of_unembedding.addmm_(logs.mT, chunk)
        if of_unembedding is not None:
            of_unembedding.index_add_(0, targets, hidden, alpha=-(1.0 - smoothing))
            of_unembedding -= hidden.sum(dim=0) * (smoothing / len(unembedding))
        ctx.save_for_backward(of_hidden, of_unembedding)
        return total.to(hidden.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *of: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        of_hidden, of_unembedding = ctx.saved_tensors
        return of_hidden * of[0], of_unembedding * of[0], None, None


def to_hidden(
    chances: Float[Tensor, "rows vocabulary"],
    unembedding: Float[Tensor, "vocabulary d_model"],
    told: Int[Tensor, " rows"],
    centre: Float[Tensor, " d_model"],
    smoothing: float,
) -> Float[Tensor, "rows d_model"]:
    """(p − target) @ unembedding, where the smoothed target is (1 − s) at its token and s / vocabulary everywhere."""
    return chances @ unembedding - (1.0 - smoothing) * unembedding[told] - smoothing * centre
