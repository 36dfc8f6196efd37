"""Position formulas: where a token stands, as numbers."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.equations.rotary_scaling import RotaryScaling


def sinusoidal(
    positions: Int[Tensor, "*any"],
    d_model: int,
    base: float = 10_000.0,
    dtype: torch.dtype | None = None,
    halves: bool = False,
) -> Float[Tensor, "*any {d_model}"]:
    """sin and cos of the position at d_model/2 wavelengths, interleaved (Vaswani et al. 2017, section 3.5).

    With `halves` all sines come first, then all cosines. Computed in float64 and rounded to `dtype`, by default that of
    torch.
    """
    angles = rotary_phases(positions, d_model, base)
    if halves:
        waves = torch.cat([angles.sin(), angles.cos()], dim=-1)
    else:
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
    return waves[..., :d_model].to(positions.device, dtype or torch.get_default_dtype())


def rotary_angles(
    positions: Int[Tensor, "*any"],
    d_head: int,
    base: float = 10_000.0,
    dtype: torch.dtype | None = None,
    scaling: RotaryScaling | None = None,
) -> Float[Tensor, "*any pairs"]:
    """m·θ_i for position m and pair i, θ_i = base^(−2i/d_head), less whole turns (Su et al. 2021, equation 15).

    A `scaling` changes the θ_i. Computed in float64 and rounded to `dtype`, by default that of torch.
    """
    angles = rotary_phases(positions, d_head, base, scaling).remainder(2.0 * math.pi)
    return angles.to(positions.device, dtype or torch.get_default_dtype())


def rotary_phases(
    positions: Int[Tensor, "*any"], width: int, base: float, scaling: RotaryScaling | None = None
) -> Float[Tensor, "*any pairs"]:
    """position · base^(−2i/width), in float64: near 100,000 radians, neighbouring float32 numbers differ by 0.008."""
    even = torch.arange(0, width, 2, dtype=torch.float64)
    theta = base ** (-even / width)
    return positions.cpu()[..., None].double() * (theta if scaling is None else scaling.frequencies(theta, base))


def apply_rotary(
    x: Float[Tensor, "... token d_head"], angles: Float[Tensor, "... token pairs"]
) -> Float[Tensor, "... token d_head"]:
    """Each pair of neighbouring numbers rotated by its angle, so that q · k depends on the distance only.

    (Su et al. 2021, equation 34: the pairs are (x₁, x₂), (x₃, x₄), ….)
    """
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)


def apply_rotary_halves(
    x: Float[Tensor, "... token d_head"], angles: Float[Tensor, "... token pairs"]
) -> Float[Tensor, "... token d_head"]:
    """The same rotation with number i paired to number i + d_head/2: the layout of Llama-like checkpoints."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def alibi_slopes(heads: int) -> Float[Tensor, " {heads}"]:
    """One slope per head, a geometric series from 2^(−8/heads) (Press et al. 2022, section 3).

    If the number of heads is not a power of two, the authors add every second slope of the next power.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    extra = [2.0 ** (-8.0 * (i + 1) / (2 * power)) for i in range(0, 2 * (heads - power), 2)]
    return torch.tensor(slopes + extra)


def clipped_distance(
    queries: Int[Tensor, "rows 1"], keys: Int[Tensor, "1 columns"], reach: int
) -> Int[Tensor, "rows columns"]:
    """key − query clipped to [−reach, reach] and moved to start at 0 (Shaw et al. 2018, section 3.2)."""
    return (keys - queries).clamp(-reach, reach) + reach


def distance_buckets(distances: Int[Tensor, "*any"], buckets: int, farthest: int, causal: bool) -> Int[Tensor, "*any"]:
    """The bucket of each distance key − query: near ones have their own, farther ones share logarithmically wider ones.

    From `farthest` on there is one bucket. Under the causal mask all buckets are for the past; otherwise half of them
    are for keys after the query (Raffel et al. 2020, section 2.1).
    """
    later = torch.zeros_like(distances)
    if not causal:
        buckets //= 2
        later = (distances > 0).long() * buckets
    away = -distances.clamp(max=0) if causal else distances.abs()
    exact = buckets // 2
    # In float32, as in the models that were trained with it: it rounds some distances down where a bucket begins.
    logarithms = (away.clamp(min=1).float() / exact).log() / math.log(farthest / exact)
    wider = exact + (logarithms * (buckets - exact)).long()
    return later + torch.where(away < exact, away, wider.clamp(max=buckets - 1))
