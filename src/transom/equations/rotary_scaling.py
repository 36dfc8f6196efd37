"""Rotary frequencies for contexts longer than those of training: how each family stretches its wavelengths.

A scaling is a small frozen part of a config; `frequencies` is its equation.
"""

import math

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor

from transom.names import Misfit

Frequencies = Float[Tensor, " pairs"]


class RotaryScaling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Frequencies of rotary positions, changed; `factor` says how many times longer the context becomes."""

    factor: float

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, bool) or (value > 0 and math.isfinite(value))):
                raise Misfit(f"{name} of a rotary scaling must be a number above 0, but got {value!r}; give another")

    @property
    def magnitude(self) -> float:
        """What queries and keys are multiplied by."""
        return 1.0

    def frequencies(self, theta: Frequencies, base: float) -> Frequencies:
        """The frequencies in place of θ_i = base^(−2i/d_head), in radians per token."""
        raise NotImplementedError


class LinearScaling(RotaryScaling, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="linear"):
    """θ_i / factor: positions are squeezed into the range of training (Chen et al. 2023, equation 4)."""

    def frequencies(self, theta: Frequencies, base: float) -> Frequencies:
        return theta / self.factor


class Llama3Scaling(RotaryScaling, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="llama3"):
    """Long waves are stretched, short ones stay, and those between are mixed (Llama Team 2024, section 3.4).

    original_longest             tokens of the longest sequence before
    low_factor, high_factor      waves longer than original_longest / low_factor are stretched; those shorter than
                                 original_longest / high_factor stay
    """

    original_longest: int
    low_factor: float = 1.0
    high_factor: float = 4.0

    def frequencies(self, theta: Frequencies, base: float) -> Frequencies:
        turns = self.original_longest * theta / (2.0 * math.pi)  # of each pair within the original length
        share = ((turns - self.low_factor) / (self.high_factor - self.low_factor)).clamp(0.0, 1.0)
        return theta * (share + (1.0 - share) / self.factor)


class YarnScaling(RotaryScaling, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="yarn"):
    """Frequencies mixed by how often a pair turns within the original length (Peng et al. 2023, equations 22 and 23).

    fast, slow          pairs that turn more often than `fast` stay; less often than `slow`, they are stretched
    attention_factor    of queries and of keys; by default 0.1 ln(factor) + 1 (equation 25)
    truncate            the bounds between the pairs are rounded to whole ones
    """

    original_longest: int
    fast: float = 32.0
    slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    @property
    def magnitude(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        return 1.0 if self.factor <= 1.0 else 0.1 * math.log(self.factor) + 1.0

    def frequencies(self, theta: Frequencies, base: float) -> Frequencies:
        width = 2 * len(theta)
        low, high = (
            width * math.log(self.original_longest / (turns * 2.0 * math.pi)) / (2.0 * math.log(base))
            for turns in (self.fast, self.slow)
        )
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        pairs = torch.arange(len(theta), dtype=theta.dtype)
        stretched = ((pairs - low) / (high - low or 0.001)).clamp(0.0, 1.0)
        return theta * (1.0 - stretched + stretched / self.factor)
