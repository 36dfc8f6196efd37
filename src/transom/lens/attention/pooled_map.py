"""A head's whole attention as a small picture: pooled exactly into cells, a few rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from transom.kernels import BLOCK_SCORES, weight_stats
from transom.lens.attention.indexing import resolve_range
from transom.lens.attention.record import AttentionRecord
from transom.names import Misfit, check_index, integer_or_none

Span = tuple[int, int]  # the first, and one past the last
BatchHead = tuple[int, int]
POOLS = ("max", "mean", "sum")


@dataclass(frozen=True, eq=False)
class PooledMap:
    """Weights pooled into cells of `cell` = (rows, keys) each; the last ones may be smaller."""

    values: Float[Tensor, "rows columns"]
    rows: Span
    keys: Span
    cell: tuple[int, int]
    pool: str


class MapRequest(NamedTuple):
    """What a map is to show: a head of a sequence, the spans of rows and keys, the size of a cell, how it is pooled."""

    batch: int
    head: int
    spans: tuple[Span, Span]
    cell: tuple[int, int]
    pool: str


def parse_map_request(
    shape: tuple[int, int, int, int],
    head: int,
    cells: int,
    pool: str,
    window: tuple[slice | None, slice | None],
    batch: int,
) -> MapRequest:
    """The map that a caller asks for of an attention of that shape, checked."""
    if pool not in POOLS:
        raise Misfit(
            f"pool must be one of {', '.join(POOLS)}, but got {pool!r}; max keeps single strong weights visible"
        )
    side = integer_or_none(cells)
    if side is None or side < 1:
        raise Misfit(f"a map needs at least 1 cell a side, but got cells={cells}; 256 is a good picture")
    batches, heads, queries, keys = shape
    spans = (resolve_range(window[0], "queries", queries), resolve_range(window[1], "keys", keys))
    cell = (ceil((spans[0][1] - spans[0][0]) / side), ceil((spans[1][1] - spans[1][0]) / side))
    return MapRequest(check_index(batch, "batch", batches), check_index(head, "heads", heads), spans, cell, pool)


def pool_map(
    record: AttentionRecord, head: int, cells: int, pool: str, window: tuple[slice | None, slice | None], batch: int
) -> PooledMap:
    """The map of one head over a window of rows and keys."""
    request = parse_map_request(record.problem.shape, head, cells, pool, window, batch)
    batch_head, spans, cell = (request.batch, request.head), request.spans, request.cell
    if record.uses_native():
        maxima, sums = weight_stats.pool_window(record.problem, record.lse, batch_head, spans, cell)
        values = maxima if pool == "max" else sums
    else:
        values = pool_in_chunks(record, batch_head, spans, cell, pool)
    if pool == "mean":
        values /= cell_areas(spans, cell, values)
    return PooledMap(values, *spans, cell, pool)


def pool_in_chunks(
    record: AttentionRecord, batch_head: BatchHead, window: tuple[Span, Span], cell: tuple[int, int], pool: str
) -> Float[Tensor, "rows columns"]:
    """The sum or the maximum of each cell, from the weights of a few rows at a time."""
    (rows, keys), (tall, wide) = window, cell
    values = record.lse.new_zeros((ceil((rows[1] - rows[0]) / tall), ceil((keys[1] - keys[0]) / wide)))
    for first, last in chunks(rows, tall, max(1, BLOCK_SCORES // (keys[1] - keys[0]))):
        weights = window_weights(record, batch_head, (first, last), keys)
        pooled = pool_values(F.pad(weights, (0, values.shape[1] * wide - weights.shape[1])), cell, pool)
        top = (first - rows[0]) // tall
        part = values[top : top + len(pooled)]
        part.copy_(torch.maximum(part, pooled) if pool == "max" else part + pooled)
    return values


def pool_values(values: Float[Tensor, "any any2"], cell: tuple[int, int], pool: str) -> Float[Tensor, "rows columns"]:
    """The maximum of each cell, or the sum; the last cells may be smaller."""
    (tall, wide), (rows, columns) = cell, values.shape
    down, across = ceil(rows / tall), ceil(columns / wide)
    values = F.pad(values, (0, across * wide - columns, 0, down * tall - rows)).view(down, tall, across, wide)
    return values.amax(dim=(1, 3)) if pool == "max" else values.sum(dim=(1, 3))


def chunks(span: Span, size: int, at_once: int) -> Iterator[Span]:
    """Parts of a span that hold whole cells of that size, or lie within one."""
    step = at_once // size * size or at_once
    for cell in range(*span, max(step, size)):
        end = min(cell + max(step, size), span[1])
        for first in range(cell, end, step):
            yield first, min(first + step, end)


def cell_areas(window: tuple[Span, Span], cell: tuple[int, int], values: Tensor) -> Float[Tensor, "rows columns"]:
    """How many weights each cell of a window holds, in the dtype of `values`; the last ones may hold fewer."""
    tall, wide = (
        values.new_tensor([min(size, last - start) for start in range(first, last, size)])
        for (first, last), size in zip(window, cell, strict=True)
    )
    return tall[:, None] * wide[None]


def window_weights(
    record: AttentionRecord, batch_head: BatchHead, rows: Span, keys: Span
) -> Float[Tensor, "rows columns"]:
    """One head's weights in a window, without the keys at its end that a mask rules out by position."""
    problem, (batch, head) = record.problem, batch_head
    visible = (0, keys[1]) if problem.mask is None else problem.mask.key_range(rows, problem.shape)
    block = problem.region().narrow(
        batch=slice(batch, batch + 1),
        heads=slice(head, head + 1),
        rows=slice(*rows),
        columns=slice(keys[0], max(keys[0], min(keys[1], visible[1]))),
    )
    return record.region_weights(block)[0, 0]
