"""Exact numbers about all the weights of an attention, gathered band by band: O(length) is kept, n × n never exists."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels import looking
from transom.kernels.tiles import bands
from transom.lens.kept import Kept
from transom.lens.positions import first_position


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one pass over the weights tells."""

    entropy: Float[Tensor, "batch heads queries"]
    peak: Float[Tensor, "batch heads queries"]
    distance: Float[Tensor, "batch heads queries"]
    received: Float[Tensor, "batch heads keys"]


@dataclass(frozen=True, eq=False)
class Top:
    """The strongest keys of each row, strongest first; −1 and weight 0 where a row may look at fewer."""

    weights: Float[Tensor, "batch heads queries any"]
    keys: Int[Tensor, "batch heads queries any"]
    mass: Float[Tensor, "batch heads queries"]  # how much of each row's attention the listed keys cover


def gathered(kept: Kept) -> Statistics:
    """Entropy, peak and mean distance of each row, and what each key received."""
    if kept.zeroed is None and looking.looks(kept.problem, kept.lse):
        found = looking.statistics(kept.problem, kept.lse, 0, first_position(kept.problem))
        return Statistics(found.entropy, found.peak, found.distance, found.received)
    batch, heads, queries, keys = kept.problem.whole
    entropy, peak, distance = (kept.lse.new_zeros((batch, heads, queries)) for _ in range(3))
    # Summed in float64: many small weights meet in one column.
    received = kept.lse.new_zeros((batch, heads, keys), dtype=torch.float64)
    start = first_position(kept.problem)
    for band in bands(kept.problem):
        if band.shape[3] == 0:
            continue
        rows = (band.batch, band.heads, band.rows)
        logs = kept.log_weights(band)
        weights = logs.exp()
        peak[rows] = weights.amax(dim=-1)
        received[band.batch, band.heads, band.columns] += weights.sum(dim=-2)
        away = (band.key_positions() - band.query_positions(start)).abs().to(weights.dtype)
        distance[rows] = torch.linalg.vecdot(weights, away)
        # A masked key has log-weight −∞ and weight 0: any finite number in its place gives the 0 that is meant.
        entropy[rows] = -torch.linalg.vecdot(weights, logs.clamp_min_(-1e30)).clamp_max_(0.0)
    if start is None:  # the queries stand nowhere among the keys
        distance.fill_(torch.nan)
    return Statistics(entropy, peak, distance, received.to(kept.lse.dtype))


def strongest(kept: Kept, k: int) -> Top:
    """The k strongest keys of each row; of equal ones, any."""
    batch, heads, queries, keys = kept.problem.whole
    k = min(k, keys)
    if k <= looking.MOST and kept.zeroed is None and looking.looks(kept.problem, kept.lse):
        found = looking.statistics(kept.problem, kept.lse, k, first_position(kept.problem))
        return Top(found.top_weights, found.top_keys, found.top_weights.sum(dim=-1))
    logs_found = kept.lse.new_full((batch, heads, queries, k), -torch.inf)
    places = torch.full((batch, heads, queries, k), -1, dtype=torch.long, device=logs_found.device)
    for band in bands(kept.problem):
        found = min(k, band.shape[3])
        logs, at = kept.log_weights(band).topk(found, dim=-1)
        rows = (band.batch, band.heads, band.rows, slice(0, found))
        logs_found[rows] = logs
        places[rows] = at + int(band.key_positions()[0, 0]) if found else at
    weights = logs_found.exp()
    return Top(weights, places.masked_fill(logs_found == -torch.inf, -1), weights.sum(dim=-1))


def first_of(top: Top, k: int) -> Top:
    """The first k of more."""
    weights = top.weights[..., :k]
    return Top(weights, top.keys[..., :k], weights.sum(dim=-1))
