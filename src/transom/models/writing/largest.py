"""The k largest of many numbers."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 128


def largest(
    x: Float[Tensor, "batch vocabulary"], k: int
) -> tuple[Float[Tensor, "batch any"], Int[Tensor, "batch any"]]:
    """The k largest numbers of each row, largest first, and where they stand.

    They can only lie in the k blocks with the largest maxima, so only those are sorted through: `topk` moves every
    number of a row, a maximum only reads it.
    """
    blocks = x.shape[1] // BLOCK
    if blocks < 4 * k:
        return x.topk(min(k, x.shape[1]))
    parts = x[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen = parts.amax(dim=2).topk(k).indices
    found = parts.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1)
    rest = x[:, blocks * BLOCK :]
    values, places = torch.cat([found, rest], dim=1).topk(k)
    block = chosen.gather(1, (places // BLOCK).clamp(max=k - 1))
    in_rest = places - k * BLOCK
    return values, torch.where(in_rest < 0, block * BLOCK + places % BLOCK, blocks * BLOCK + in_rest)
