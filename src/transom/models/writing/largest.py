"""The k largest of many numbers."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from transom.kernels.packed import Ahead

BLOCK = 64
FEW = 2**15  # numbers among which a plain search is quicker
Found = tuple[Float[Tensor, "batch any"], Int[Tensor, "batch any"]]


def largest(x: Float[Tensor, "batch token vocabulary"], plus: Float[Tensor, "batch token"], k: int) -> Found:
    """The k largest of x + plus for each batch entry, largest first, and where they stand: token · vocabulary + number.

    They can only lie in the k blocks with the largest maxima, so only those are sorted through: `topk` moves every
    number that it looks at, a maximum only reads it.
    """
    batch, token, vocabulary = x.shape
    blocks = vocabulary // BLOCK
    if blocks * token < 4 * k or x.numel() < FEW:
        flat = (x + plus[..., None]).flatten(1)
        return flat.topk(min(k, flat.shape[1]))
    maxima = x[..., : blocks * BLOCK].unflatten(2, (blocks, BLOCK)).amax(dim=3) + plus[..., None]
    chosen = maxima.flatten(1).topk(k, sorted=False).indices
    rows = chosen // blocks
    first = rows * vocabulary + (chosen % blocks) * BLOCK
    places = (first[..., None] + torch.arange(BLOCK, device=x.device)).flatten(1)
    found = x.flatten(1).gather(1, places) + plus.gather(1, rows).repeat_interleave(BLOCK, dim=1)
    rest = torch.arange(blocks * BLOCK, vocabulary, device=x.device)
    if len(rest):
        behind = (torch.arange(token, device=x.device)[:, None] * vocabulary + rest).flatten()
        places = torch.cat([places, behind.expand(batch, -1)], dim=1)
        found = torch.cat([found, (x[..., blocks * BLOCK :] + plus[..., None]).flatten(1)], dim=1)
    values, order = found.topk(k)
    return values, places.gather(1, order)


def continued(logits: Float[Tensor, "rows vocabulary"] | Ahead, scores: Float[Tensor, "batch token"], k: int) -> Found:
    """The k best of score + log-probability for each batch entry, as `largest` gives them."""
    if isinstance(logits, Ahead):
        return logits.continued(scores, k)
    return filled(logits.float().log_softmax(dim=1), scores, k)


def filled(x: Float[Tensor, "rows vocabulary"], plus: Float[Tensor, "batch token"], k: int) -> Found:
    """`largest`, filled up with −∞ where the vocabulary is smaller than that."""
    values, places = largest(x.view(*plus.shape, -1), plus, k)
    missing = k - values.shape[1]
    return (pad(values, (0, missing), value=-torch.inf), pad(places, (0, missing))) if missing else (values, places)


def likeliest(logits: Float[Tensor, "batch vocabulary"] | Ahead) -> Int[Tensor, " batch"]:
    """The largest of each row, the first where several are."""
    if isinstance(logits, Ahead):
        return logits.likeliest()
    blocks = logits.shape[1] // BLOCK
    if logits.numel() < FEW or blocks < 4:
        return logits.argmax(dim=1)
    parts = logits[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    block = parts.amax(dim=2).argmax(dim=1)
    best = parts[torch.arange(len(logits), device=logits.device), block]
    if blocks * BLOCK < logits.shape[1]:
        best = torch.cat([best, logits[:, blocks * BLOCK :]], dim=1)
    place = best.argmax(dim=1)
    return torch.where(place < BLOCK, block * BLOCK + place, (blocks - 1) * BLOCK + place)


def whole(logits: Float[Tensor, "batch vocabulary"] | Ahead) -> Float[Tensor, "batch vocabulary"]:
    """All logits, worked out by now."""
    return logits.whole() if isinstance(logits, Ahead) else logits
