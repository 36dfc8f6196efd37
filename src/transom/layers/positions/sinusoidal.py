"""Fixed waves added to the embedding (Vaswani et al. 2017, section 3.5)."""

from functools import partial

from jaxtyping import Float, Int
from torch import Tensor

from transom.equations import positions
from transom.layers.checks import check_sizes
from transom.layers.positions.part import Positions, Sizes, Table


class Sinusoidal(Positions):
    """x + sin or cos of the position, at wavelengths from 2π to base · 2π. No parameters, no longest sequence."""

    enters = "the embedding"

    def __init__(self, d_model: int, base: float = 10_000.0) -> None:
        super().__init__(d_model=d_model)
        check_sizes(d_model=d_model)
        self.d_model, self.base = d_model, base
        self.waves = Table(partial(positions.sinusoidal, d_model=d_model, base=base))

    @classmethod
    def for_sizes(cls, sizes: Sizes) -> "Sinusoidal":
        return cls(sizes.d_model)

    def embedded(
        self, x: Float[Tensor, "batch token d_model"], at: Int[Tensor, "#batch token"]
    ) -> Float[Tensor, "batch token d_model"]:
        return x + self.waves.at(at, x.dtype).to(x.dtype)
