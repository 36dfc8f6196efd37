"""Layers: the parts of a Transformer that hold parameters, each replaceable by another of its kind."""

from transom.layers.attention import MultiHeadAttention, SelfAttention
from transom.layers.blocks import ARRANGEMENTS, NORMS, Arrangement, NoSkip, PostNorm, PreNorm, Stack
from transom.layers.embedding import Embedding
from transom.layers.feed_forward import FEED_FORWARDS, FeedForward, GatedFeedForward, SwiGLU
from transom.layers.kv_cache import BlockCache, CrossCache, SelfCache, StackCache
from transom.layers.position_encoding import NoPositions, Positions, PositionSizes
from transom.layers.positions import POSITIONS, Alibi, Learned, Relative, RelativeBuckets, Rotary, Sinusoidal
from transom.layers.projections import LowRank, NarrowLinear, Projection

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
    "GatedFeedForward",
    "Learned",
    "LowRank",
    "MultiHeadAttention",
    "NarrowLinear",
    "NoPositions",
    "NoSkip",
    "PositionSizes",
    "Positions",
    "PostNorm",
    "PreNorm",
    "Projection",
    "Relative",
    "RelativeBuckets",
    "Rotary",
    "SelfAttention",
    "SelfCache",
    "Sinusoidal",
    "Stack",
    "StackCache",
    "SwiGLU",
]
