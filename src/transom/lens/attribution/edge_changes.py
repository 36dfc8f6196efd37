"""The estimated change of a number for any region of edges of one attention, from its weights, values and gradient."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations.heads import grouped_matmul
from transom.equations.influence import (
    NEAR_ONE,
    finite_product,
    joint_removal_influence,
    removal_influence,
    weight_to_no_key,
    zeroing_influence,
)
from transom.equations.region import Region, index_axis, index_to_tensor
from transom.kernels import BLOCK_SCORES, influence_stats, row_blocks
from transom.lens.attention.sight import Sight

NEARLY_NOTHING = 1e-6  # a remainder of a row's weight that a difference of sums gives too coarsely


class RegionTerms(NamedTuple):
    """The terms of a region of edges: weights A, GV = gradient · value of an edge, GO = gradient · output of a row."""

    A: Float[Tensor, "batch heads rows columns"]
    GV: Float[Tensor, "batch heads rows columns"]
    GO: Float[Tensor, "batch heads rows"]


class EdgeChanges:
    """One attention with the gradient of a number by its output, and how its edges are knocked out."""

    def __init__(self, sight: Sight, gradient: Float[Tensor, "batch heads queries d_value"], how: str) -> None:
        self.sight, self.how = sight, how
        self.gradient = gradient.to(sight.problem.compute_dtype)
        # Only attention known by its weights alone, or with weights cut after the softmax, gives weight to no key.
        self.has_sinks = sight.Q.shape[3] == 0 or sight.weight_mask is not None

    @cached_property
    def GO(self) -> Float[Tensor, "batch heads queries"]:
        """gradient · output of each row; 0 for rows that do not reach the number, whatever their output is."""
        output = self.sight.output.detach().to(self.gradient.dtype)
        return torch.where(self.gradient == 0.0, 0.0, self.gradient * output).sum(dim=-1)

    @cached_property
    def native(self) -> influence_stats.OutputGradient | None:
        """What the native engine needs to compute influence; None if it does not support this attention."""
        sight = self.sight
        gradient = influence_stats.OutputGradient(sight.lse, self.GO, self.gradient, self.how == "after")
        supported = sight.uses_native() and influence_stats.native_supports(sight.problem, gradient)
        return gradient if supported else None

    def terms(self, region: Region) -> RegionTerms:
        G = index_axis(index_axis(index_axis(self.gradient, 0, region.batch), 1, region.heads), 2, region.rows)
        GV = grouped_matmul(G, self.sight.problem.values_in(region).mT)
        return RegionTerms(self.sight.region_weights(region), GV, region.crop(self.GO[..., None])[..., 0])

    def region_changes(self, region: Region) -> Float[Tensor, "batch heads rows columns"]:
        """What the number changes by without each edge of a region, alone; 0 for a masked edge."""
        with torch.no_grad():
            A, GV, GO = self.terms(region)
            if self.how == "after":
                return zeroing_influence(A, GV)
            changes = removal_influence(A, GV, GO)
            near = A > NEAR_ONE
            if near.any():
                if region.shape[3] == self.sight.shape[3]:
                    peaks = self.peak_changes(RegionTerms(A, GV, GO))
                    return torch.where(near, peaks[..., None], changes)
                self.replace_near(changes, near, region)
            return changes

    def peak_changes(self, terms: RegionTerms) -> Float[Tensor, "*any rows"]:
        """The change without the strongest key of each row, from all other keys of the row."""
        A, GV, GO = (x.double() for x in terms)
        parts, key = finite_product(A, GV), A.argmax(dim=-1, keepdim=True)
        rest, GV_rest = (x.scatter(-1, key, 0.0).sum(dim=-1) for x in (A, parts))
        A_S, GV_S = (x.gather(-1, key)[..., 0] for x in (A, parts))
        return joint_removal_influence(A_S, GV_S, rest + self.sinks(A), GV_rest, GO).to(terms.A.dtype)

    def sinks(self, A: Float[Tensor, "*any columns"]) -> Float[Tensor, "*any"]:
        """The weight that whole rows give to no key."""
        return weight_to_no_key(A) if self.has_sinks else torch.zeros_like(A[..., 0])

    def replace_near(self, changes: Tensor, near: Tensor, region: Region) -> None:
        """Compute the edges of nearly all weight from the whole rows that they are in."""
        axes = zip(region.indices[:3], region.full_shape[:3], strict=True)
        positions = [index_to_tensor(index, size, region.device) for index, size in axes]
        at_once = max(1, BLOCK_SCORES // max(1, region.full_shape[3]))
        for entry, head in near.any(dim=-1).any(dim=-1).nonzero().tolist():
            b, h = int(positions[0][entry]), int(positions[1][head])
            for rows in near[entry, head].any(dim=-1).nonzero()[:, 0].split(at_once):
                whole = region.narrow(
                    batch=slice(b, b + 1), heads=slice(h, h + 1), rows=positions[2][rows], columns=slice(None)
                )
                peaks = self.peak_changes(self.terms(whole))[0, 0]
                part = changes[entry, head, rows]
                changes[entry, head, rows] = torch.where(near[entry, head, rows], peaks[:, None], part)

    def blocks(self) -> Iterator[tuple[Region, Float[Tensor, "batch heads rows columns"]]]:
        """All edges, in blocks of whole rows without the keys that a mask rules out by position."""
        for block in row_blocks(self.sight.problem):
            if block.shape[3]:
                yield block, self.block_changes(block)

    def block_changes(self, block: Region) -> Float[Tensor, "batch heads rows columns"]:
        """The changes of a block that holds every key its rows may see."""
        terms = self.terms(block)
        if self.how == "after":
            return zeroing_influence(terms.A, terms.GV)
        changes, near = removal_influence(*terms), terms.A > NEAR_ONE
        return torch.where(near, self.peak_changes(terms)[..., None], changes) if near.any() else changes

    def span_blocks(self, members: Bool[Tensor, "any keys"]) -> Iterator[tuple[Region, Tensor, Tensor]]:
        """For blocks of rows, the change without all keys of each set, and the weight that each set has.

        `members` is True for each key of a set; both results are (batch, heads, rows, sets), in float64.
        """
        for block in row_blocks(self.sight.problem):
            with torch.no_grad():
                A, GV, GO = (x.double() for x in self.terms(block))
                sums = SetSums(A, finite_product(A, GV), index_axis(members, 1, block.columns), self.sinks(A))
                changes = -sums.GV_S if self.how == "after" else sums.joint_removal(GO)
            yield block, changes, sums.A_S


class SetSums:
    """Sums of weights A and of parts A · g·v over sets of columns, and over all columns outside each set."""

    def __init__(self, A: Tensor, parts: Tensor, members: Bool[Tensor, "any columns"], sink: Tensor) -> None:
        self.A, self.parts, self.members, self.sink = A, parts, members, sink
        self.sets, self.columns = members.nonzero(as_tuple=True)
        self.A_S, self.GV_S = self.sum_sets(A), self.sum_sets(parts)

    def sum_sets(self, x: Float[Tensor, "*any columns"]) -> Float[Tensor, "*any any2"]:
        sums = x.new_zeros((*x.shape[:-1], len(self.members)))
        return sums.index_add_(-1, self.sets, x[..., self.columns])

    def joint_removal(self, GO: Float[Tensor, "batch heads rows"]) -> Float[Tensor, "batch heads rows any"]:
        """The change without each set; where it has nearly all weight, the other columns are summed one by one."""
        rest = (self.A.sum(dim=-1) + self.sink)[..., None] - self.A_S
        GV_rest = self.parts.sum(dim=-1)[..., None] - self.GV_S
        *rows, number = ((rest < NEARLY_NOTHING) & (self.A_S > 0.0)).nonzero(as_tuple=True)
        if len(number):
            others = ~self.members[number]
            rest[*rows, number] = (self.A[*rows] * others).sum(dim=-1) + self.sink[*rows]
            GV_rest[*rows, number] = (self.parts[*rows] * others).sum(dim=-1)
        return joint_removal_influence(self.A_S, self.GV_S, rest, GV_rest, GO[..., None].expand(rest.shape))
