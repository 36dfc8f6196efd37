"""What a position encoding is: where it acts, what it is built for, and a table of what it computes."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.equations.biases import Bias
from transom.equations.rotary_scaling import RotaryScaling
from transom.layers.checks import check_positive
from transom.names import Misfit

Vectors = Float[Tensor, "batch token d_model"]
Heads = Float[Tensor, "batch heads token d_head"]
PositionIds = Int[Tensor, "#batch token"]
Place = Literal["the embedding", "attention", "nowhere"]
WAYS_OUT = {
    "the embedding": "hand them to Embedding(positions=…)",
    "attention": "hand them to MultiHeadAttention(positions=…)",
}
LONGEST_TABLE = 2**16  # positions beyond are computed each time


@dataclass(frozen=True)
class PositionSizes:
    """The sizes and settings of a model that a position encoding may depend on.

    base       of the wavelengths of sinusoidal and rotary positions
    halves     how those two pair numbers: i with i + half, not with its neighbour
    scaling    of rotary frequencies
    offset     the number of the first position, for positions that are added to the embedding
    buckets, farthest, causal   as in `RelativeBuckets`
    """

    d_model: int
    heads: int
    d_head: int
    longest: int  # tokens of the longest sequence
    base: float = 10_000.0
    halves: bool = False
    scaling: RotaryScaling | None = None
    offset: int = 0
    buckets: int = 32
    farthest: int = 128
    causal: bool = False


class Positions(nn.Module):
    """A position encoding: a subclass implements `embed`, `rotate` or `bias`, and says in `enters` where it acts."""

    enters: ClassVar[Place] = "nowhere"

    def __init__(self, **built_for: int) -> None:
        super().__init__()
        check_positive(**built_for)
        self.built_for = built_for  # the sizes that must equal those of its layer, by axis word

    @classmethod
    def for_sizes(cls, sizes: PositionSizes) -> "Positions":
        """Build the encoding for a model of these sizes: the arguments that are named like a size get it."""
        return cls(**{name: getattr(sizes, name) for name in signature(cls).parameters if hasattr(sizes, name)})

    def embed(self, x: Vectors, at: PositionIds) -> Vectors:
        """Embedded tokens, changed by their positions `at`."""
        return x

    def rotate(self, x: Heads, at: PositionIds) -> Heads:
        """Queries or keys, changed by their positions `at`."""
        return x

    def bias(self, device: torch.device) -> Bias | None:
        """What is added to the scores; the queries are at the last positions of the keys."""
        return None

    def check_place(self, place: Place, **sizes: int) -> None:
        """Raise an error if the encoding has no effect at this place, or was built for other sizes."""
        name = type(self).__name__
        if self.enters not in ("nowhere", place):
            raise Misfit(f"{place} got {name} positions, which enter at {self.enters}; {WAYS_OUT[self.enters]}")
        for axis, size in self.built_for.items():
            if sizes[axis] != size:
                raise Misfit(
                    f"{name} was built for {axis}={size}, but {place} has {axis}={sizes[axis]};"
                    f" build it for {axis}={sizes[axis]}"
                )

    def extra_repr(self) -> str:
        return ", ".join(f"{axis}={size}" for axis, size in self.built_for.items())


class NoPositions(Positions):
    """No position encoding; a causal mask alone still tells before from after."""


class PositionTable:
    """A function of the position, computed once for positions from 0 on and then looked up; it grows as needed.

    The formula takes the positions and the dtype to round to.
    """

    def __init__(self, formula: Callable[..., Tensor]) -> None:
        self.formula = formula
        self.rows: Tensor | None = None

    def lookup(self, positions: PositionIds, like: torch.dtype) -> Float[Tensor, "#batch token any"]:
        """The numbers at these positions, as exact as dtype `like` and at least as float32."""
        dtype = torch.promote_types(like, torch.float32)
        if positions.numel() == 0:
            return self.formula(positions, dtype=dtype)
        lowest, highest = (int(position) for position in positions.aminmax())
        if lowest < 0 or highest >= LONGEST_TABLE:
            return self.formula(positions, dtype=dtype)
        rows = self.rows
        if rows is None or len(rows) <= highest or rows.device != positions.device or rows.dtype != dtype:
            # Not in inference mode: its tensors could not be used in later training.
            with torch.inference_mode(False):
                rows = self.formula(torch.arange(max(64, 2 * highest), device=positions.device), dtype=dtype)
            self.rows = rows
        return F.embedding(positions, rows)


def token_positions(token: int, start: int, device: torch.device) -> Int[Tensor, "1 token"]:
    """The positions of consecutive tokens, the first at `start`."""
    return torch.arange(start, start + token, device=device)[None]
