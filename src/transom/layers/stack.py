"""Blocks one after another."""

from collections.abc import Callable, Iterable

from jaxtyping import Float
from torch import Tensor, nn

from transom.equations.masks import Mask
from transom.layers.blocks import Arrangement
from transom.layers.cache import StackCache
from transom.layers.checks import check_sizes
from transom.layers.positions import Positions
from transom.names import Misfit


class Stack(nn.Module):
    """`layers` blocks, each made by its own call of `build`, and the norm that some arrangements need at the end.

    A copied block would start with the same parameters as the original, and a block used twice would stay the same.
    """

    def __init__(self, build: Callable[[], Arrangement], layers: int) -> None:
        super().__init__()
        check_sizes(layers=layers)
        blocks = [build() for _ in range(layers)]
        check_apart(blocks)
        self.blocks = nn.ModuleList(blocks)
        self.closing = blocks[-1].closing()

    def forward(
        self,
        x: Float[Tensor, "batch token d_model"],
        source: Float[Tensor, "batch source any"] | None = None,
        allowed: Tensor | Mask | None = None,
        source_allowed: Tensor | Mask | None = None,
        causal: bool = False,
        cache: StackCache | None = None,
    ) -> Float[Tensor, "batch token d_model"]:
        """x after all blocks; the arguments are those of a block."""
        for block, kept in zip(self.blocks, self.kept(cache), strict=True):
            x = block(x, source, allowed, source_allowed, causal, kept)
        return self.closing(x)

    def new_cache(self) -> StackCache:
        """An empty cache, one part per block."""
        return StackCache(len(self.blocks))

    def kept(self, cache: StackCache | None) -> Iterable[object]:
        layers = len(self.blocks)
        if cache is None:
            return [None] * layers
        if len(cache.blocks) != layers:
            raise Misfit(
                f"this stack has layers={layers}, but the cache has layers={len(cache.blocks)}; use stack.new_cache()"
            )
        return cache.blocks


def check_apart(blocks: list[Arrangement]) -> None:
    """No two blocks are one, or share a parameter; position parts alone may be shared."""
    seen: set[int] = set()
    for layer, block in enumerate(blocks):
        own = {
            id(parameter)
            for module in block.modules()
            if not isinstance(module, Positions)
            for parameter in module.parameters(recurse=False)
        }
        if own & seen:
            raise Misfit(
                f"each call of build must make a new block, but layer {layer} shares parameters with an earlier one;"
                " make its parts inside build"
            )
        seen |= own
