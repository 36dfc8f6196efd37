"""No positions: attention then sees a set of tokens, in no order."""

from transom.layers.positions.part import Positions, Sizes


class Nowhere(Positions):
    """Says nothing about where a token stands; a causal mask alone still tells before from after."""

    @classmethod
    def for_sizes(cls, sizes: Sizes) -> "Nowhere":
        return cls()
