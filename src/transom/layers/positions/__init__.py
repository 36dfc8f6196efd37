"""Ways to say where a token stands, one per file; `POSITIONS[name].for_sizes(sizes)` builds one by name."""

from transom.layers.positions.alibi import Alibi
from transom.layers.positions.learned import Learned
from transom.layers.positions.nowhere import Nowhere
from transom.layers.positions.part import Positions, Sizes
from transom.layers.positions.relative import Relative
from transom.layers.positions.rotary import Rotary
from transom.layers.positions.sinusoidal import Sinusoidal

POSITIONS: dict[str, type[Positions]] = {
    "none": Nowhere,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": Alibi,
    "relative": Relative,
}

__all__ = ["POSITIONS", "Alibi", "Learned", "Nowhere", "Positions", "Relative", "Rotary", "Sinusoidal", "Sizes"]
