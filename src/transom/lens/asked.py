"""What a person asks to see of an axis: one place, a slice, a list, or everything."""

from collections.abc import Iterable

import torch
from torch import Tensor

from transom.equations.blocks import Index
from transom.names import Misfit, whole_number

Asked = int | slice | list[int] | Tensor | None


def places(asked: Asked, axis: str, size: int, device: torch.device) -> Index:
    """The asked places of an axis, as an index into it; negative ones count from the end."""
    if asked is None:
        return slice(0, size)
    if isinstance(asked, slice):
        first, last, step = asked.indices(size)
        return slice(first, last) if step == 1 else torch.arange(size, device=device)[asked_range(asked, size)]
    if is_one_place(asked):
        place = inside(asked, axis, size)
        return slice(place, place + 1)
    if isinstance(asked, Tensor) and asked.dtype == torch.bool:
        raise Misfit(f"{axis} are asked for by number, but got a bool tensor; use tensor.nonzero()[:, 0]")
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        raise Misfit(
            f"{axis} are asked for by a number, a slice or a list of numbers, but got {asked!r:.60}; count from 0"
        )
    return torch.tensor([inside(one, axis, size) for one in asked], dtype=torch.long, device=device)


def asked_range(asked: slice, size: int) -> list[int]:
    return list(range(*asked.indices(size)))


def is_one_place(asked: object) -> bool:
    """Whether it is one number, of Python, numpy or torch, and not several."""
    return hasattr(asked, "__index__") and not (isinstance(asked, Tensor) and asked.dim())


def inside(place: object, axis: str, size: int) -> int:
    """The number of a place of an axis, once it is found to be one."""
    number = whole_number(place)
    if number is None:
        raise Misfit(f"{axis} are asked for by whole numbers, but got {place!r:.60}; count from 0")
    if not size:
        raise Misfit(f"there are {axis}=0, so {number} is none of them; there is nothing to look at")
    if not -size <= number < size:
        raise Misfit(
            f"there are {axis}={size}, so {number} is none of them; count from 0 to {size - 1}, or back from -1"
        )
    return number % size


def span(asked: slice | None, axis: str, size: int) -> tuple[int, int]:
    """A run of places, for a view of a window."""
    if not size:
        raise Misfit(f"a map takes a run of {axis}, but there are {axis}=0; there is nothing to look at")
    first, last, step = (asked or slice(None)).indices(size)
    if step != 1 or last <= first:
        raise Misfit(
            f"a map takes a run of {axis} such as slice(0, {size}), but got {asked}; it must not be empty or skip"
        )
    return first, last
