"""What is added to the scores before the softmax: given whole, or worked out block by block from a formula."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.blocks import Block, picked
from transom.equations.positions import clipped_distance
from transom.names import Misfit, spelled

Whole = tuple[int, int, int, int]


class Bias:
    """Added to the scores; `source` is the one tensor it comes from, which may want a gradient."""

    source: Tensor

    @property
    def by_row(self) -> bool:
        """Whether it tells one row from another."""
        return True

    def added(self, block: Block) -> Float[Tensor, "#batch #heads #rows #columns"]:
        """What is added to the block's scores."""
        raise NotImplementedError

    def tell(self, gradient: Tensor, block: Block, of_scores: Float[Tensor, "batch heads rows columns"]) -> None:
        """Add the gradient that a block's scores send back to `source` into `gradient`; the block is made of slices."""
        raise NotImplementedError

    def check(self, whole: Whole, device: torch.device) -> None:
        """Complain if this bias does not fit an attention of that size."""
        if self.source.device != device:
            raise Misfit(f"bias is on {self.source.device}, but Q is on {device}; move it with .to(Q.device)")


def reduced(x: Tensor, shape: torch.Size) -> Tensor:
    """x summed over the axes that have size 1 in `shape`: the way back through broadcasting."""
    axes = [axis for axis, size in enumerate(shape) if size == 1 and x.shape[axis] != 1]
    return x.sum(dim=axes, keepdim=True) if axes else x


@dataclass(frozen=True, eq=False)
class GivenBias(Bias):
    """A float tensor as it came, seen as (batch, heads, queries, keys)."""

    source: Float[Tensor, "#batch #heads #queries #keys"]

    def added(self, block: Block) -> Float[Tensor, "#batch #heads #rows #columns"]:
        return block.part(self.source)

    @property
    def by_row(self) -> bool:
        return self.source.shape[2] != 1

    def tell(self, gradient: Tensor, block: Block, of_scores: Float[Tensor, "batch heads rows columns"]) -> None:
        part = block.part(gradient)
        part += reduced(of_scores, part.shape)


@dataclass(frozen=True, eq=False)
class DistanceBias(Bias):
    """−slope · |distance|, one slope per head: ALiBi (Press et al. 2022), never held as queries × keys."""

    source: Float[Tensor, " heads"]

    def distances(self, block: Block) -> Float[Tensor, "1 1 rows columns"]:
        return (block.key_positions() - block.query_positions()).abs().to(self.source.dtype)[None, None]

    def added(self, block: Block) -> Float[Tensor, "#batch #heads #rows #columns"]:
        return -picked(self.source, 0, block.heads)[None, :, None, None] * self.distances(block)

    def tell(self, gradient: Tensor, block: Block, of_scores: Float[Tensor, "batch heads rows columns"]) -> None:
        part = picked(gradient, 0, block.heads)
        part -= (of_scores * self.distances(block)).sum(dim=(0, 2, 3))

    def check(self, whole: Whole, device: torch.device) -> None:
        heads_fit(self.source, "heads", whole)
        super().check(whole, device)


@dataclass(frozen=True, eq=False)
class TableBias(Bias):
    """A learned number per head and clipped distance (after Shaw et al. 2018 and Raffel et al. 2020)."""

    source: Float[Tensor, "heads distances"]

    def places(self, block: Block) -> Tensor:
        reach = self.source.shape[1] // 2
        return clipped_distance(block.query_positions(), block.key_positions(), reach)

    def added(self, block: Block) -> Float[Tensor, "#batch #heads #rows #columns"]:
        return picked(self.source, 0, block.heads)[:, self.places(block)][None]

    def tell(self, gradient: Tensor, block: Block, of_scores: Float[Tensor, "batch heads rows columns"]) -> None:
        part = picked(gradient, 0, block.heads)
        part.index_add_(1, self.places(block).flatten(), of_scores.sum(dim=0).flatten(1))

    def check(self, whole: Whole, device: torch.device) -> None:
        heads_fit(self.source, "heads distances", whole)
        super().check(whole, device)


def heads_fit(source: Tensor, axes: str, whole: Whole) -> None:
    if source.shape[0] != whole[1]:
        raise Misfit(
            f"the bias is {spelled(source, axes)}, but the attention has heads={whole[1]}; build it for as many heads"
        )
