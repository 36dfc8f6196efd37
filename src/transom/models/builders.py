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
    )


def build_stack(config: Config, layers: int, cross: bool = False) -> Stack:
    """`layers` blocks; with `cross`, each attends to a source as well."""
    return Stack(lambda: build_block(config, cross), layers)


def build_block(config: Config, cross: bool) -> Arrangement:
    """One block of new parts."""
    positions = build_positions(config)
    build_feed_forward = FEED_FORWARDS[config.feed_forward]
    return ARRANGEMENTS[config.arrangement](
        build_attention(config, positions if positions.enters == "attention" else None),
        build_feed_forward(config.d_model, config.d_hidden, bias=config.bias, dropout=config.hidden_dropout),
        build_attention(config) if cross else None,
        norm=build_norm(config),
        dropout=config.dropout,
    )


def build_attention(config: Config, positions: Positions | None = None) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        kv_heads=config.kv_heads,
        d_head=config.d_head,
        value_rank=config.value_rank,
        bias=config.bias,
        narrow=config.narrow,
        positions=positions,
        dropout=config.attention_dropout,
    )


def build_positions(config: Config) -> Positions:
    d_head = config.d_head or divide_evenly(config.d_model, config.heads, ("d_model", "heads"), ", or give d_head")
    return POSITIONS[config.positions].for_sizes(PositionSizes(config.d_model, config.heads, d_head, config.longest))


def build_norm(config: Config) -> Callable[[int], nn.Module]:
    """A function that builds a norm for d_model; without biases in the model, norms have none either."""
    build = NORMS[config.norm]
    return build if config.bias else partial(without_bias, build)


def without_bias(build: Callable[[int], nn.Module], d_model: int) -> nn.Module:
    norm = build(d_model)
    if getattr(norm, "bias", None) is not None:
        norm.register_parameter("bias", None)
    return norm
