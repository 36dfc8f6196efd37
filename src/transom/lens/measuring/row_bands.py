"""The weights of one sequence and chosen heads, a run of rows at a time: what rollout, differences and words go by."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.blocks import Block
from transom.kernels.tiles import BAND_NUMBERS
from transom.lens.asked import Asked, inside, places
from transom.lens.sight import Sight


def row_bands(
    sight: Sight, batch: int, heads: Asked = None
) -> Iterator[tuple[Block, Float[Tensor, "heads rows columns"]]]:
    """Each run of rows with the keys they may look at, and its weights."""
    problem = sight.problem
    entry = inside(batch, "batch", problem.whole[0])
    chosen = places(heads, "heads", problem.whole[1], problem.Q.device)
    whole = problem.block().narrowed(batch=slice(entry, entry + 1), heads=chosen)
    for band in blocks(sight, whole):
        yield band, sight.block_weights(band)[0]


def blocks(sight: Sight, whole: Block) -> Iterator[Block]:
    """A block in runs of rows of about BAND_NUMBERS weights each, without keys that a mask rules out by position."""
    problem = sight.problem
    queries, keys = problem.whole[2:]
    at_once = max(1, BAND_NUMBERS // max(1, keys * whole.shape[1]))
    for first in range(0, queries, at_once):
        last = min(first + at_once, queries)
        seen = (0, keys) if problem.mask is None else problem.mask.span((first, last), problem.whole)
        if seen[1] > seen[0]:
            yield whole.narrowed(rows=slice(first, last), columns=slice(*seen))


def mean_weights(sight: Sight, batch: int, heads: Asked) -> Iterator[tuple[Block, Float[Tensor, "rows columns"]]]:
    """The same, averaged over the heads, in float64."""
    with torch.no_grad():
        for band, weights in row_bands(sight, batch, heads):
            yield band, weights.double().mean(dim=0)
