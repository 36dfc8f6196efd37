"""LoRA: a low-rank update of a frozen projection, which is merged into it when training is done (Hu et al. 2021)."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.layers.checks import check_positive
from transom.layers.projections import Projection
from transom.names import Misfit


class LoRA(nn.Module):
    """x W + b + (alpha / rank) · x A B: the projection W stays as it was, and A and B are learned (equation 3).

    A starts as a projection does, B at zero, so at first nothing changes. The update has rank · (d_in + d_out)
    parameters, where W has d_in · d_out.
    """

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        check_positive(rank=rank)
        self.base, self.scale = base, alpha / rank
        self.A = Projection(base.in_features, rank, bias=False)
        self.B = Projection(rank, base.out_features, bias=False)
        nn.init.zeros_(self.B.weight)
        self.base.requires_grad_(False)

    def forward(self, x: Float[Tensor, "batch token any"]) -> Float[Tensor, "batch token any2"]:
        return self.base(x) + self.scale * self.B(self.A(x))

    @property
    def weight(self) -> Tensor:
        """The matrix of the whole map, for a part that computes with it directly."""
        return self.base.weight + self.scale * (self.B.weight @ self.A.weight)

    @property
    def bias(self) -> Tensor | None:
        return self.base.bias

    def merge(self) -> nn.Linear:
        """The projection with the update added to its matrix."""
        with torch.no_grad():
            self.base.weight.copy_(self.weight)
        return self.base

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}"


def add_lora(model: nn.Module, names: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Put a LoRA around every projection whose name fits a pattern, and freeze all else; returns their names.

    names   patterns such as `*.W_Q`; one that fits no projection is an error
    """
    projections = {name: part for name, part in model.named_modules() if type(part) is Projection}
    for pattern in names:
        if not any(fnmatchcase(name, pattern) for name in projections):
            example = next(iter(projections), "none")
            raise Misfit(
                f"lora.names has {pattern!r}, but no projection is called so; they are called like {example!r}, and"
                " * stands for any letters"
            )
    model.requires_grad_(False)
    chosen = [name for name in projections if any(fnmatchcase(name, pattern) for pattern in names)]
    for name in chosen:
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, LoRA(projections[name], rank, alpha))
    return chosen


def merge_lora(model: nn.Module) -> int:
    """Replace every LoRA of a model by its merged projection; returns how many there were."""
    found = [(name, part) for name, part in model.named_modules() if isinstance(part, LoRA)]
    for name, part in found:
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, part.merge())
    return len(found)


def has_lora(model: Any) -> bool:
    return any(isinstance(part, LoRA) for part in model.modules())
