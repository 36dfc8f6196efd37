"""Position encodings: what a token's position does to its embedding, to queries and keys, or to scores."""

from functools import partial

import torch
from torch import nn

from transom.equations.biases import Bias, DistanceBias, RelativeBias
from transom.equations.positions import (
    alibi_slopes,
    apply_rotary,
    apply_rotary_halves,
    distance_buckets,
    rotary_angles,
    sinusoidal,
)
from transom.equations.rotary_scaling import RotaryScaling
from transom.layers.checks import check_positive, lookup
from transom.layers.position_encoding import (
    Heads,
    NoPositions,
    PositionIds,
    Positions,
    PositionSizes,
    PositionTable,
    Vectors,
)
from transom.names import Misfit


class Sinusoidal(Positions):
    """x + sin or cos of the position, at wavelengths from 2π to base · 2π (Vaswani et al. 2017, section 3.5).

    It has no parameters and no longest sequence.

    halves   all sines first, then all cosines, as in Marian and OpenNMT, not in turn
    offset   the number of the first position
    """

    enters = "the embedding"

    def __init__(self, d_model: int, base: float = 10_000.0, halves: bool = False, offset: int = 0) -> None:
        super().__init__(d_model=d_model)
        self.d_model, self.base, self.offset = d_model, base, offset
        self.waves = PositionTable(partial(sinusoidal, d_model=d_model, base=base, halves=halves))

    def embed(self, x: Vectors, at: PositionIds) -> Vectors:
        return x + self.waves.lookup(at + self.offset, x.dtype).to(x.dtype)


class Learned(Positions):
    """x + a learned vector of its position, up to `longest` of them (Gehring et al. 2017, section 3.1).

    offset   the row of the first position: RoBERTa and BART leave the rows before it unused
    """

    enters = "the embedding"

    def __init__(self, d_model: int, longest: int, offset: int = 0) -> None:
        super().__init__(d_model=d_model)
        check_positive(longest=longest)
        self.longest, self.offset = longest, offset
        self.vectors = nn.Parameter(torch.empty(offset + longest, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.vectors, std=self.vectors.shape[1] ** -0.5)

    def embed(self, x: Vectors, at: PositionIds) -> Vectors:
        message = (
            f"learned positions go from 0 to {self.longest - 1}, but positions {{lowest}} to {{highest}} came;"
            " cut the sequence, or build Learned with a larger longest"
        )
        return x + lookup(self.vectors[self.offset :], at, message)


class Rotary(Positions):
    """Queries and keys rotated pair by pair, so that a score depends on the distance alone (Su et al. 2021).

    halves    pair number i with number i + d_head/2, as Llama-like checkpoints do, not with its neighbour
    scaling   other frequencies, for contexts longer than those of training
    """

    enters = "attention"

    def __init__(
        self, d_head: int, base: float = 10_000.0, halves: bool = False, scaling: RotaryScaling | None = None
    ) -> None:
        super().__init__(d_head=d_head)
        if d_head % 2:
            raise Misfit(f"rotary positions rotate pairs, but d_head={d_head} is odd; try d_head={d_head + 1}")
        self.d_head, self.base, self.scaling = d_head, base, scaling
        self.magnitude = 1.0 if scaling is None else scaling.magnitude
        self.angles = PositionTable(partial(rotary_angles, d_head=d_head, base=base, scaling=scaling))
        self.apply_angles = apply_rotary_halves if halves else apply_rotary

    def rotate(self, x: Heads, at: PositionIds) -> Heads:
        rotated = self.apply_angles(x, self.angles.lookup(at, x.dtype)[:, None])
        return rotated if self.magnitude == 1.0 else rotated * self.magnitude


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


class RelativeBuckets(Positions):
    """score + a learned number of its head and of the bucket of its distance, as in T5 (Raffel et al. 2020, 2.1).

    Several attentions that get the same part share its table.

    buckets    how many numbers each head has
    farthest   the distance from which on all are in one bucket
    causal     all buckets are for keys before the query
    """

    enters = "attention"

    def __init__(self, heads: int, buckets: int = 32, farthest: int = 128, causal: bool = False) -> None:
        super().__init__(heads=heads)
        least = 2 if causal else 4
        if buckets < least or farthest <= buckets // least:
            raise Misfit(
                f"relative buckets need {least} buckets or more, and farthest above buckets/{least}, but got"
                f" buckets={buckets} and farthest={farthest}; T5 has 32 and 128"
            )
        self.buckets, self.farthest, self.causal = buckets, farthest, causal
        with torch.device("cpu"):  # so that it has its values in a model on the meta device too
            distances = torch.arange(-farthest, farthest + 1)
            self.bucket_of_distance = distance_buckets(distances, buckets, farthest, causal)
        self.table = nn.Parameter(torch.empty(heads, buckets))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=0.02)

    def bias(self, device: torch.device) -> Bias:
        self.bucket_of_distance = self.bucket_of_distance.to(device)
        return RelativeBias(self.table[:, self.bucket_of_distance])


POSITIONS: dict[str, type[Positions]] = {
    "none": NoPositions,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": Alibi,
    "relative": Relative,
    "buckets": RelativeBuckets,
}
