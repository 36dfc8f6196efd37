"""Masks and biases as plain data and back: the kind of each, its numbers, and the names of its tensors in the file."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor

from transom.equations.biases import Bias, DistanceBias, RelativeBias, TensorBias
from transom.equations.edges import EdgeBox, EdgeMask
from transom.equations.masks import AndMask, Causal, Mask, OrMask, Padding, SameDocument, SlidingWindow, TensorMask
from transom.equations.sparse_bias import SparseBias
from transom.kernels import to_four_axes
from transom.lens.storage.tensor_file import check_dtype
from transom.names import Misfit, format_shape

Shape = tuple[int, int, int, int]
# Each kind on file: its class, and the name on file of each attribute. The classes and attributes may be renamed, the
# names on file may not.
Kinds = Mapping[str, tuple[type[Mask] | type[Bias], Mapping[str, str]]]
MASKS: Kinds = {
    "Both": (AndMask, {"left": "left", "right": "right"}),
    "Either": (OrMask, {"left": "left", "right": "right"}),
    "Causal": (Causal, {"start": "start"}),
    "SlidingWindow": (SlidingWindow, {"width": "width"}),
    "SameDocument": (SameDocument, {"ids": "ids"}),
    "Padding": (Padding, {"real": "real"}),
    "Given": (TensorMask, {"allowed": "allowed"}),
    "Without": (EdgeMask, {"boxes": "boxes"}),
}
BIASES: Kinds = {
    "GivenBias": (TensorBias, {"source": "source"}),
    "DistanceBias": (DistanceBias, {"source": "source"}),
    "TableBias": (RelativeBias, {"source": "source"}),
    "SparseBias": (SparseBias, {"source": "source", "keys": "keys", "ends": "ends"}),
}
DEEPEST = 50  # masks within masks


def part_to_dict(part: Mask | Bias | None, store: Callable[[Tensor], str]) -> dict[str, Any] | None:
    """A mask or bias as plain data; `store` puts a tensor into the file and returns its name."""
    if part is None:
        return None
    kinds = {**MASKS, **BIASES}
    kind = next((name for name, (part_type, _) in kinds.items() if part_type is type(part)), None)
    if kind is None:
        raise Misfit(
            f"a trace file holds masks and biases of {', '.join(kinds)}, but this one is a {type(part).__name__};"
            " give a bool or float tensor to the attention instead"
        )
    data: dict[str, Any] = {"kind": kind}
    for name, attribute in kinds[kind][1].items():
        value = getattr(part, attribute)
        if isinstance(value, Tensor):
            data[name] = store(value)
        else:
            data[name] = part_to_dict(value, store) if isinstance(value, Mask | Bias) else value
    return data


def mask_from_dict(data: object, load: Callable[[object], Tensor], shape: Shape, depth: int = 0) -> Mask:
    """The mask that plain data describes, once it fits an attention of this shape; `load` reads a tensor by name."""
    mask_type, fields = parse_kind(data, MASKS)
    if depth > DEEPEST:
        raise Misfit(f"masks may be nested {DEEPEST} deep, but these are deeper")
    if mask_type in (AndMask, OrMask):
        return mask_type(*(mask_from_dict(fields[side], load, shape, depth + 1) for side in ("left", "right")))
    if mask_type in (Causal, SlidingWindow):
        return mask_type(*fields.values())
    if mask_type is EdgeMask:
        mask = EdgeMask(msgspec.convert(fields["boxes"], tuple[EdgeBox, ...]))
        mask.check(shape, torch.device("cpu"))
        return mask
    x = load(next(iter(fields.values())))
    if mask_type is TensorMask:
        return TensorMask(check_dtype(to_four_axes("a mask", x, shape, x.device), torch.bool, 4))
    mask = mask_type(check_dtype(x, torch.bool if mask_type is Padding else torch.int64, 2))
    mask.check(shape, x.device)
    return mask


def bias_from_dict(data: object, load: Callable[[object], Tensor], shape: Shape) -> Bias:
    """The bias that plain data describes, once it fits an attention of this shape."""
    bias_type, fields = parse_kind(data, BIASES)
    x = load(fields["source"])
    if bias_type is TensorBias:
        return TensorBias(check_dtype(to_four_axes("a bias", x, shape, x.device), torch.float32, 4))
    if bias_type is SparseBias:
        keys, ends = (check_dtype(load(fields[name]), torch.int64, 1) for name in ("keys", "ends"))
        bias = SparseBias(check_dtype(x, torch.float32, 1), keys, ends)
        bias.check(shape, x.device)
        return bias
    x = check_dtype(x, torch.float32, 1 if bias_type is DistanceBias else 2)
    if bias_type is RelativeBias and x.shape[1] % 2 == 0:
        raise Misfit(f"a TableBias needs an odd number of distances, but it is {format_shape(x, 'heads distances')}")
    bias = bias_type(x)
    bias.check(shape, x.device)
    return bias


def parse_kind(data: object, kinds: Kinds) -> tuple[Any, dict[str, Any]]:
    """The class, and its values by their names on file: exactly those that this kind has."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in kinds or not isinstance(data, dict):
        raise Misfit(f"expected one of {', '.join(kinds)}, but got {data!r:.60}")
    part_type, names = kinds[kind]
    if data.keys() != {"kind", *names}:
        raise Misfit(f"a {kind} has {', '.join(sorted(names))}, but got {', '.join(map(str, sorted(data)))}")
    return part_type, {name: data[name] for name in names}
