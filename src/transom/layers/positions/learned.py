"""A learned vector per position, added to the embedding (Gehring et al. 2017, section 3.1)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.layers.checks import check_sizes, looked_up
from transom.layers.positions.part import Positions, Sizes


class Learned(Positions):
    """x + the vector of its position; there are `longest` of them, and none beyond."""

    enters = "the embedding"

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__(d_model=d_model)
        check_sizes(d_model=d_model, longest=longest)
        self.longest = longest
        self.vectors = nn.Parameter(torch.empty(longest, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.vectors, std=self.vectors.shape[1] ** -0.5)

    @classmethod
    def for_sizes(cls, sizes: Sizes) -> "Learned":
        return cls(sizes.d_model, sizes.longest)

    def embedded(
        self, x: Float[Tensor, "batch token d_model"], at: Int[Tensor, "#batch token"]
    ) -> Float[Tensor, "batch token d_model"]:
        complaint = (
            f"learned positions go from 0 to {self.longest - 1}, but positions {{lowest}} to {{highest}} came;"
            " cut the sequence, or build Learned with a larger longest"
        )
        return x + looked_up(self.vectors, at, complaint)
