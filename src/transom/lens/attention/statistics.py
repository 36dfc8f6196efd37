"""Exact statistics of all weights of an attention, computed in row blocks: memory is O(length), never n × n."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels import row_blocks, weight_stats
from transom.lens.attention.indexing import first_position
from transom.lens.attention.record import AttentionRecord


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one pass over the weights computes."""

    entropy: Float[Tensor, "batch heads queries"]
    peak: Float[Tensor, "batch heads queries"]
    distance: Float[Tensor, "batch heads queries"]
    received: Float[Tensor, "batch heads keys"]


@dataclass(frozen=True, eq=False)
class TopKeys:
    """The keys with the largest weights of each row, the largest first; −1 and weight 0 if a row sees fewer keys."""

    weights: Float[Tensor, "batch heads queries any"]
    keys: Int[Tensor, "batch heads queries any"]

    @property
    def mass(self) -> Float[Tensor, "batch heads queries"]:
        """How much of each row's attention the listed keys cover."""
        return self.weights.sum(dim=-1)


def compute_statistics(record: AttentionRecord) -> Statistics:
    """Entropy, peak and mean distance of each row, and what each key received."""
    problem, start = record.problem, first_position(record.problem)
    if record.uses_native():
        native = weight_stats.compute_stats(problem, record.lse, 0, start)
        return Statistics(native.entropy, native.peak, native.distance, native.received)
    batch, heads, _, keys = problem.shape
    entropy, peak, distance = (torch.zeros_like(record.lse) for _ in range(3))
    # Summed in float64: many small weights meet in one column.
    received = record.lse.new_zeros((batch, heads, keys), dtype=torch.float64)
    for block in row_blocks(problem):
        if block.shape[3] == 0:
            continue
        rows = (block.batch, block.heads, block.rows)
        logs = record.log_weights(block)
        weights = logs.exp()
        peak[rows] = weights.amax(dim=-1)
        received[block.batch, block.heads, block.columns] += weights.sum(dim=-2)
        away = (block.key_positions() - block.query_positions(start)).abs().to(weights.dtype)
        distance[rows] = torch.linalg.vecdot(weights, away)
        # A masked key has log-weight −∞ and weight 0: any finite number instead of −∞ gives the 0 that is meant.
        entropy[rows] = -torch.linalg.vecdot(weights, logs.clamp_min_(-1e30)).clamp_max_(0.0)
    if start is None:  # the queries have no positions among the keys
        distance.fill_(torch.nan)
    return Statistics(entropy, peak, distance, received.to(record.lse.dtype))


def top_keys(record: AttentionRecord, k: int) -> TopKeys:
    """The k keys with the largest weights of each row; any of equal ones."""
    problem = record.problem
    k = min(k, problem.shape[3])
    if k <= weight_stats.MAX_TOP_K and record.uses_native():
        native = weight_stats.compute_stats(problem, record.lse, k, first_position(problem))
        return TopKeys(native.top_weights, native.top_keys)
    logs = record.lse.new_full((*record.lse.shape, k), -torch.inf)
    keys = torch.full(logs.shape, -1, dtype=torch.long, device=logs.device)
    for block in row_blocks(problem):
        count = min(k, block.shape[3])
        if count == 0:
            continue
        rows = (block.batch, block.heads, block.rows, slice(0, count))
        logs[rows], columns = record.log_weights(block).topk(count, dim=-1)
        keys[rows] = columns + block.key_positions()[0, 0]
    return TopKeys(logs.exp(), keys.masked_fill(logs == -torch.inf, -1))
