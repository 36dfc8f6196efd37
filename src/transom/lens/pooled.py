"""A head's whole attention as a small picture: exact, pooled into cells, computed a few rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from transom.kernels import looking
from transom.kernels.tiles import BAND_NUMBERS
from transom.lens.asked import inside, span
from transom.lens.kept import Kept
from transom.names import Misfit, whole_number

Span = tuple[int, int]
POOLS = ("max", "mean", "sum")


@dataclass(frozen=True, eq=False)
class Map:
    """Weights pooled into cells of `cell` = (rows, keys) each; the last ones may be smaller."""

    values: Float[Tensor, "rows columns"]
    rows: tuple[int, int]  # first and one past the last
    keys: tuple[int, int]
    cell: tuple[int, int]
    pool: str


def pooled(kept: Kept, head: int, cells: int, pool: str, window: tuple[slice | None, slice | None], batch: int) -> Map:
    """The map of one head over a window of rows and keys."""
    if pool not in POOLS:
        raise Misfit(
            f"pool must be one of {', '.join(POOLS)}, but got {pool!r}; max keeps single strong weights visible"
        )
    number = whole_number(cells)
    if number is None or number < 1:
        raise Misfit(f"a map needs at least 1 cell a side, but got cells={cells}; 256 is a good picture")
    cells, sizes = number, kept.problem.whole
    place = (inside(batch, "batch", sizes[0]), inside(head, "heads", sizes[1]))
    rows, keys = span(window[0], "queries", sizes[2]), span(window[1], "keys", sizes[3])
    tall, wide = (-(-(last - first) // cells) for first, last in (rows, keys))
    if kept.zeroed is None and looking.looks(kept.problem, kept.lse):
        values = looking.pooled(kept.problem, kept.lse, place, (rows, keys), (tall, wide), pool)
    else:
        values = in_chunks(kept, place, (rows, keys), (tall, wide), pool)
    if pool == "mean":
        values /= sizes_of(rows, tall)[:, None].to(values) * sizes_of(keys, wide)[None].to(values)
    return Map(values, rows, keys, (tall, wide), pool)


def in_chunks(
    kept: Kept, place: Span, window: tuple[Span, Span], cell: tuple[int, int], pool: str
) -> Float[Tensor, "rows columns"]:
    """The sum, or the largest, of each cell, from the weights of a few rows at a time."""
    (rows, keys), (tall, wide) = window, cell
    values = kept.lse.new_zeros((-(-(rows[1] - rows[0]) // tall), -(-(keys[1] - keys[0]) // wide)))
    for first, last in chunks(rows, tall, max(1, BAND_NUMBERS // (keys[1] - keys[0]))):
        weights = window_weights(kept, place, (first, last), keys)
        at = (first - rows[0]) // tall
        few = -(-(last - first) // tall)
        weights = F.pad(weights, (0, values.shape[1] * wide - weights.shape[1], 0, few * tall - len(weights)))
        weights = weights.view(few, tall, values.shape[1], wide)
        part = values[at : at + few]
        part.copy_(torch.maximum(part, weights.amax(dim=(1, 3))) if pool == "max" else part + weights.sum(dim=(1, 3)))
    return values


def chunks(rows: Span, tall: int, at_once: int) -> Iterator[Span]:
    """Runs of rows that either hold whole cells, or lie within one."""
    step = at_once // tall * tall or at_once
    for cell in range(rows[0], rows[1], max(step, tall)):
        end = min(cell + max(step, tall), rows[1])
        for first in range(cell, end, step):
            yield first, min(first + step, end)


def sizes_of(span: Span, size: int) -> Float[Tensor, " any"]:
    """How many places each cell of a span holds: the last one may have fewer."""
    first = torch.arange(span[0], span[1], size)
    return (torch.clamp(first + size, max=span[1]) - first).float()


def window_weights(kept: Kept, place: Span, rows: Span, keys: Span) -> Float[Tensor, "rows columns"]:
    """One head's weights from these rows, without the keys at the end that a mask rules out by position."""
    problem = kept.problem
    seen = (0, keys[1]) if problem.mask is None else problem.mask.span(rows, problem.whole)
    block = problem.block().narrowed(
        batch=slice(place[0], place[0] + 1),
        heads=slice(place[1], place[1] + 1),
        rows=slice(*rows),
        columns=slice(keys[0], max(keys[0], min(keys[1], seen[1]))),
    )
    return kept.block_weights(block)[0, 0]
