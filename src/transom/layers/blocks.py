"""Transformer blocks (attention, feed-forward and norms, in post-norm, pre-norm or another order) and their stacks."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from transom.equations.masks import Mask
from transom.layers.attention import MultiHeadAttention, Source
from transom.layers.checks import check_positive, check_vectors
from transom.layers.dropout import Dropout
from transom.layers.kv_cache import BlockCache, CrossCache, SelfCache, StackCache
from transom.layers.position_encoding import Positions, Vectors
from transom.names import Misfit

Norm = Callable[[int], nn.Module]

# Each is built by NORMS[name](d_model, eps=…). PyTorch's default ε of RMSNorm depends on the dtype: the same parameters
# would be another function in half precision.
NORMS: dict[str, Callable[..., nn.Module]] = {"layer": nn.LayerNorm, "rms": partial(nn.RMSNorm, eps=1e-5)}


AnyVectors = Float[Tensor, "*any d_model"]  # the equation of a block is the same for every vector
Part = Callable[[Tensor], Tensor]


class Arrangement(nn.Module):
    """A block made of given parts; a subclass says in `combine` how they follow each other.

    cross     cross-attention, for blocks that attend to a source as well
    norm      builds a norm for d_model; called once for each part named in `normed`
    dropout   of each part's output
    """

    normed: ClassVar[tuple[str, ...]] = ("attention", "cross", "feed_forward")
    norm_attention: nn.Module
    norm_cross: nn.Module
    norm_feed_forward: nn.Module

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: nn.Module,
        cross: MultiHeadAttention | None = None,
        norm: Norm = nn.LayerNorm,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.d_model = attention.d_model
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.check_parts()
        self.norm = norm
        for part in self.normed:
            if part != "cross" or cross is not None:
                self.add_module(f"norm_{part}", norm(self.d_model))
        self.dropout = Dropout(dropout)

    def combine(self, x: AnyVectors, attention: Part, cross: Part | None, feed_forward: Part) -> AnyVectors:
        """The block's equation; each part comes with its mask, cache and dropout, and `cross` may be None."""
        raise NotImplementedError

    def final_norm(self) -> nn.Module:
        """The norm that must follow the last block of a stack."""
        return nn.Identity()

    def forward(
        self,
        x: Vectors,
        source: Source | None = None,
        allowed: Tensor | Mask | None = None,
        source_allowed: Tensor | Mask | None = None,
        causal: bool = False,
        cache: BlockCache | None = None,
    ) -> Vectors:
        """x after this block; `allowed` and `causal` mask x, `source_allowed` masks the source."""
        self_cache, cross_cache = self.split_cache(x, source, cache)

        def attention(x: Tensor) -> Tensor:
            return self.dropout(self.attention(x, allowed=allowed, causal=causal, cache=self_cache))

        def cross(x: Tensor) -> Tensor:
            assert self.cross is not None
            return self.dropout(self.cross(x, source, allowed=source_allowed, cache=cross_cache))

        def feed_forward(x: Tensor) -> Tensor:
            return self.dropout(self.feed_forward(x))

        return self.combine(x, attention, None if self.cross is None else cross, feed_forward)

    def split_cache(
        self, x: Tensor, source: Tensor | None, cache: BlockCache | None
    ) -> tuple[SelfCache | None, CrossCache | None]:
        """The caches of the two attentions, after a check that x and source fit the block."""
        check_vectors("this block", x, self.d_model, self.attention.W_O.weight)
        self_cache, cross_cache = (None, None) if cache is None else (cache.attention, cache.cross)
        if self.cross is None and source is not None:
            raise Misfit(
                "this block has no cross-attention, but a source came; build it with cross=MultiHeadAttention(…)"
            )
        if self.cross is not None and source is None and (cross_cache is None or cross_cache.kv is None):
            raise Misfit(
                "this block attends to a source, but none came and no cache holds one;"
                " give source, or build it without cross"
            )
        return self_cache, cross_cache

    def check_parts(self) -> None:
        """Every part takes and returns vectors of one width."""
        for name, part in (("attention", self.attention), ("cross", self.cross), ("feed_forward", self.feed_forward)):
            for axis in ("d_model", "d_out"):
                width = getattr(part, axis, self.d_model)
                if width != self.d_model:
                    raise Misfit(
                        f"a block keeps d_model={self.d_model} throughout, but its {name} has {axis}={width};"
                        f" build it with {axis}={self.d_model}"
                    )


class PostNorm(Arrangement):
    """LayerNorm(x + Part(x)) around each part: the paper (Vaswani et al. 2017, section 3.1)."""

    def combine(self, x: AnyVectors, attention: Part, cross: Part | None, feed_forward: Part) -> AnyVectors:
        x = self.norm_attention(x + attention(x))
        if cross is not None:
            x = self.norm_cross(x + cross(x))
        return self.norm_feed_forward(x + feed_forward(x))


class PreNorm(Arrangement):
    """x + Part(LayerNorm(x)) around each part, and one norm after the last block (Xiong et al. 2020, figure 1b)."""

    def combine(self, x: AnyVectors, attention: Part, cross: Part | None, feed_forward: Part) -> AnyVectors:
        x = x + attention(self.norm_attention(x))
        if cross is not None:
            x = x + cross(self.norm_cross(x))
        return x + feed_forward(self.norm_feed_forward(x))

    def final_norm(self) -> nn.Module:
        # The sum of the residuals passes all blocks without a norm, so it gets one at the end.
        return self.norm(self.d_model)


class NoSkip(Arrangement):
    """LayerNorm(FFN(A) + A) with A = Attention(x): no residual around the attention, one norm per block.

    With a source, A is the output of self-attention plus that of cross-attention: cross-attention alone would pass on
    nothing of x except its weights.
    """

    normed = ("feed_forward",)

    def combine(self, x: AnyVectors, attention: Part, cross: Part | None, feed_forward: Part) -> AnyVectors:
        A = attention(x)
        if cross is not None:
            A = A + cross(A)
        return self.norm_feed_forward(feed_forward(A) + A)


ARRANGEMENTS: dict[str, type[Arrangement]] = {"post_norm": PostNorm, "pre_norm": PreNorm, "no_skip": NoSkip}


class Stack(nn.Module):
    """`layers` blocks, each from its own call of `build`, and the final norm that some arrangements need.

    Blocks are never copied: a copy would start with the same parameters as its original.
    """

    def __init__(self, build: Callable[[], Arrangement], layers: int) -> None:
        super().__init__()
        check_positive(layers=layers)
        blocks = [build() for _ in range(layers)]
        check_unshared(blocks)
        self.blocks = nn.ModuleList(blocks)
        self.closing = blocks[-1].final_norm()

    def forward(
        self,
        x: Vectors,
        source: Source | None = None,
        allowed: Tensor | Mask | None = None,
        source_allowed: Tensor | Mask | None = None,
        causal: bool = False,
        cache: StackCache | None = None,
    ) -> Vectors:
        """x after all blocks; the arguments are those of a block."""
        for block, block_cache in zip(self.blocks, self.block_caches(cache), strict=True):
            x = block(x, source, allowed, source_allowed, causal, block_cache)
        return self.closing(x)

    def new_cache(self) -> StackCache:
        """An empty cache for these blocks."""
        return StackCache(len(self.blocks))

    def block_caches(self, cache: StackCache | None) -> Iterable[BlockCache | None]:
        """The cache of each block, or None for each."""
        layers = len(self.blocks)
        if cache is None:
            return [None] * layers
        if len(cache.blocks) != layers:
            raise Misfit(
                f"this stack has layers={layers}, but the cache has layers={len(cache.blocks)}; use stack.new_cache()"
            )
        return cache.blocks


def check_unshared(blocks: list[Arrangement]) -> None:
    """Blocks share no parameters, except those of position encodings."""
    earlier: set[int] = set()
    for layer, block in enumerate(blocks):
        parameters = {
            id(parameter)
            for module in block.modules()
            if not isinstance(module, Positions)
            for parameter in module.parameters(recurse=False)
        }
        if parameters & earlier:
            raise Misfit(
                f"each call of build must make a new block, but layer {layer} shares parameters with an earlier one;"
                " make its parts inside build"
            )
        earlier |= parameters
