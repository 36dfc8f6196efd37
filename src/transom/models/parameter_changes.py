"""What moved between two models: how far each parameter is from what it was."""

from dataclasses import asdict, dataclass

import torch
from torch import nn

from transom.names import Misfit


@dataclass(frozen=True)
class ParameterChange:
    """How far a parameter moved: the length of the difference, and its share of the old length.

    rank   of a matrix's difference, as far as float32 can tell; None for anything but a matrix
    """

    name: str
    change: float
    share: float
    largest: float
    rank: int | None

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def parameter_changes(old: nn.Module, new: nn.Module) -> list[ParameterChange]:
    """Every parameter that both models have with the same shape, those that moved most first."""
    before, changes = dict(old.named_parameters()), list[ParameterChange]()
    with torch.no_grad():
        for name, parameter in new.named_parameters():
            if name in before and before[name].shape == parameter.shape:
                changes.append(measure_change(name, before[name].double(), parameter.double()))
    if not changes:
        raise Misfit("two models are compared by their parameters, but these have none in common; name others")
    return sorted(changes, key=lambda change: -change.share)


def measure_change(name: str, old: torch.Tensor, new: torch.Tensor) -> ParameterChange:
    difference = new - old
    change, length = float(difference.norm()), float(old.norm())
    # The files hold float32, so what is below its rounding is no change of its own.
    rounding = float(torch.maximum(old.abs(), new.abs()).max()) * 2.0**-23 * max(old.shape, default=1)
    rank = None
    if difference.dim() == 2:
        rank = int(torch.linalg.matrix_rank(difference, atol=rounding, rtol=0.0)) if change else 0
    return ParameterChange(
        name, change, change / length if length else float(change > 0), float(difference.abs().max()), rank
    )
