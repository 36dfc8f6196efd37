"""A head's influence as a small picture: the changes of its edges, pooled exactly into cells, a few rows at a time."""

from math import ceil

import torch
from jaxtyping import Float
from torch import Tensor

from transom.kernels import BLOCK_SCORES, influence_stats
from transom.lens.attention.pooled_map import (
    BatchHead,
    PooledMap,
    Span,
    cell_areas,
    chunks,
    parse_map_request,
    pool_values,
)
from transom.lens.attribution.edge_changes import EdgeChanges


def pool_changes(
    changes: EdgeChanges, head: int, cells: int, pool: str, window: tuple[slice | None, slice | None], batch: int
) -> PooledMap:
    """The map of one head over a window of rows and keys; a cell's maximum is its largest change, with its sign."""
    request = parse_map_request(changes.sight.shape, head, cells, pool, window, batch)
    maxima, sums = pool_window(changes, (request.batch, request.head), request.spans, request.cell)
    values = maxima if pool == "max" else sums
    if pool == "mean":
        values /= cell_areas(request.spans, request.cell, values)
    return PooledMap(values, *request.spans, request.cell, pool)


def pool_window(
    changes: EdgeChanges, batch_head: BatchHead, window: tuple[Span, Span], cell: tuple[int, int]
) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, "rows columns"]]:
    """The largest change of each cell of a window by size, with its sign, and the sum of the changes."""
    if changes.native is not None:
        return influence_stats.pool_window(changes.sight.problem, changes.native, batch_head, window, cell)
    (rows, keys), (tall, wide) = window, cell
    shape = (ceil((rows[1] - rows[0]) / tall), ceil((keys[1] - keys[0]) / wide))
    maxima, sums = (changes.GO.new_zeros(shape) for _ in range(2))
    for part in chunks(rows, tall, max(1, BLOCK_SCORES // (keys[1] - keys[0]))):
        values = window_changes(changes, batch_head, part, keys)
        top, pooled = (part[0] - rows[0]) // tall, pool_signed(values, cell)
        at = slice(top, top + len(pooled))
        maxima[at] = larger_size(maxima[at], pooled)
        sums[at] += pool_values(values, cell, "sum")
    return maxima, sums


def window_changes(
    changes: EdgeChanges, batch_head: BatchHead, rows: Span, keys: Span
) -> Float[Tensor, "rows columns"]:
    """The change without each edge of a window of one head."""
    batch, head = (slice(index, index + 1) for index in batch_head)
    window = changes.sight.problem.region().narrow(batch=batch, heads=head, rows=slice(*rows), columns=slice(*keys))
    return changes.region_changes(window)[0, 0]


def pool_signed(values: Float[Tensor, "any any2"], cell: tuple[int, int]) -> Float[Tensor, "rows columns"]:
    """The largest number of each cell by size, with its sign."""
    return larger_size(pool_values(values, cell, "max"), -pool_values(-values, cell, "max"))


def larger_size(a: Tensor, b: Tensor) -> Tensor:
    """Of each pair the number of larger size, with its sign."""
    return torch.where(a.abs() >= b.abs(), a, b)
