"""Queries and keys turned by an angle that grows with the position (Su et al. 2021)."""

from functools import partial

from jaxtyping import Float, Int
from torch import Tensor

from transom.equations.positions import rotary_angles, rotated, rotated_halves
from transom.layers.checks import check_sizes
from transom.layers.positions.part import Positions, Sizes, Table
from transom.names import Misfit


class Rotary(Positions):
    """Pairs of numbers turned, so that a score depends on the distance between query and key and on nothing absolute.

    halves   pair number i with number i + d_head/2, as Llama-like checkpoints do, not with its neighbour.
    """

    enters = "attention"

    def __init__(self, d_head: int, base: float = 10_000.0, halves: bool = False) -> None:
        super().__init__(d_head=d_head)
        check_sizes(d_head=d_head)
        if d_head % 2:
            raise Misfit(f"rotary positions turn pairs, but d_head={d_head} is odd; try d_head={d_head + 1}")
        self.d_head, self.base = d_head, base
        self.angles = Table(partial(rotary_angles, d_head=d_head, base=base))
        self.turn = rotated_halves if halves else rotated

    @classmethod
    def for_sizes(cls, sizes: Sizes) -> "Rotary":
        return cls(sizes.d_head)

    def turned(
        self, x: Float[Tensor, "batch heads token d_head"], at: Int[Tensor, "#batch token"]
    ) -> Float[Tensor, "batch heads token d_head"]:
        return self.turn(x, self.angles.at(at, x.dtype)[:, None])
