"""One captured attention: what ran, which edges were cut out of it, and how to make a problem of Q, K and V."""

from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

import torch
from jaxtyping import Bool
from torch import Tensor

from transom.equations.attention import default_scale
from transom.equations.biases import Bias
from transom.equations.edges import EdgeBox, EdgeMask
from transom.equations.masks import Mask, TensorMask
from transom.equations.region import Region
from transom.kernels import Problem
from transom.lens.attention.record import JoinedOutput
from transom.lens.attention.sight import Sight

Rows = Bool[Tensor, "batch heads queries"]


@dataclass(frozen=True, eq=False)
class EdgeCut:
    """The edges cut before the softmax, and those cut after it; `emptied` are the rows that lost their last key."""

    before: tuple[EdgeBox, ...] = ()
    after: tuple[EdgeBox, ...] = ()
    emptied: Rows | None = None

    @property
    def boxes(self) -> tuple[EdgeBox, ...]:
        return (*self.before, *self.after)

    def __or__(self, other: "EdgeCut") -> "EdgeCut":
        return EdgeCut((*self.before, *other.before), (*self.after, *other.after))

    def for_batch_entry(self, entry: int) -> "EdgeCut":
        """The edges of one entry of the batch."""
        before, after = (
            tuple(box for box in boxes if box.batch is None or entry in box.batch)
            for boxes in (self.before, self.after)
        )
        return EdgeCut(before, after)

    def removed_masks(self, region: Region) -> tuple[Tensor | None, Tensor | None]:
        """True where an edge is cut before the softmax, and where after it; None if none is."""
        before, after = (~EdgeMask(boxes).materialize(region) if boxes else None for boxes in (self.before, self.after))
        return before, after

    def changed_rows(self, region: Region) -> Rows:
        """Rows that lose an edge."""
        changed = torch.zeros(region.shape[:3], dtype=torch.bool, device=region.device)
        for removed in self.removed_masks(region):
            if removed is not None:
                changed = changed | removed.any(dim=-1)
        return changed


@dataclass(frozen=True, eq=False)
class CapturedAttention:
    """One attention as it ran; its tensors are still the model's own."""

    problem: Problem
    output: Tensor | None = None
    lse: Tensor | None = None
    joined_output: JoinedOutput | None = None
    unproved: str = ""
    weight_mask: Mask | None = None  # False where a weight was set to 0 after the softmax

    def to_sight(self) -> Sight:
        return Sight(self.problem, self.output, self.lse, self.joined_output, self.unproved, self.weight_mask)

    def with_cut(self, cut: EdgeCut | None) -> "CapturedAttention":
        """The same with masks that hide the edges, which are already gone from its output; itself if none was cut."""
        if cut is None:
            return self
        masks: list[Mask] = [EdgeMask(cut.before)] if cut.before else []
        if cut.emptied is not None and cut.emptied.any():
            masks.append(TensorMask(~cut.emptied[..., None]))
        # A log-sum-exp over all keys still holds if weights were only cut after the softmax.
        lse = None if masks else self.lse
        mask = combine_masks(masks if self.problem.mask is None else [self.problem.mask, *masks])
        problem = replace(self.problem, mask=mask)
        return replace(self, problem=problem, lse=lse, weight_mask=EdgeMask(cut.after) if cut.after else None)


@dataclass(frozen=True)
class Unreadable:
    """An attention ran, and cannot be read."""

    reason: str


def make_problem(
    Q: Tensor, K: Tensor, V: Tensor, mask: Mask | None = None, bias: Bias | None = None, scale: float | None = None
) -> Problem:
    scale = default_scale(Q.shape[3]) if scale is None else float(scale)
    return Problem(Q=Q, K=K, V=V, mask=mask, bias=bias, scale=scale, softcap=None, dropout=0.0, seed=0)


def combine_masks(masks: list[Mask]) -> Mask | None:
    """A mask that allows what all of these allow."""
    return reduce(and_, masks) if masks else None


def dropout_note(probability: float) -> str:
    """Why the output cannot be recomputed if PyTorch's dropout fell on the weights; empty if none did."""
    return f"the model applied its own dropout of {probability:g} to these weights" if probability else ""
