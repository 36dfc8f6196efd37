"""A learned number per head and distance, added to the scores (after Shaw et al. 2018 and Raffel et al. 2020)."""

import torch
from torch import nn

from transom.equations.biases import Bias, TableBias
from transom.layers.checks import check_sizes
from transom.layers.positions.part import Positions, Sizes


class Relative(Positions):
    """score + table[head, distance]; distances beyond `reach` count as `reach`.

    One part handed to several attentions is one table that they share, as in T5; one part each is a table each.
    """

    enters = "attention"

    def __init__(self, heads: int, reach: int = 128) -> None:
        super().__init__(heads=heads)
        check_sizes(heads=heads, reach=reach)
        self.reach = reach
        self.table = nn.Parameter(torch.empty(heads, 2 * reach + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=0.02)

    @classmethod
    def for_sizes(cls, sizes: Sizes) -> "Relative":
        return cls(sizes.heads, min(128, sizes.longest))

    def bias(self, device: torch.device) -> Bias:
        return TableBias(self.table)
