"""Logits and their cross-entropy in one go, a few rows at a time: the whole logits are never held.

For a vocabulary of ten thousand the logits are by far the largest tensor of a training step, and are read five times
over: for the loss, its gradient, and the two products behind. Here each chunk of rows is made, used for all of it and
thrown away while it is still in the cache.
"""

from dataclasses import dataclass
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
    """The gradients are taken in the forward pass, where the chunk's logits are at hand; backward only scales them.

    Under autocast the three matrix products are in its dtype, all else in float32.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, unembedding: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        device, ctx.dtype = hidden.device.type, hidden.dtype
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else unembedding.dtype
        with torch.autocast(device, enabled=False):
            chunks = Chunks(hidden.to(unembedding.dtype), unembedding, targets, smoothing, low)
            loss = chunks.loss(gradients=any(ctx.needs_input_grad[:2]))
        ctx.save_for_backward(chunks.of_hidden, chunks.of_unembedding)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *of: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        of_hidden, of_unembedding = ctx.saved_tensors
        return (of_hidden * of[0]).to(ctx.dtype), of_unembedding * of[0], None, None


@dataclass
class Chunks:
    """The loss a few rows at a time, and the gradients on the way; `low` is the dtype of the matrix products."""

    hidden: Float[Tensor, "any d_model"]
    unembedding: Float[Tensor, "vocabulary d_model"]
    targets: Int[Tensor, " any"]
    smoothing: float
    low: torch.dtype
    of_hidden: Tensor | None = None
    of_unembedding: Tensor | None = None

    def loss(self, gradients: bool) -> Float[Tensor, ""]:
        """The sum over all targets; with `gradients`, `of_hidden` and `of_unembedding` are filled in."""
        total = self.hidden.new_zeros((), dtype=torch.float64)
        if gradients:
            self.of_hidden, self.of_unembedding = torch.empty_like(self.hidden), torch.zeros_like(self.unembedding)
        # Σ over the vocabulary of the logits is hidden · Σ of the unembedding: no pass over the logits for it.
        centre, narrow = self.unembedding.mean(dim=0), self.unembedding.to(self.low)
        rows = max(1, CHUNK_NUMBERS // len(self.unembedding))
        for first in range(0, len(self.hidden), rows):
            here = slice(first, first + rows)
            chunk, told = self.hidden[here], self.targets[here, None]
            logits = (chunk.to(self.low) @ narrow.mT).to(chunk.dtype)
            named = logits.gather(1, told)[:, 0]
            logs = torch.log_softmax(logits, dim=-1)
            at_target = logs.gather(1, told)[:, 0]
            spread = chunk @ centre - (named - at_target)
            total -= ((1.0 - self.smoothing) * at_target + self.smoothing * spread).sum()
            if gradients:
                self.send_back(here, logs.exp_().to(self.low), narrow)
        if gradients:
            self.take_off_targets(centre)
        return total.to(self.hidden.dtype)

    def send_back(self, here: slice, chances: Tensor, narrow: Tensor) -> None:
        assert self.of_hidden is not None
        assert self.of_unembedding is not None
        self.of_hidden[here] = chances @ narrow
        self.of_unembedding += chances.mT @ self.hidden[here].to(self.low)

    def take_off_targets(self, centre: Tensor) -> None:
        """Take the targets off the chances, in both gradients: 1 − s at each token told, s / vocabulary everywhere."""
        assert self.of_hidden is not None
        assert self.of_unembedding is not None
        named = self.unembedding[self.targets] * (1.0 - self.smoothing)
        self.of_hidden -= named + centre * self.smoothing
        self.of_unembedding.index_add_(0, self.targets, self.hidden, alpha=self.smoothing - 1.0)
        self.of_unembedding -= self.hidden.sum(dim=0) * (self.smoothing / len(self.unembedding))
