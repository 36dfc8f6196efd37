"""A head's influence as a small picture: the changes of its edges, pooled exactly into cells, a few rows at a time."""

from math import ceil

import torch
from jaxtyping import Float
from torch import Tensor

from transom.kernels import BLOCK_SCORES, influence_stats
from transom.lens.attention.pooled_map import MapRequest, PooledMap, cell_areas, chunks, parse_map_request, pool_values
from transom.lens.attribution.edge_changes import EdgeChanges


def pool_changes(
    changes: EdgeChanges, head: int, cells: int, pool: str, window: tuple[slice | None, slice | None], batch: int
) -> PooledMap:
    """The map of one head over a window of rows and keys; a cell's maximum is its largest change, with its sign."""
    request = parse_map_request(changes.sight.shape, head, cells, pool, window, batch)
    if changes.native is not None:
        batch_head, problem = (request.batch, request.head), changes.sight.problem
        maxima, sums = influence_stats.pool_window(problem, changes.native, batch_head, request.spans, request.cell)
        values = maxima if pool == "max" else sums
    else:
        values = pool_in_chunks(changes, request)
    if pool == "mean":
        values /= cell_areas(request.spans, request.cell, values)
    return PooledMap(values, *request.spans, request.cell, pool)


def pool_in_chunks(changes: EdgeChanges, request: MapRequest) -> Float[Tensor, "rows columns"]:
    """The sum, or the largest change by size, of each cell."""
    ((first_row, last_row), keys), (tall, wide) = request.spans, request.cell
    values = changes.GO.new_zeros((ceil((last_row - first_row) / tall), ceil((keys[1] - keys[0]) / wide)))
    for first, last in chunks((first_row, last_row), tall, max(1, BLOCK_SCORES // (keys[1] - keys[0]))):
        window = changes.sight.problem.region().narrow(
            batch=slice(request.batch, request.batch + 1),
            heads=slice(request.head, request.head + 1),
            rows=slice(first, last),
            columns=slice(*keys),
        )
        pooled = pool_signed(changes.region_changes(window)[0, 0], request)
        top = (first - first_row) // tall
        part = values[top : top + len(pooled)]
        part.copy_(larger_size(part, pooled) if request.pool == "max" else part + pooled)
    return values


def pool_signed(values: Float[Tensor, "any any2"], request: MapRequest) -> Float[Tensor, "rows columns"]:
    if request.pool != "max":
        return pool_values(values, request.cell, "sum")
    return larger_size(pool_values(values, request.cell, "max"), -pool_values(-values, request.cell, "max"))


def larger_size(a: Tensor, b: Tensor) -> Tensor:
    """Of each pair the number of larger size, with its sign."""
    return torch.where(a.abs() >= b.abs(), a, b)
