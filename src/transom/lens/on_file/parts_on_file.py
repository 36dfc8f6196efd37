"""Masks and biases as plain data and back: what kind each is, its numbers, and which tensors of the file it holds."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transom.equations.biases import Bias, DistanceBias, GivenBias, TableBias
from transom.equations.edges import Box, Without
from transom.equations.masks import Both, Causal, Either, Given, Mask, Padding, SameDocument, SlidingWindow
from transom.kernels.checks import broadcastable
from transom.names import Misfit, spelled

Whole = tuple[int, int, int, int]


class PartFormat(NamedTuple):
    """How a mask or a bias stands in a file: its class here, and for each name on file the attribute that it holds."""

    part: type[Mask] | type[Bias]
    attributes: Mapping[str, str]


# The names on file are part of the format: a class or an attribute may be renamed here, its name on file may not.
MASKS: dict[str, PartFormat] = {
    "Both": PartFormat(Both, {"left": "left", "right": "right"}),
    "Either": PartFormat(Either, {"left": "left", "right": "right"}),
    "Causal": PartFormat(Causal, {"start": "start"}),
    "SlidingWindow": PartFormat(SlidingWindow, {"width": "width"}),
    "SameDocument": PartFormat(SameDocument, {"ids": "ids"}),
    "Padding": PartFormat(Padding, {"real": "real"}),
    "Given": PartFormat(Given, {"allowed": "allowed"}),
    "Without": PartFormat(Without, {"boxes": "boxes"}),
}
BIASES: dict[str, PartFormat] = {
    "GivenBias": PartFormat(GivenBias, {"source": "source"}),
    "DistanceBias": PartFormat(DistanceBias, {"source": "source"}),
    "TableBias": PartFormat(TableBias, {"source": "source"}),
}
DEEPEST = 50  # masks within masks


def plain(part: Mask | Bias, place: Callable[[Tensor], str]) -> dict[str, Any]:
    """A part as plain data; `place` puts a tensor into the file and gives its name there."""
    known = {**MASKS, **BIASES}
    kind = next((name for name, one in known.items() if one.part is type(part)), None)
    if kind is None:
        raise Misfit(
            f"a trace file holds masks and biases of {', '.join(known)}, but this one is a {type(part).__name__};"
            " give a bool or float tensor to the attention instead"
        )
    data: dict[str, Any] = {"kind": kind}
    for name, attribute in known[kind].attributes.items():
        value = getattr(part, attribute)
        if isinstance(value, Tensor):
            data[name] = place(value)
        else:
            data[name] = plain(value, place) if isinstance(value, Mask | Bias) else value
    return data


def mask_from(data: object, tensor: Callable[[object], Tensor], whole: Whole, depth: int = 0) -> Mask:
    """The mask that plain data tells of, once it is found to fit."""
    kind, given = parse_kind(data, MASKS)
    if depth > DEEPEST:
        raise Misfit(f"masks may be within {DEEPEST} others, but one is deeper")
    if kind is Both or kind is Either:
        left, right = (mask_from(given[side], tensor, whole, depth + 1) for side in ("left", "right"))
        return kind(left, right)  # pyright: ignore[reportCallIssue]
    if kind is Causal:
        return Causal(None if given["start"] is None else whole_number(given["start"], -(2**40)))
    if kind is SlidingWindow:
        return SlidingWindow(whole_number(given["width"], 1))
    if kind is Without:
        return without_from(given["boxes"], whole)
    held = tensor(next(iter(given.values())))
    if kind is Given:
        return Given(of_dtype(broadcastable("a mask", held, whole, held.device), torch.bool, 4))
    mask = kind(of_dtype(held, torch.bool if kind is Padding else torch.int64, 2))  # pyright: ignore[reportCallIssue]
    mask.check(whole, held.device)
    return mask


def without_from(boxes: object, whole: Whole) -> Without:
    """Edges that were cut out, as long as they are edges of an attention of that size."""
    if not isinstance(boxes, list) or not all(isinstance(box, list) and len(box) == 4 for box in boxes):
        raise Misfit(f"edges are boxes of four axes, but got {boxes!r:.60}")
    mask = Without(tuple(Box(*(places_from(places) for places in box)) for box in boxes))
    mask.check(whole, torch.device("cpu"))
    return mask


def places_from(places: object) -> tuple[int, ...] | None:
    if places is None:
        return None
    if not isinstance(places, list):
        raise Misfit(f"places of an axis are numbers, but got {places!r:.60}")
    return tuple(whole_number(place, 0) for place in places)


def bias_from(data: object, tensor: Callable[[object], Tensor], whole: Whole) -> Bias:
    """The bias that plain data tells of, once it is found to fit."""
    kind, given = parse_kind(data, BIASES)
    held = tensor(given["source"])
    if kind is GivenBias:
        return GivenBias(of_dtype(broadcastable("a bias", held, whole, held.device), torch.float32, 4))
    held = of_dtype(held, torch.float32, 1 if kind is DistanceBias else 2)
    if kind is TableBias and held.shape[1] % 2 == 0:
        raise Misfit(f"a TableBias needs an odd number of distances, but it is {spelled(held, 'heads distances')}")
    bias = kind(held)  # pyright: ignore[reportCallIssue]
    bias.check(whole, held.device)
    return bias


def parse_kind(data: object, known: Mapping[str, PartFormat]) -> tuple[Any, dict[str, Any]]:
    """Which class it is, and what the file says under each of its names: no more and no fewer."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in known or not isinstance(data, dict):
        raise Misfit(f"expected one of {', '.join(known)}, but got {data!r:.60}")
    names = set(known[kind].attributes)
    if set(data) != {"kind", *names}:
        raise Misfit(f"a {kind} has {', '.join(sorted(names))}, but got {', '.join(map(str, sorted(data)))}")
    return known[kind].part, {name: data[name] for name in names}


def whole_number(value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 2**40:
        raise Misfit(f"expected a whole number of {least} or more, but got {value!r:.60}")
    return value


def of_dtype(x: Tensor, dtype: torch.dtype, axes: int) -> Tensor:
    if x.dtype != dtype or x.dim() != axes:
        raise Misfit(f"expected {dtype} with {axes} axes, but got {x.dtype} {tuple(x.shape)}")
    return x
