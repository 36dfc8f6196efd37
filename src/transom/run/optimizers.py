"""Optimizers by name, and which parameters decay."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


def optimizer(model: nn.Module, kind: str, rate: float, decay: float, **numbers: Any) -> torch.optim.Optimizer:
    """The optimizer over all parameters that learn; matrices decay, vectors (norms and biases) do not.

    Decay pulls a matrix towards maps that do less; the gain of a norm or a bias has no such meaning (Brown et al. 2020,
    appendix B, follow the same rule).
    """
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in learned if parameter.dim() >= 2], "weight_decay": decay},
        {"params": [parameter for parameter in learned if parameter.dim() < 2], "weight_decay": 0.0},
    ]
    fused = all(parameter.device.type in ("cpu", "cuda", "mps") for parameter in learned)
    return OPTIMIZERS[kind]([group for group in groups if group["params"]], lr=rate, fused=fused, **numbers)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
