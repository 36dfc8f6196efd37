"""Scores that fall with the distance, at a fixed slope per head (Press et al. 2022)."""

import torch

from transom.equations.biases import Bias, DistanceBias
from transom.equations.positions import alibi_slopes
from transom.layers.checks import check_sizes
from transom.layers.positions.part import Positions, Sizes


class Alibi(Positions):
    """score − slope · |distance|. No parameters; it goes on to lengths never seen in training."""

    enters = "attention"

    def __init__(self, heads: int) -> None:
        super().__init__(heads=heads)
        check_sizes(heads=heads)
        # A plain attribute: as a buffer, a model turned to bfloat16 would round distances beyond 256. On the CPU, so
        # that it has its values also in a model that is built on the meta device to be compared with.
        with torch.device("cpu"):
            self.slopes = alibi_slopes(heads)

    @classmethod
    def for_sizes(cls, sizes: Sizes) -> "Alibi":
        return cls(sizes.heads)

    def bias(self, device: torch.device) -> Bias:
        self.slopes = self.slopes.to(device)
        return DistanceBias(self.slopes)
