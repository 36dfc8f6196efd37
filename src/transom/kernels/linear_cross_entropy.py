"""Logits and their cross-entropy, a few rows at a time: the logits are never held as a whole.

For a vocabulary of ten thousand the logits are by far the largest tensor of a training step, and they are read five
times: for the loss, its gradient, and the two products after it. Here each chunk of rows is computed, used for all of
this and dropped while it is still in the cache.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_NUMBERS = 2**20  # logits held at once: 4 MB in float32
Hidden = Float[Tensor, "any d_model"]
Unembedding = Float[Tensor, "vocabulary d_model"]


def linear_cross_entropy(
    hidden: Hidden,
    unembedding: Unembedding,
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
    """The forward pass also computes the gradients, while a chunk's logits exist; the backward pass only scales them.

    Under autocast the three matrix products are in its dtype, everything else in float32.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, unembedding: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        device, ctx.dtype = hidden.device.type, hidden.dtype
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else unembedding.dtype
        with torch.autocast(device, enabled=False):
            hidden = hidden.to(unembedding.dtype)
            gradients = None
            if any(ctx.needs_input_grad[:2]):
                gradients = torch.empty_like(hidden), torch.zeros_like(unembedding)
            loss = compute_in_chunks(hidden, unembedding, targets, smoothing, dtype, gradients)
        ctx.save_for_backward(*(gradients or ()))
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        grad_hidden, grad_unembedding = ctx.saved_tensors
        return (grad_hidden * grads[0]).to(ctx.dtype), grad_unembedding * grads[0], None, None


def compute_in_chunks(
    hidden: Hidden,
    unembedding: Unembedding,
    targets: Int[Tensor, " any"],
    smoothing: float,
    dtype: torch.dtype,
    gradients: tuple[Hidden, Unembedding] | None,
) -> Float[Tensor, ""]:
    """The loss summed over all targets; fills in the gradients unless they are None. `dtype` is that of products."""
    total = hidden.new_zeros((), dtype=torch.float64)
    # Σ over the vocabulary of the logits is hidden · Σ of the unembedding: no pass over the logits for it.
    mean_row, weight = unembedding.mean(dim=0), unembedding.to(dtype)
    rows = max(1, CHUNK_NUMBERS // len(unembedding))
    for first in range(0, len(hidden), rows):
        chunk, chunk_targets = hidden[first : first + rows], targets[first : first + rows, None]
        logits = (chunk.to(dtype) @ weight.mT).to(chunk.dtype)
        target_logits = logits.gather(1, chunk_targets)[:, 0]
        log_probabilities = torch.log_softmax(logits, dim=-1)
        at_target = log_probabilities.gather(1, chunk_targets)[:, 0]
        mean_log_probability = chunk @ mean_row - (target_logits - at_target)
        total -= ((1.0 - smoothing) * at_target + smoothing * mean_log_probability).sum()
        if gradients is not None:
            probabilities = log_probabilities.exp_().to(dtype)
            gradients[0][first : first + rows] = probabilities @ weight
            gradients[1].add_(probabilities.mT @ chunk.to(dtype))
    if gradients is not None:
        # Less the targets' probabilities: 1 − smoothing at each target, smoothing / vocabulary everywhere.
        gradients[0].sub_(unembedding[targets] * (1.0 - smoothing) + mean_row * smoothing)
        gradients[1].index_add_(0, targets, hidden, alpha=smoothing - 1.0)
        gradients[1].sub_(hidden.sum(dim=0) * (smoothing / len(unembedding)))
    return total.to(hidden.dtype)
