"""Where each parameter of a model lies among Hugging Face's tensors: a table of names, read in both directions.

A key is the name of a parameter of ours, or of a module whose weight and bias have the same names there; {i} stands for
the number of the layer.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from transom.names import Misfit

LAYER = re.compile(r"(?<=\.)\d+(?=\.)")


class Place(NamedTuple):
    """Where a parameter lies: in a tensor, or in one of several equal parts of it.

    transposed   the tensor is (in, out), not (out, in)
    wrapped      it has one more axis in front, of size 1
    """

    name: str
    part: int = 0
    parts: int = 1
    transposed: bool = False
    wrapped: bool = False

    def extract(self, tensor: Tensor) -> Tensor:
        """The parameter in a tensor of Hugging Face's."""
        if self.wrapped:
            tensor = tensor[0]
        if self.transposed and tensor.dim() == 2:
            tensor = tensor.mT
        return tensor.chunk(self.parts)[self.part]

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the parameter in a tensor of that shape."""
        shape = shape[1:] if self.wrapped else shape
        shape = shape[::-1] if self.transposed else shape
        return (shape[0] // self.parts, *shape[1:]) if shape else shape


NameTable = Mapping[str, str | Place]


def find_place(names: NameTable, parameter: str) -> Place:
    """The place of a parameter of ours."""
    number = LAYER.search(parameter)
    pattern = LAYER.sub("{i}", parameter)
    module, _, suffix = pattern.rpartition(".")
    layer = "" if number is None else number.group()
    for key, ending in ((pattern, ""), (module, f".{suffix}")):
        if key in names:
            found = names[key]
            place = Place(found) if isinstance(found, str) else found
            return place._replace(name=place.name.replace("{i}", layer) + ending)
    raise Misfit(f"Hugging Face's model has no place for {parameter!r}; leave that part out")


def find_places(names: NameTable, parameters: Mapping[str, object]) -> dict[str, Place]:
    """The place of each parameter."""
    return {parameter: find_place(names, parameter) for parameter in parameters}


def check_places(places: Mapping[str, Place], shapes: Mapping[str, torch.Size], theirs: "TensorSource") -> None:
    """Raise an error unless every parameter has a tensor of its shape."""
    for parameter, place in places.items():
        if place.name not in theirs.shapes:
            raise Misfit(f"{theirs.where} should hold {place.name!r}, but it does not; is the copy complete?")
        found = theirs.shapes[place.name]
        if place.shape(found) != tuple(shapes[parameter]):
            raise Misfit(
                f"{theirs.where} holds {place.name!r} as {found}, which does not fit {parameter} of"
                f" {tuple(shapes[parameter])}; does its config.json belong to it?"
            )


def join_parts(places: Mapping[str, Place], parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Hugging Face's tensors, made of our parameters."""
    parts: dict[str, dict[int, Tensor]] = {}
    for parameter, place in places.items():
        tensors = parts.setdefault(place.name, {})
        tensors[place.part] = parameters[parameter].detach()
        if len(tensors) == place.parts:
            tensor = torch.cat([tensors[part] for part in range(place.parts)])
            tensor = tensor.mT if place.transposed and tensor.dim() == 2 else tensor
            yield place.name, (tensor[None] if place.wrapped else tensor).contiguous()


class TensorSource(Mapping[str, Tensor]):
    """Named tensors of a model, each loaded when it is asked for; `where` names the model in an error."""

    where: str
    shapes: dict[str, tuple[int, ...]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)
