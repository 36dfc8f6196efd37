"""Dropout that can be repeated: whether a weight is kept depends only on a seed and the indices of the weight.

So the backward pass, any split into blocks and any device give the same result, nothing has to be stored, and a picture
of a training step can be checked.
"""

from jaxtyping import Bool, Int
from torch import Tensor

from transom.equations.region import Region, index_to_tensor

LOW_32 = 0xFFFFFFFF


def mix_bits(x: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """A hash of 32 bits, in two multiply–xorshift rounds: neighbouring numbers get unrelated hashes."""
    x = (x ^ (x >> 16)) * 0x45D9F3B & LOW_32
    x = (x ^ (x >> 15)) * 0x2C1B3C6D & LOW_32
    return x ^ (x >> 16)


def keep_mask(seed: int, region: Region, dropout: float) -> Bool[Tensor, "batch heads rows columns"]:
    """True with probability 1 − dropout, independently for each weight of the region."""
    sizes = zip(region.indices, region.full_shape, strict=True)
    batch, heads, rows, columns = (index_to_tensor(index, size, region.device) for index, size in sizes)
    row_numbers = (batch[:, None, None] * region.full_shape[1] + heads[:, None]) * region.full_shape[2] + rows
    row_hashes = mix_bits(mix_bits((row_numbers + seed) & LOW_32) + (row_numbers >> 32) + (seed >> 32))
    column_hashes = mix_bits(columns + 0x9E3779B9 & LOW_32)
    return mix_bits(row_hashes[..., None] ^ column_hashes) >= int(dropout * (LOW_32 + 1))
