"""A block: attention, then feed-forward, in one of several arrangements of residuals and norms."""

from collections.abc import Callable
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from transom.equations.masks import Mask
from transom.layers.attention import MultiHeadAttention
from transom.layers.cache import BlockCache, CrossCache, SelfCache
from transom.layers.checks import check_vectors
from transom.layers.dropout import Dropout
from transom.layers.norms import Norm
from transom.names import Misfit

Vectors = Float[Tensor, "batch token d_model"]
Anywhere = Float[Tensor, "*any d_model"]  # the equation of a block is the same for every vector
Part = Callable[[Tensor], Tensor]


class Arrangement(nn.Module):
    """The parts of a block, handed in; an arrangement says in `arranged` how they follow each other.

    cross     cross-attention, for blocks that look at a source as well
    norm      builds a norm for d_model; called once for each place named in `normed`
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
        for place in self.normed:
            if place != "cross" or cross is not None:
                self.add_module(f"norm_{place}", norm(self.d_model))
        self.dropout = Dropout(dropout)

    def arranged(self, x: Anywhere, attention: Part, cross: Part | None, feed_forward: Part) -> Anywhere:
        """The block's equation; the parts come with their masks, caches and dropout, `cross` is None without one."""
        raise NotImplementedError

    def closing(self) -> nn.Module:
        """What must follow the last block of a stack."""
        return nn.Identity()

    def forward(
        self,
        x: Vectors,
        source: Float[Tensor, "batch source any"] | None = None,
        allowed: Tensor | Mask | None = None,
        source_allowed: Tensor | Mask | None = None,
        causal: bool = False,
        cache: BlockCache | None = None,
    ) -> Vectors:
        """x after this block; `allowed` and `causal` say who sees whom in x, `source_allowed` what of the source."""
        own, looked_at = self.caches(x, source, cache)

        def attention(x: Tensor) -> Tensor:
            return self.dropout(self.attention(x, allowed=allowed, causal=causal, cache=own))

        def cross(x: Tensor) -> Tensor:
            assert self.cross is not None
            return self.dropout(self.cross(x, source, allowed=source_allowed, cache=looked_at))

        def feed_forward(x: Tensor) -> Tensor:
            return self.dropout(self.feed_forward(x))

        return self.arranged(x, attention, None if self.cross is None else cross, feed_forward)

    def caches(
        self, x: Tensor, source: Tensor | None, cache: BlockCache | None
    ) -> tuple[SelfCache | None, CrossCache | None]:
        """The caches of the two attentions, once x and source are found to fit the block."""
        check_vectors("this block", x, self.d_model, self.attention.W_O.weight)
        own, cross = (None, None) if cache is None else (cache.own, cache.cross)
        if self.cross is None and source is not None:
            raise Misfit(
                "this block has no cross-attention, but a source came; build it with cross=MultiHeadAttention(…)"
            )
        if self.cross is not None and source is None and (cross is None or cross.held is None):
            raise Misfit(
                "this block looks at a source, but none came and no cache holds one;"
                " give source, or build it without cross"
            )
        return own, cross

    def check_parts(self) -> None:
        """Every part takes and gives vectors of one width."""
        for name, part in (("attention", self.attention), ("cross", self.cross), ("feed_forward", self.feed_forward)):
            for word in ("d_model", "d_out"):
                width = getattr(part, word, self.d_model)
                if width != self.d_model:
                    raise Misfit(
                        f"a block keeps d_model={self.d_model} throughout, but its {name} has {word}={width};"
                        f" build it with {word}={self.d_model}"
                    )


class PostNorm(Arrangement):
    """LayerNorm(x + Part(x)) around each part: the paper (Vaswani et al. 2017, section 3.1)."""

    def arranged(self, x: Anywhere, attention: Part, cross: Part | None, feed_forward: Part) -> Anywhere:
        x = self.norm_attention(x + attention(x))
        if cross is not None:
            x = self.norm_cross(x + cross(x))
        return self.norm_feed_forward(x + feed_forward(x))


class PreNorm(Arrangement):
    """x + Part(LayerNorm(x)) around each part, and one norm after the last block (Xiong et al. 2020, figure 1b)."""

    def arranged(self, x: Anywhere, attention: Part, cross: Part | None, feed_forward: Part) -> Anywhere:
        x = x + attention(self.norm_attention(x))
        if cross is not None:
            x = x + cross(self.norm_cross(x))
        return x + feed_forward(self.norm_feed_forward(x))

    def closing(self) -> nn.Module:
        # What the residuals add up to is never normed on its way, so it is normed once at the end.
        return self.norm(self.d_model)


class NoSkip(Arrangement):
    """LayerNorm(FFN(A) + A) with A = Attention(x): nothing goes around the attention, one norm per block.

    With a source, A is the sum of what self-attention found and what cross-attention then found with it:
    cross-attention alone would pass on nothing of x but where it looked.
    """

    normed = ("feed_forward",)

    def arranged(self, x: Anywhere, attention: Part, cross: Part | None, feed_forward: Part) -> Anywhere:
        A = attention(x)
        if cross is not None:
            A = A + cross(A)
        return self.norm_feed_forward(feed_forward(A) + A)


ARRANGEMENTS: dict[str, type[Arrangement]] = {"post_norm": PostNorm, "pre_norm": PreNorm, "no_skip": NoSkip}
