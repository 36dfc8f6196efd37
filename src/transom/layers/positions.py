"""Position encodings: what a token's position does to its embedding, to queries and keys, or to scores."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.equations.biases import Bias, DistanceBias, RelativeBias
from transom.equations.positions import alibi_slopes, apply_rotary, apply_rotary_halves, rotary_angles, sinusoidal
from transom.layers.checks import check_positive, lookup
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
    """The sizes of a model that a position encoding may depend on."""

    d_model: int
    heads: int
    d_head: int
    longest: int  # tokens of the longest sequence


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


class Sinusoidal(Positions):
    """x + sin or cos of the position, at wavelengths from 2π to base · 2π (Vaswani et al. 2017, section 3.5).

    It has no parameters and no longest sequence.
    """

    enters = "the embedding"

    def __init__(self, d_model: int, base: float = 10_000.0) -> None:
        super().__init__(d_model=d_model)
        self.d_model, self.base = d_model, base
        self.waves = PositionTable(partial(sinusoidal, d_model=d_model, base=base))

    def embed(self, x: Vectors, at: PositionIds) -> Vectors:
        return x + self.waves.lookup(at, x.dtype).to(x.dtype)


class Learned(Positions):
    """x + a learned vector of its position, up to `longest` of them (Gehring et al. 2017, section 3.1)."""

    enters = "the embedding"

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__(d_model=d_model)
        check_positive(longest=longest)
        self.longest = longest
        self.vectors = nn.Parameter(torch.empty(longest, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.vectors, std=self.vectors.shape[1] ** -0.5)

    def embed(self, x: Vectors, at: PositionIds) -> Vectors:
        message = (
            f"learned positions go from 0 to {self.longest - 1}, but positions {{lowest}} to {{highest}} came;"
            " cut the sequence, or build Learned with a larger longest"
        )
        return x + lookup(self.vectors, at, message)


class Rotary(Positions):
    """Queries and keys rotated pair by pair, so that a score depends on the distance alone (Su et al. 2021).

    halves   pair number i with number i + d_head/2, as Llama-like checkpoints do, not with its neighbour.
    """

    enters = "attention"

    def __init__(self, d_head: int, base: float = 10_000.0, halves: bool = False) -> None:
        super().__init__(d_head=d_head)
        if d_head % 2:
            raise Misfit(f"rotary positions rotate pairs, but d_head={d_head} is odd; try d_head={d_head + 1}")
        self.d_head, self.base = d_head, base
        self.angles = PositionTable(partial(rotary_angles, d_head=d_head, base=base))
        self.apply_angles = apply_rotary_halves if halves else apply_rotary

    def rotate(self, x: Heads, at: PositionIds) -> Heads:
        return self.apply_angles(x, self.angles.lookup(at, x.dtype)[:, None])


class Alibi(Positions):
    """score − slope · |distance|, with a fixed slope per head (Press et al. 2022).

    It has no parameters and works at lengths never seen in training.
    """

    enters = "attention"

    def __init__(self, heads: int) -> None:
        super().__init__(heads=heads)
        # A plain attribute: as a buffer, a model turned to bfloat16 would round distances beyond 256. On the CPU, so
        # that it also has its values in a model that is built on the meta device to be compared with.
        with torch.device("cpu"):
            self.slopes = alibi_slopes(heads)

    def bias(self, device: torch.device) -> Bias:
        self.slopes = self.slopes.to(device)
        return DistanceBias(self.slopes)


class Relative(Positions):
    """score + a learned number of its head and distance (after Shaw et al. 2018 and Raffel et al. 2020).

    Distances beyond `reach` count as `reach`. Several attentions that get the same part share its table, as in T5.
    """

    enters = "attention"

    def __init__(self, heads: int, reach: int = 128) -> None:
        super().__init__(heads=heads)
        check_positive(reach=reach)
        self.reach = reach
        self.table = nn.Parameter(torch.empty(heads, 2 * reach + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=0.02)

    @classmethod
    def for_sizes(cls, sizes: PositionSizes) -> "Relative":
        return cls(sizes.heads, min(128, sizes.longest))

    def bias(self, device: torch.device) -> Bias:
        return RelativeBias(self.table)


POSITIONS: dict[str, type[Positions]] = {
    "none": NoPositions,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": Alibi,
    "relative": Relative,
}
