"""Weights of attention in blocks and windows of a long text: asked by values, a few of many keys at a time.

A row that sees few keys can be asked for several at once: for one of each set of keys of which no row sees two. First
whole blocks of keys are asked for, which says which blocks each row sees; then blocks that no row sees together share
their questions. Each answer is one weight, with the model's own bits, and no tensor of queries × keys is made.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.equations.sparse_bias import SparseBias
from transom.lens.capture.captured_attention import CapturedAttention, make_problem

Ask = Callable[[Float[Tensor, "keys any"]], Float[Tensor, "batch heads queries any"]]
MOST_EDGES = 2**26  # weights that are not 0
MOST_BLOCKS = 2**28  # blocks that rows may see
AT_ONCE = 2**22  # numbers that are multiplied at one time
TOO_MANY = "its {} × {} weights are too many; watch a shorter text"
ROW_SUM = 1e-4  # how far a row's sum may be from 1


@dataclass(frozen=True, eq=False)
class SparseWeights:
    """The weights that are not 0, row after row; rows are (batch, heads, queries), flattened."""

    shape: tuple[int, int, int, int]
    rows: Int[Tensor, " any"]
    keys: Int[Tensor, " any"]
    weights: Float[Tensor, " any"]

    @property
    def is_row_stochastic(self) -> bool:
        """Whether rows sum to 1 and no number is negative; fully masked rows may be 0."""
        ones = self.weights.new_ones((*self.shape[:2], self.shape[3], 1))
        sums = self.multiply(ones)
        fits = ((sums - 1).abs() <= ROW_SUM) | (sums == 0)
        return bool(fits.all()) and bool((sums > 0).any()) and not bool((self.weights < 0).any())

    def multiply(self, V: Float[Tensor, "batch heads keys d_value"]) -> Float[Tensor, "batch heads queries d_value"]:
        """The weighted sums of values, in float64."""
        batch, heads, queries, keys = self.shape
        values, step = V.reshape(-1, V.shape[3]).double(), max(1, AT_ONCE // max(1, V.shape[3]))
        sums = values.new_zeros((batch * heads * queries, V.shape[3]))
        for first in range(0, len(self.rows), step):
            part = slice(first, first + step)
            rows = self.rows[part]
            chosen = values[rows // queries * keys + self.keys[part]]
            sums.index_add_(0, rows, chosen * self.weights[part, None].double())
        return sums.reshape(batch, heads, queries, -1)

    def to_captured(self, V: Tensor, output: Tensor, unproved: str) -> CapturedAttention:
        """The attention as a problem without queries and keys, whose bias is the logarithm of the weights."""
        batch, heads, queries, keys = self.shape
        counts = torch.bincount(self.rows, minlength=batch * heads * queries)
        lse = torch.zeros(self.shape[:3], device=V.device).masked_fill(counts.reshape(self.shape[:3]) == 0, -torch.inf)
        bias = SparseBias(self.weights.log(), self.keys, counts.cumsum(0))
        Q, K = V.new_zeros((batch, heads, queries, 0)), V.new_zeros((batch, heads, keys, 0))
        return CapturedAttention(make_problem(Q, K, V, bias=bias, scale=1.0), output, lse, unproved=unproved)


def ask_sparse_weights(ask: Ask, shape: tuple[int, int, int, int], width: int, like: Tensor) -> SparseWeights | str:
    """The weights of an attention of this shape, or why there are too many.

    ask     gives the weighted sums of (keys, channels) values, for at most `width` channels
    like    a tensor of the dtype and device of the values
    """
    batch, heads, queries, keys = shape
    size = 1 << max(0, round(keys**0.5).bit_length() - 1)  # of a block of keys
    blocks, rows = -(-keys // size), batch * heads * queries
    if rows * blocks > MOST_BLOCKS:
        return TOO_MANY.format(queries, keys)
    block_of = torch.arange(keys, device=like.device) // size
    seen = like.new_zeros((rows, blocks), dtype=torch.bool)
    for first in range(0, blocks, width):
        some = torch.arange(first, min(first + width, blocks), device=like.device)
        answer = ask((block_of[:, None] == some).to(like.dtype))
        seen[:, first : first + width] = answer.reshape(rows, -1) != 0
    parts, found = [], 0
    colours = colour_blocks(seen)
    offset_of = torch.arange(keys, device=like.device) - block_of * size
    for colour in range(int(colours.max()) + 1):
        members = (colours == colour).nonzero()[:, 0]
        owner = members[seen[:, members].to(torch.uint8).argmax(dim=1)]  # the one block of them that a row sees
        in_colour = torch.isin(block_of, members)[:, None]
        for first in range(0, size, width):
            some = torch.arange(first, min(first + width, size), device=like.device)
            answer = ask(((offset_of[:, None] == some) & in_colour).to(like.dtype)).reshape(rows, -1)
            row, channel = answer.nonzero(as_tuple=True)
            parts.append((row, owner[row] * size + first + channel, answer[row, channel]))
            found += len(row)
            if found > MOST_EDGES:
                return TOO_MANY.format(queries, keys)
    row, key, weight = (torch.cat(some) for some in zip(*parts, strict=True))
    order = torch.argsort(row * keys + key)
    return SparseWeights(shape, row[order], key[order], weight[order])


def colour_blocks(seen: Bool[Tensor, "rows any"]) -> Int[Tensor, " any"]:
    """A colour for each block, so that no row sees two blocks of one colour."""
    blocks = seen.shape[1]
    together = seen.new_zeros((blocks, blocks))
    step = max(1, AT_ONCE // blocks)
    for first in range(0, len(seen), step):
        part = seen[first : first + step].float()
        together |= (part.mT @ part) > 0
    colours: list[int] = []
    neighbours = together.tolist()
    for block in range(blocks):
        taken = {colours[other] for other in range(block) if neighbours[block][other]}
        colours.append(next(colour for colour in range(block + 1) if colour not in taken))
    return torch.tensor(colours, device=seen.device)
