"""How wrong a model is: the cross-entropy of what it says against what came."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "any vocabulary"],
    targets: Int[Tensor, " any"],
    padding: int | None = None,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum of −log p(target) over all targets that are not padding, and how many those are.

    Smoothing moves that share of each target's probability evenly over the vocabulary (Szegedy et al. 2016, section
    7). A sum and a count, not a mean: means of batches do not add up to the mean of all, sums and counts do.
    """
    real = torch.ones_like(targets, dtype=torch.bool) if padding is None else targets != padding
    logs = torch.log_softmax(logits[real], dim=-1)
    told = logs.gather(1, targets[real][:, None])[:, 0]
    return -((1.0 - smoothing) * told + smoothing * logs.mean(dim=-1)).sum(), real.sum()


def perplexity(loss: float) -> float:
    """e to the mean loss: as uncertain as a fair choice among this many tokens."""
    return float(torch.tensor(loss, dtype=torch.float64).exp())
