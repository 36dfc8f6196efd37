"""The parts of a model, built by name."""

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
    Sizes,
    Stack,
)
from transom.layers.checks import divided
from transom.models.config import Config


def embedding(config: Config, vocabulary: int) -> Embedding:
    """Tokens to vectors, with the positions that enter there."""
    part = positions(config)
    return Embedding(
        vocabulary,
        config.d_model,
        padding=config.padding,
        scaled=config.scaled,
        positions=part if part.enters == "the embedding" else None,
        dropout=config.dropout,
    )


def stack(config: Config, layers: int, cross: bool = False) -> Stack:
    """`layers` blocks; with `cross`, each looks at a source as well."""
    return Stack(lambda: block(config, cross), layers)


def block(config: Config, cross: bool) -> Arrangement:
    """One block, its parts new."""
    part = positions(config)
    feed_forward = FEED_FORWARDS[config.feed_forward]
    return ARRANGEMENTS[config.arrangement](
        attention(config, part if part.enters == "attention" else None),
        feed_forward(config.d_model, config.d_hidden, bias=config.bias, dropout=config.hidden_dropout),
        attention(config) if cross else None,
        norm=norm(config),
        dropout=config.dropout,
    )


def attention(config: Config, part: Positions | None = None) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        kv_heads=config.kv_heads,
        d_head=config.d_head,
        value_rank=config.value_rank,
        bias=config.bias,
        narrow=config.narrow,
        positions=part,
        dropout=config.attention_dropout,
    )


def positions(config: Config) -> Positions:
    words, otherwise = ("d_model", "heads"), ", or give d_head"
    d_head = config.d_head or divided(config.d_model, config.heads, words, otherwise)
    return POSITIONS[config.positions].for_sizes(Sizes(config.d_model, config.heads, d_head, config.longest))


def norm(config: Config) -> Callable[[int], nn.Module]:
    """Builds a norm for d_model; where the model has no biases, its norms have none either."""
    build = NORMS[config.norm]
    return build if config.bias else partial(without_bias, build)


def without_bias(build: Callable[[int], nn.Module], d_model: int) -> nn.Module:
    part = build(d_model)
    if getattr(part, "bias", None) is not None:
        part.register_parameter("bias", None)
    return part
