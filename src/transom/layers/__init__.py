"""Layers: the parts of a Transformer that hold parameters, each replaceable by another of its kind."""

from transom.layers.attention import MultiHeadAttention, SelfAttention
from transom.layers.blocks import ARRANGEMENTS, Arrangement, NoSkip, PostNorm, PreNorm
from transom.layers.cache import BlockCache, CrossCache, SelfCache, StackCache
from transom.layers.embedding import Embedding
from transom.layers.feed_forward import FEED_FORWARDS, FeedForward, SwiGLU
from transom.layers.norms import NORMS
from transom.layers.positions import (
    POSITIONS,
    Alibi,
    Learned,
    Nowhere,
    Positions,
    Relative,
    Rotary,
    Sinusoidal,
    Sizes,
)
from transom.layers.projections import LowRank, NarrowLinear, Projection
from transom.layers.stack import Stack

__all__ = [
    "ARRANGEMENTS",
    "FEED_FORWARDS",
    "NORMS",
    "POSITIONS",
    "Alibi",
    "Arrangement",
    "BlockCache",
    "CrossCache",
    "Embedding",
    "FeedForward",
    "Learned",
    "LowRank",
    "MultiHeadAttention",
    "NarrowLinear",
    "NoSkip",
    "Nowhere",
    "Positions",
    "PostNorm",
    "PreNorm",
    "Projection",
    "Relative",
    "Rotary",
    "SelfAttention",
    "SelfCache",
    "Sinusoidal",
    "Sizes",
    "Stack",
    "StackCache",
    "SwiGLU",
]
