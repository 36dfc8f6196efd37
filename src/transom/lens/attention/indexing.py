"""Indices that a caller gives (one or many, negative, a slice) as positions; where queries and padding are."""

from collections.abc import Iterable

import torch
from jaxtyping import Bool
from torch import Tensor

from transom.equations.biases import TensorBias
from transom.equations.masks import NO_WEIGHT, Causal, Mask, Padding, TensorMask
from transom.equations.region import Index
from transom.kernels import Problem
from transom.names import Misfit, check_index

AxisIndex = int | slice | list[int] | Tensor | None


def resolve_index(index: AxisIndex, axis: str, size: int, device: torch.device) -> Index:
    """The positions of an axis that a caller selects, as an index into it; negative ones count from the end."""
    if index is None:
        return slice(0, size)
    if isinstance(index, slice):
        positions = range(*index.indices(size))
        in_order = slice(positions.start, positions.stop)
        return in_order if positions.step == 1 else torch.tensor(positions, dtype=torch.long, device=device)
    if is_single_index(index):
        position = check_index(index, axis, size)
        return slice(position, position + 1)
    if isinstance(index, Tensor) and index.dtype == torch.bool:
        raise Misfit(f"{axis} are asked for by number, but got a bool tensor; use tensor.nonzero()[:, 0]")
    if isinstance(index, str) or not isinstance(index, Iterable):
        raise Misfit(
            f"{axis} are asked for by a number, a slice or a list of numbers, but got {index!r:.60}; count from 0"
        )
    return torch.tensor([check_index(number, axis, size) for number in index], dtype=torch.long, device=device)


def is_single_index(index: object) -> bool:
    """Whether it is one number, of Python, numpy or torch, and not several."""
    return hasattr(index, "__index__") and not (isinstance(index, Tensor) and index.dim())


def resolve_range(window: slice | None, axis: str, size: int) -> tuple[int, int]:
    """The first position of a window, and one past its last."""
    if not size:
        raise Misfit(f"a map takes a run of {axis}, but there are {axis}=0; there is nothing to look at")
    first, last, step = (window or slice(None)).indices(size)
    if step != 1 or last <= first:
        raise Misfit(
            f"a map takes a run of {axis} such as slice(0, {size}), but got {window}; it must not be empty or skip"
        )
    return first, last


def first_position(problem: Problem) -> int | None:
    """The position of the first query among the keys; None if it is unknown.

    A causal mask says it. Without one, the queries count as the last of the keys, as in self-attention with and without
    a cache; more queries than keys can only attend to another sequence.
    """
    queries, keys = problem.shape[2:]
    for mask in conjuncts(problem):
        if isinstance(mask, Causal):
            return keys - queries if mask.start is None else mask.start
    return keys - queries if queries <= keys or not keys else None


def conjuncts(problem: Problem) -> list[Mask]:
    """The masks that must all allow a key."""
    return [] if problem.mask is None else list(problem.mask.conjuncts())


def visible_keys(problem: Problem) -> Bool[Tensor, "#batch keys"] | None:
    """Which keys some row may see, as far as mask and bias show it; None for all. The others are padding."""
    keys, parts = problem.shape[3], []
    for mask in conjuncts(problem):
        if isinstance(mask, Padding):
            parts.append(mask.real)
        elif isinstance(mask, TensorMask) and mask.allowed.shape[3] == keys:
            parts.append(mask.allowed.any(dim=2).any(dim=1))
    if isinstance(problem.bias, TensorBias) and problem.bias.source.shape[3] == keys:
        parts.append((problem.bias.source > NO_WEIGHT).any(dim=2).any(dim=1))
    visible = torch.ones((1, keys), dtype=torch.bool, device=problem.Q.device)
    for part in parts:
        visible = visible & part
    return None if bool(visible.all()) else visible
