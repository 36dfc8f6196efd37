"""Dropout that can be asked again: whether a weight is kept follows from a seed and its place alone.

The same places give the same answer in the backward pass, in any cut into blocks and on any device, so nothing has
to be stored and a picture of a training step can be checked.
"""

from jaxtyping import Bool, Int
from torch import Tensor

from transom.equations.blocks import Block, numbers

LOW_32 = 0xFFFFFFFF


def mixed(x: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """32 bits stirred so that neighbouring numbers have nothing in common (two multiply–xorshift rounds)."""
    x = (x ^ (x >> 16)) * 0x45D9F3B & LOW_32
    x = (x ^ (x >> 15)) * 0x2C1B3C6D & LOW_32
    return x ^ (x >> 16)


def kept(seed: int, block: Block, dropout: float) -> Bool[Tensor, "batch heads rows columns"]:
    """True with probability 1 − dropout, for each place of the block on its own."""
    batch, heads, queries, keys = block.whole
    lines = numbers(block.batch, batch, block.device)[:, None, None] * heads
    lines = (lines + numbers(block.heads, heads, block.device)[:, None]) * queries
    lines = lines + numbers(block.rows, queries, block.device)
    of_lines = mixed(mixed((lines + seed) & LOW_32) + (lines >> 32) + (seed >> 32))
    of_columns = mixed(numbers(block.columns, keys, block.device) + 0x9E3779B9 & LOW_32)
    return mixed(of_lines[..., None] ^ of_columns) >= int(dropout * (LOW_32 + 1))
