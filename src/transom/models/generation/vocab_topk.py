"""The best tokens of each row's logits: the largest, the k largest, the best continuations of beams."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from transom.kernels.packed_linear import LazyLogits

BLOCK = 64
FEW = 2**15  # numbers; among fewer, a plain search is faster
TopK = tuple[Float[Tensor, "batch any"], Int[Tensor, "batch any"]]


def topk_sum(x: Float[Tensor, "batch token vocabulary"], plus: Float[Tensor, "batch token"], k: int) -> TopK:
    """The k largest of x + plus for each batch entry, largest first, and their indices: token · vocabulary + number.

    Only the k blocks with the largest maxima can hold them, so only those are searched: `topk` moves every number that
    it looks at, a maximum only reads it.
    """
    batch, token, vocabulary = x.shape
    blocks = vocabulary // BLOCK
    if blocks * token < 4 * k or x.numel() < FEW:
        sums = (x + plus[..., None]).flatten(1)
        return sums.topk(min(k, sums.shape[1]))
    maxima = x[..., : blocks * BLOCK].unflatten(2, (blocks, BLOCK)).amax(dim=3) + plus[..., None]
    best_blocks = maxima.flatten(1).topk(k, sorted=False).indices
    rows = best_blocks // blocks
    starts = rows * vocabulary + (best_blocks % blocks) * BLOCK
    indices = (starts[..., None] + torch.arange(BLOCK, device=x.device)).flatten(1)
    sums = x.flatten(1).gather(1, indices) + plus.gather(1, rows).repeat_interleave(BLOCK, dim=1)
    tail = torch.arange(blocks * BLOCK, vocabulary, device=x.device)  # what fills no block
    if len(tail):
        tail_indices = (torch.arange(token, device=x.device)[:, None] * vocabulary + tail).flatten()
        indices = torch.cat([indices, tail_indices.expand(batch, -1)], dim=1)
        sums = torch.cat([sums, (x[..., blocks * BLOCK :] + plus[..., None]).flatten(1)], dim=1)
    values, order = sums.topk(k)
    return values, indices.gather(1, order)


def best_continuations(
    logits: Float[Tensor, "rows vocabulary"] | LazyLogits, scores: Float[Tensor, "batch token"], k: int
) -> TopK:
    """The k best of score + log-probability for each batch entry, and their indices as in `topk_sum`."""
    if isinstance(logits, LazyLogits):
        return logits.best_continuations(scores, k)
    return pad_topk(logits.float().log_softmax(dim=1), scores, k)


def pad_topk(x: Float[Tensor, "rows vocabulary"], plus: Float[Tensor, "batch token"], k: int) -> TopK:
    """`topk_sum`, filled up with −∞ if there are fewer than k."""
    values, indices = topk_sum(x.view(*plus.shape, -1), plus, k)
    missing = k - values.shape[1]
    return (pad(values, (0, missing), value=-torch.inf), pad(indices, (0, missing))) if missing else (values, indices)


def argmax(logits: Float[Tensor, "batch vocabulary"] | LazyLogits) -> Int[Tensor, " batch"]:
    """The largest of each row, the first of equal ones."""
    if isinstance(logits, LazyLogits):
        return logits.argmax()
    blocks = logits.shape[1] // BLOCK
    if logits.numel() < FEW or blocks < 4:
        return logits.argmax(dim=1)
    parts = logits[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    block = parts.amax(dim=2).argmax(dim=1)
    numbers = parts[torch.arange(len(logits), device=logits.device), block]
    if blocks * BLOCK < logits.shape[1]:
        numbers = torch.cat([numbers, logits[:, blocks * BLOCK :]], dim=1)
    index = numbers.argmax(dim=1)
    return torch.where(index < BLOCK, block * BLOCK + index, (blocks - 1) * BLOCK + index)


def compute_logits(logits: Float[Tensor, "batch vocabulary"] | LazyLogits) -> Float[Tensor, "batch vocabulary"]:
    """All logits, computed now if they were not yet."""
    return logits.compute() if isinstance(logits, LazyLogits) else logits
