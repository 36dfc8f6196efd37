"""How wrong a model is: the cross-entropy of its predictions and the targets."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "any vocabulary"],
    targets: Int[Tensor, " any"],
    padding: int | None = None,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum of −log p(target) over all targets that are not padding, and their count.

    Smoothing spreads that share of each target's probability evenly over the vocabulary (Szegedy et al. 2016, section
    7). It is a sum and a count, not a mean, because those can be added up over batches.
    """
    real = torch.ones_like(targets, dtype=torch.bool) if padding is None else targets != padding
    log_probabilities = torch.log_softmax(logits[real], dim=-1)
    at_target = log_probabilities.gather(1, targets[real][:, None])[:, 0]
    return -((1.0 - smoothing) * at_target + smoothing * log_probabilities.mean(dim=-1)).sum(), real.sum()


def weighted_cross_entropy(
    logits: Float[Tensor, "any labels"],
    targets: Int[Tensor, " any"],
    weights: Float[Tensor, " labels"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """The sum of −w(target) log p(target); with smoothing, the share that goes to a label is weighed by its own w."""
    losses = -torch.log_softmax(logits.float(), dim=-1) * weights.to(logits.device)
    at_target = losses.gather(1, targets[:, None])[:, 0]
    return ((1.0 - smoothing) * at_target + smoothing * losses.mean(dim=-1)).sum()


def disagreement(first: Float[Tensor, "any labels"], second: Float[Tensor, "any labels"]) -> Float[Tensor, ""]:
    """The sum of (KL(p‖q) + KL(q‖p)) / 2 over all rows: how far two predictions for the same input lie apart.

    (R-Drop, Liang et al. 2021, equation 2, where p and q differ by their dropout.)
    """
    p, q = torch.log_softmax(first.float(), dim=-1), torch.log_softmax(second.float(), dim=-1)
    return ((p.exp() - q.exp()) * (p - q)).sum() / 2


def perplexity(loss: float) -> float:
    """e to the mean loss: as uncertain as a fair choice among this many tokens."""
    return float(torch.tensor(loss, dtype=torch.float64).exp())
