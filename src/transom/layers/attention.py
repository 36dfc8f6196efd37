"""Attention with parameters: a single head, and many heads with every dimension free."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from transom.equations.biases import Bias
from transom.equations.heads import merge_heads, split_heads
from transom.equations.masks import Mask, sliding_window
from transom.equations.region import Region
from transom.kernels import attend
from transom.kernels.problem import to_bias, to_mask
from transom.layers.checks import check_positive, check_share, check_vectors, divide_evenly
from transom.layers.kv_cache import CrossCache, SelfCache
from transom.layers.position_encoding import Heads, NoPositions, Positions, Vectors, token_positions
from transom.layers.projections import LowRank, NarrowLinear, Projection
from transom.names import Misfit, format_shape

Source = Float[Tensor, "batch source any"]
QKV = tuple[
    Float[Tensor, "batch heads queries d_head"],
    Float[Tensor, "batch kv_heads keys d_head"],
    Float[Tensor, "batch kv_heads keys d_value"],
]


class SelfAttention(nn.Module):
    """softmax(Q Kᵀ / √d_head) V with Q = x W_Q, K = x W_K, V = x W_V: one head; its output is d_value wide."""

    def __init__(self, d_model: int, d_head: int | None = None, d_value: int | None = None, bias: bool = False) -> None:
        super().__init__()
        d_head = d_model if d_head is None else d_head
        d_value = d_model if d_value is None else d_value
        check_positive(d_model=d_model, d_head=d_head, d_value=d_value)
        self.d_model, self.d_head, self.d_value = d_model, d_head, d_value
        self.W_Q = Projection(d_model, d_head, bias=bias)
        self.W_K = Projection(d_model, d_head, bias=bias)
        self.W_V = Projection(d_model, d_value, bias=bias)

    def project(self, x: Vectors) -> QKV:
        """Q, K and V with a heads axis of 1, as `transom.attend` and `transom.sight` take them."""
        check_vectors("self-attention", x, self.d_model, self.W_Q.weight)
        return self.W_Q(x)[:, None], self.W_K(x)[:, None], self.W_V(x)[:, None]

    def forward(
        self, x: Vectors, allowed: Tensor | Mask | None = None, causal: bool = False
    ) -> Float[Tensor, "batch token d_value"]:
        Q, K, V = self.project(x)
        return attend(Q, K, V, allowed=allowed, causal=causal)[:, 0]


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_h) W_O (Vaswani et al. 2017, section 3.2.2).

    kv_heads     heads of the keys and values, shared by groups of query heads (Ainslie et al. 2023)
    value_rank   low-rank values: V = x V_down V_up
    narrow       each head reads only its own slice of the vector, d_model / heads numbers
    positions    a part that enters in attention: Rotary, Alibi, Relative, RelativeBuckets
    d_source     width of the source in cross-attention, if it is not d_model
    output_bias  whether W_O has a bias; by default as the others
    qk_norm      builds a norm for d_head, which each query and each key passes before its position
    scale        of the scores, by default 1 / √d_head
    window       tokens that a query may attend to on each side, itself included; by default all
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        d_head: int | None = None,
        d_value: int | None = None,
        d_out: int | None = None,
        value_rank: int | None = None,
        bias: bool = True,
        *,
        narrow: bool = False,
        positions: Positions | None = None,
        dropout: float = 0.0,
        d_source: int | None = None,
        output_bias: bool | None = None,
        qk_norm: Callable[[int], nn.Module] | None = None,
        scale: float | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__()
        check_positive(d_model=d_model, heads=heads)
        if d_head is None:
            d_head = divide_evenly(d_model, heads, ("d_model", "heads"), ", or give d_head")
        self.d_model, self.heads, self.d_head = d_model, heads, d_head
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.d_value = d_head if d_value is None else d_value
        self.d_out = d_model if d_out is None else d_out
        self.d_source = d_model if d_source is None else d_source
        self.dropout, self.scale, self.window = dropout, scale, window
        self.check_sizes()
        if narrow:
            self.check_narrow(value_rank)
        self.positions = NoPositions() if positions is None else positions
        self.positions.check_place("attention", heads=heads, d_head=d_head)

        self.W_Q = build_projection(d_model, heads, d_head, bias, narrow)
        self.W_K = build_projection(self.d_source, self.kv_heads, d_head, bias, narrow)
        if value_rank is None:
            self.W_V = build_projection(self.d_source, self.kv_heads, self.d_value, bias, narrow)
        else:
            self.W_V = LowRank(self.d_source, value_rank, self.kv_heads * self.d_value, bias)
        self.W_O = Projection(heads * self.d_value, self.d_out, bias=bias if output_bias is None else output_bias)
        self.norm_Q, self.norm_K = (None, None) if qk_norm is None else (qk_norm(d_head), qk_norm(d_head))

    def forward(
        self,
        x: Vectors,
        source: Source | None = None,
        allowed: Tensor | Mask | None = None,
        bias: Tensor | Bias | None = None,
        causal: bool = False,
        cache: SelfCache | CrossCache | None = None,
    ) -> Float[Tensor, "batch token d_out"]:
        """Self-attention of x or, with a source or a filled CrossCache, cross-attention.

        `allowed`, `bias` and `causal` are those of `transom.attend`; they cover cached keys too.
        """
        Q, K, V = self.project(x, source, cache)
        dropout = self.dropout if self.training else 0.0
        allowed, bias = self.combine_window(allowed, Q, K), self.combine_bias(bias, Q, K)
        heads = attend(Q, K, V, allowed=allowed, bias=bias, causal=causal, scale=self.scale, dropout=dropout)
        return self.W_O(merge_heads(heads))

    def project(self, x: Vectors, source: Source | None = None, cache: SelfCache | CrossCache | None = None) -> QKV:
        """Q, K and V split into heads, with rotary positions, as `transom.attend` and `transom.sight` take them.

        What positions add to the scores comes from `positions.bias`. A cache is extended, or filled, as in `forward`.
        """
        self.check(x, source, cache)
        start = cache.length if isinstance(cache, SelfCache) else 0
        Q = normalize(split_heads(self.W_Q(x), self.heads), self.norm_Q)
        Q = self.positions.rotate(Q, token_positions(x.shape[1], start, x.device))
        if isinstance(cache, CrossCache):
            K, V = cache.fill(source, self.keys_and_values)
            check_batch(x, K)
        else:
            K, V = self.keys_and_values(x if source is None else source, start)
        if isinstance(cache, SelfCache):
            K, V = cache.extend(K, V)
        return Q, K, V

    def keys_and_values(self, x: Float[Tensor, "batch keys any"], start: int = 0) -> tuple[Tensor, Tensor]:
        """K and V of x, split into heads; `start` is the position of its first token."""
        K = normalize(split_heads(self.W_K(x), self.kv_heads), self.norm_K)
        K = self.positions.rotate(K, token_positions(x.shape[1], start, x.device))
        return K, split_heads(self.W_V(x), self.kv_heads)

    def combine_window(self, allowed: Tensor | Mask | None, Q: Tensor, K: Tensor) -> Tensor | Mask | None:
        """The caller's mask and the window of this layer."""
        if self.window is None:
            return allowed
        of_caller = to_mask(allowed, (Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2]), Q.device)
        return sliding_window(self.window) if of_caller is None else of_caller & sliding_window(self.window)

    def combine_bias(self, bias: Tensor | Bias | None, Q: Tensor, K: Tensor) -> Tensor | Bias | None:
        """The caller's bias plus that of the positions; their sum is materialized only if there are both."""
        of_positions = self.positions.bias(Q.device)
        if of_positions is None or bias is None:
            return bias if of_positions is None else of_positions
        region = Region((Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2]), device=Q.device)
        of_caller = to_bias(bias, region.full_shape, Q.device)
        if of_caller is None:
            return of_positions
        return of_positions.materialize(region) + of_caller.materialize(region)

    def check(self, x: Tensor, source: Tensor | None, cache: SelfCache | CrossCache | None) -> None:
        """Raise an error for inputs that do not fit this layer, or each other."""
        layer = "multi-head attention"
        check_vectors(layer, x, self.d_model, self.W_O.weight)
        if source is not None:
            check_vectors(layer, source, self.d_source, self.W_O.weight, name="source", axis="source")
            check_batch(x, source)
            if isinstance(cache, SelfCache):
                raise Misfit("cross-attention keeps its source in a CrossCache, but a SelfCache came; use CrossCache()")
        elif not isinstance(cache, CrossCache):
            if self.d_source != self.d_model:
                raise Misfit(
                    f"this attention takes a source of d_model={self.d_source}, but none came; give source, or leave"
                    " d_source out for self-attention"
                )
            return
        if self.positions.enters != "nowhere":
            raise Misfit(
                f"{type(self.positions).__name__} positions count along one sequence, but this is cross-attention;"
                " build it without positions"
            )
        if self.window is not None:
            raise Misfit(
                f"a window counts along one sequence, but this is cross-attention with window={self.window};"
                " build it without a window"
            )

    def check_sizes(self) -> None:
        """Raise an error for sizes that no attention can have."""
        names = ("d_head", "kv_heads", "d_value", "d_out", "d_source")
        check_positive(**{name: getattr(self, name) for name in names})
        check_share("dropout", self.dropout)
        divide_evenly(self.heads, self.kv_heads, ("heads", "kv_heads"))
        if self.window is not None:
            check_positive(window=self.window)

    def check_narrow(self, value_rank: int | None) -> None:
        """Raise an error for options that narrow heads cannot have."""
        if self.kv_heads != self.heads:
            raise Misfit(
                f"narrow heads each read their own slice, but heads={self.heads} would share kv_heads={self.kv_heads};"
                " leave kv_heads out"
            )
        if value_rank is not None:
            raise Misfit(
                f"narrow heads have small values already, but value_rank={value_rank} came; leave one of the two out"
            )
        for name in ("d_model", "d_source"):
            divide_evenly(getattr(self, name), self.heads, (name, "heads"), ", or leave narrow out")

    def extra_repr(self) -> str:
        names = ("d_model", "heads", "kv_heads", "d_head", "d_value", "d_out", "dropout")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


def build_projection(d_in: int, heads: int, d_head: int, bias: bool, narrow: bool) -> Projection | NarrowLinear:
    """A map to heads · d_head numbers, from the whole vector or from each head's slice."""
    return NarrowLinear(d_in, heads, d_head, bias) if narrow else Projection(d_in, heads * d_head, bias=bias)


def normalize(x: Heads, norm: nn.Module | None) -> Heads:
    """Queries or keys after the norm that the layer has for them, if it has one (Henry et al. 2020)."""
    return x if norm is None else norm(x)


def check_batch(x: Tensor, source: Tensor) -> None:
    """There is one source sequence, or its keys, for each sequence of x."""
    if x.shape[0] != source.shape[0]:
        raise Misfit(
            f"x is {format_shape(x, 'batch token d_model')}, but the source has batch={source.shape[0]};"
            " give one source sequence per sequence of x"
        )
