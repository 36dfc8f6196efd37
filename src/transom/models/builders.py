"""The layers of a model, built from its config: the effect of each setting."""

from collections.abc import Callable
from functools import partial

from torch import nn

from transom.layers import (
    ARRANGEMENTS,
    FEED_FORWARDS,
    NORMS,
    POSITIONS,
    Arrangement,
    Embedding,
    MultiHeadAttention,
    Positions,
    PositionSizes,
    Stack,
)
from transom.layers.checks import divide_evenly
from transom.models.config import Config

SHARED_POSITIONS = ("buckets",)  # one table for all blocks of a stack


def build_embedding(config: Config, vocabulary: int) -> Embedding:
    """The embedding, with the positions that enter there."""
    positions = build_positions(config)
    return Embedding(
        vocabulary,
        config.d_model,
        padding=config.padding,
        scaled=config.scaled,
        positions=positions if positions.enters == "the embedding" else None,
        dropout=config.dropout,
        token_types=config.token_types,
        norm=build_norm(config) if config.embedding_norm else None,
    )


def build_stack(config: Config, layers: int, cross: bool = False, causal: bool = False) -> Stack:
    """`layers` blocks; with `cross`, each attends to a source as well."""
    shared = build_positions(config, causal) if config.positions in SHARED_POSITIONS else None
    numbers = iter(range(layers))

    def build() -> Arrangement:
        positions = build_positions(config, causal) if shared is None else shared
        return build_block(config, cross, positions, layer_window(config, next(numbers)))

    return Stack(build, layers)


def build_block(config: Config, cross: bool, positions: Positions, window: int | None) -> Arrangement:
    """One block of new parts; only positions may be those of other blocks."""
    build_feed_forward = FEED_FORWARDS[config.feed_forward]
    hidden_bias = config.bias if config.hidden_bias is None else config.hidden_bias
    return ARRANGEMENTS[config.arrangement](
        build_attention(config, positions if positions.enters == "attention" else None, window),
        build_feed_forward(config.d_model, config.d_hidden, bias=hidden_bias, dropout=config.hidden_dropout),
        build_attention(config) if cross else None,
        norm=build_norm(config),
        dropout=config.dropout,
    )


def build_attention(
    config: Config, positions: Positions | None = None, window: int | None = None
) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        kv_heads=config.kv_heads,
        d_head=config.d_head,
        value_rank=config.value_rank,
        bias=config.bias if config.qkv_bias is None else config.qkv_bias,
        narrow=config.narrow,
        positions=positions,
        dropout=config.attention_dropout,
        output_bias=config.bias if config.output_bias is None else config.output_bias,
        qk_norm=build_norm(config) if config.qk_norm else None,
        scale=config.attention_scale,
        window=window,
    )


def layer_window(config: Config, layer: int) -> int | None:
    """The window of a layer, None if it has none."""
    has_window = config.sliding_layers is None or layer in config.sliding_layers
    return config.sliding_window if has_window else None


def build_positions(config: Config, causal: bool = False) -> Positions:
    d_head = config.d_head or divide_evenly(config.d_model, config.heads, ("d_model", "heads"), ", or give d_head")
    sizes = PositionSizes(
        config.d_model,
        config.heads,
        d_head,
        config.longest,
        base=config.position_base,
        halves=config.position_halves,
        scaling=config.rotary_scaling,
        offset=config.position_offset,
        buckets=config.buckets,
        farthest=config.farthest,
        causal=causal,
    )
    return POSITIONS[config.positions].for_sizes(sizes)


def build_norm(config: Config) -> Callable[[int], nn.Module]:
    """A function that builds a norm for d_model; without biases in the model, norms have none either."""
    build = partial(NORMS[config.norm], eps=config.norm_eps)
    return build if config.bias else partial(without_bias, build)


def without_bias(build: Callable[[int], nn.Module], d_model: int) -> nn.Module:
    norm = build(d_model)
    if getattr(norm, "bias", None) is not None:
        norm.register_parameter("bias", None)
    return norm
