"""What is added to the scores before the softmax: a tensor, or a formula computed region by region."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.positions import clipped_distance
from transom.equations.region import FullShape, Region, index_axis
from transom.names import Misfit, format_shape

Added = Float[Tensor, "#batch #heads #rows #columns"]
Scores = Float[Tensor, "batch heads rows columns"]


class Bias:
    """Added to the scores; `source` is the one tensor it is computed from, which may need a gradient."""

    source: Tensor

    @property
    def by_row(self) -> bool:
        """Whether rows differ."""
        return True

    def materialize(self, region: Region) -> Added:
        """What is added to the region's scores."""
        raise NotImplementedError

    def add_gradient(self, grad_source: Tensor, region: Region, grad_scores: Scores) -> None:
        """Add what a region's scores contribute to the gradient of `source`; the region is made of slices."""
        raise NotImplementedError

    def check(self, full_shape: FullShape, device: torch.device) -> None:
        """Raise an error if this bias does not fit an attention of that shape."""
        if self.source.device != device:
            raise Misfit(f"bias is on {self.source.device}, but Q is on {device}; move it with .to(Q.device)")


@dataclass(frozen=True, eq=False)
class TensorBias(Bias):
    """A float tensor with the axes (batch, heads, queries, keys)."""

    source: Float[Tensor, "#batch #heads #queries #keys"]

    def materialize(self, region: Region) -> Added:
        return region.crop(self.source)

    @property
    def by_row(self) -> bool:
        return self.source.shape[2] != 1

    def add_gradient(self, grad_source: Tensor, region: Region, grad_scores: Scores) -> None:
        part = region.crop(grad_source)
        part += grad_scores.sum_to_size(part.shape)


class HeadBias(Bias):
    """A bias from a small tensor whose first axis is heads."""

    source_axes: ClassVar[str]

    def check(self, full_shape: FullShape, device: torch.device) -> None:
        if self.source.shape[0] != full_shape[1]:
            raise Misfit(
                f"the bias is {format_shape(self.source, self.source_axes)}, but the attention has"
                f" heads={full_shape[1]}; build it for as many heads"
            )
        super().check(full_shape, device)


@dataclass(frozen=True, eq=False)
class DistanceBias(HeadBias):
    """−slope · |distance|, one slope per head: ALiBi (Press et al. 2022); no queries × keys tensor is held."""

    source: Float[Tensor, " heads"]
    source_axes = "heads"

    def distances(self, region: Region) -> Float[Tensor, "1 1 rows columns"]:
        return (region.key_positions() - region.query_positions()).abs().to(self.source.dtype)[None, None]

    def materialize(self, region: Region) -> Added:
        return -index_axis(self.source, 0, region.heads)[None, :, None, None] * self.distances(region)

    def add_gradient(self, grad_source: Tensor, region: Region, grad_scores: Scores) -> None:
        part = index_axis(grad_source, 0, region.heads)
        part -= (grad_scores * self.distances(region)).sum(dim=(0, 2, 3))


@dataclass(frozen=True, eq=False)
class RelativeBias(HeadBias):
    """A learned number per head and clipped distance (after Shaw et al. 2018 and Raffel et al. 2020)."""

    source: Float[Tensor, "heads distances"]
    source_axes = "heads distances"

    def table_indices(self, region: Region) -> Tensor:
        reach = self.source.shape[1] // 2
        return clipped_distance(region.query_positions(), region.key_positions(), reach)

    def materialize(self, region: Region) -> Added:
        return index_axis(self.source, 0, region.heads)[:, self.table_indices(region)][None]

    def add_gradient(self, grad_source: Tensor, region: Region, grad_scores: Scores) -> None:
        part = index_axis(grad_source, 0, region.heads)
        part.index_add_(1, self.table_indices(region).flatten(), grad_scores.sum(dim=0).flatten(1))
