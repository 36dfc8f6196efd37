"""Copies of what goes by: a model may overwrite its tensors the moment it has them (residuals in place, caches)."""

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from transom.kernels.problem import Problem
from transom.lens.hearing.heard import Heard
from transom.lens.hearing.strands import Strand, Stretch

Part = TypeVar("Part")
COMPARED = 4  # of the masks kept so far, the last few may be the one that comes again


class Copies:
    """Makes copies on one device; a mask that comes again, as it does in every layer, is kept once."""

    def __init__(self, device: torch.device | None) -> None:
        self.device = device
        self.masks: list[Tensor] = []
        self.strands: dict[str, Strand] = {}  # the keys and values that came last under each name

    def copy(self, x: Tensor) -> Tensor:
        """A copy of its own, laid out anew."""
        return torch.empty(x.shape, dtype=x.dtype, device=self.device or x.device).copy_(x)

    def shared(self, x: Tensor) -> Tensor:
        """A copy, or an equal one made before."""
        for one in reversed(self.masks):
            if one.shape == x.shape and one.dtype == x.dtype and torch.equal(one, x.to(one.device)):
                return one
        self.masks = [*self.masks[1 - COMPARED :], self.copy(x)]
        return self.masks[-1]

    def part(self, part: Part) -> Part:
        """A mask or a bias, or a combination of them, with copies of the tensors in it."""
        if part is None or not is_dataclass(part) or isinstance(part, type):
            return part
        new = {}
        for field in fields(part):
            value = getattr(part, field.name)
            new[field.name] = self.shared(value) if isinstance(value, Tensor) else self.part(value)
        return replace(part, **new)

    def problem(self, one: Problem, name: str) -> tuple[Problem, Stretch]:
        """The problem of an attention of that name; of keys and values that it saw before, only the new ones."""
        one = replace(one, Q=self.copy(one.Q), mask=self.part(one.mask), bias=self.part(one.bias))
        strand = self.strands.get(name)
        first = None if strand is None else strand.continued(one)
        if strand is None or first is None:
            one = replace(one, K=self.copy(one.K), V=self.copy(one.V))
            self.strands[name] = strand = Strand(one.K, one.V)
        stretch = strand.stretch(one, first or 0)
        return replace(one, K=stretch.K, V=stretch.V), stretch

    def heard(self, one: Heard, name: str) -> tuple[Heard, Stretch]:
        """What was heard under that name, and which keys of its strand it looked at."""
        problem, stretch = self.problem(one.problem, name)
        kept = replace(
            one,
            problem=problem,
            output=None if one.output is None else self.copy(one.output),
            lse=None if one.lse is None else self.copy(one.lse),
            joined=self.part(one.joined),
        )
        return kept, stretch
