"""Random numbers for sampling: a stream of its own for every row, so that a row is drawn alike in any batch."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

AT_ONCE = 64


class Chance:
    """Uniform random numbers, from one seed per row."""

    def __init__(self, seeds: list[int]) -> None:
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.used, self.numbers = AT_ONCE, torch.empty(0)

    def uniform(self) -> Float[Tensor, " batch"]:
        """The next number of every row, at least 0 and below 1."""
        if self.used == AT_ONCE:
            drawn = [torch.rand(AT_ONCE, generator=own, dtype=torch.float64) for own in self.generators]
            self.used, self.numbers = 0, torch.stack(drawn)
        self.used += 1
        return self.numbers[:, self.used - 1]

    def select(self, rows: Int[Tensor, " any"]) -> None:
        """Go on with these rows."""
        self.generators = [self.generators[row] for row in rows.tolist()]
        self.numbers = self.numbers[rows.to(self.numbers.device)]
