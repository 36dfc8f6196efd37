"""Optimizers and learning-rate schedules by name."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


def build_optimizer(
    model: nn.Module, kind: str, rate: float, decay: float, shares: Mapping[str, float] | None = None, **kwargs: Any
) -> torch.optim.Optimizer:
    """The optimizer of all trainable parameters; matrices decay, vectors (norms and biases) do not.

    shares   of the rate for each parameter, by name; by default all have the whole rate

    Decay makes a matrix's map weaker; for a bias or the gain of a norm it has no such meaning (Brown et al. 2020,
    appendix B, use the same rule).
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [parameter for parameter in trainable if parameter.dim() >= 2], "weight_decay": decay},
        {"params": [parameter for parameter in trainable if parameter.dim() < 2], "weight_decay": 0.0},
    ]
    if shares is not None:
        groups = [part for group in groups for part in split_by_share(group, model, shares)]
    fused = all(parameter.device.type in ("cpu", "cuda", "mps") for parameter in trainable)
    return OPTIMIZERS[kind]([group for group in groups if group["params"]], lr=rate, fused=fused, **kwargs)


def split_by_share(group: dict[str, Any], model: nn.Module, shares: Mapping[str, float]) -> list[dict[str, Any]]:
    """A parameter group split into one for each share of the rate, the largest first."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    own = {id(parameter): shares[names[id(parameter)]] for parameter in group["params"]}
    return [
        {**group, "params": [one for one in group["params"] if own[id(one)] == share], "share": share}
        for share in sorted(set(own.values()), reverse=True)
    ]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of all parameters; a group with a share gets that much of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("share", 1.0)


def inverse_sqrt_decay(update: int, warmup: int, updates: int, final: float) -> float:
    """Falls with 1/√update (Vaswani et al. 2017, equation 3)."""
    return math.sqrt(max(1, warmup) / update)


def cosine_decay(update: int, warmup: int, updates: int, final: float) -> float:
    """Half a cosine down to `final` (Loshchilov & Hutter 2017, equation 5)."""
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * decay_progress(update, warmup, updates)))


def linear_decay(update: int, warmup: int, updates: int, final: float) -> float:
    return 1.0 - (1.0 - final) * decay_progress(update, warmup, updates)


def decay_progress(update: int, warmup: int, updates: int) -> float:
    """The share of the updates after the warm-up that is done."""
    return min(1.0, (update - warmup) / max(1, updates - warmup))


SCHEDULES: dict[str, Callable[[int, int, int, float], float]] = {
    "inverse_sqrt": inverse_sqrt_decay,
    "cosine": cosine_decay,
    "linear": linear_decay,
    "constant": lambda update, warmup, updates, final: 1.0,
}


def rate_share(kind: str, update: int, warmup: int, updates: int, final: float) -> float:
    """The share of the highest rate at an update: a linear warm-up, then a schedule."""
    return update / warmup if update < warmup else SCHEDULES[kind](update, warmup, updates, final)
