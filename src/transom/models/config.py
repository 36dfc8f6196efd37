"""What a model is built from, as small frozen settings: every part is a choice by name from the tables of `layers`."""

from typing import Any, ClassVar

import msgspec

from transom.files.strict import chosen
from transom.layers import ARRANGEMENTS, FEED_FORWARDS, NORMS, POSITIONS
from transom.models.initial import INITIALS
from transom.models.pooling import POOLINGS
from transom.names import Misfit

# The most of each size: what lies beyond is no model but a mistake in a file, and would be paid for in memory or time.
LARGEST = 2**24
LARGEST_OF = {"d_model": 2**18, "heads": 2**12, "layers": 1000, "encoder_layers": 1000, "decoder_layers": 1000}
MOST_LABELS = 10_000


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all models have in common.

    kv_heads, d_head, narrow, value_rank   as in `MultiHeadAttention`
    bias                each projection and each norm with its bias
    scaled              embeddings times √d_model
    dropout             of the embeddings and of each part's output, as in the paper
    attention_dropout   of the attention weights; without it the fused kernel is used in training too
    hidden_dropout      inside the feed-forward part
    longest             tokens of the longest sequence; a firm limit where positions are learned
    padding             the token that fills up short sequences
    """

    d_model: int
    heads: int
    d_hidden: int
    kv_heads: int | None = None
    d_head: int | None = None
    value_rank: int | None = None
    narrow: bool = False
    bias: bool = True
    positions: str = "sinusoidal"
    norm: str = "layer"
    arrangement: str = "post_norm"
    feed_forward: str = "relu"
    initial: str = "xavier"
    scaled: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    longest: int = 1024
    padding: int | None = 0

    SIZES: ClassVar[tuple[str, ...]] = ("d_model", "heads", "d_hidden", "kv_heads", "d_head", "value_rank", "longest")
    CHOICES: ClassVar[dict[str, dict[str, Any]]] = {
        "positions": POSITIONS,
        "norm": NORMS,
        "arrangement": ARRANGEMENTS,
        "feed_forward": FEED_FORWARDS,
        "initial": INITIALS,
    }

    def __post_init__(self) -> None:
        for word in self.SIZES:
            check_size(word, getattr(self, word))
        for word, table in self.CHOICES.items():
            chosen(word, getattr(self, word), table)
        for word in ("narrow", "bias", "scaled"):
            check_flag(word, getattr(self, word))
        for word in ("dropout", "attention_dropout", "hidden_dropout"):
            check_share(word, getattr(self, word))


class EncoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoder; `labels` names what it tells apart, `pooling` how one vector is made of a sequence."""

    vocabulary: int
    layers: int
    labels: tuple[str, ...] = ()
    pooling: str = "mean"

    SIZES: ClassVar = (*Config.SIZES, "vocabulary", "layers")
    CHOICES: ClassVar = {**Config.CHOICES, "pooling": POOLINGS}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.padding, self.vocabulary)
        if len(self.labels) > MOST_LABELS:
            raise Misfit(f"labels may name {MOST_LABELS} or fewer, but {len(self.labels)} came; are they labels?")
        if len(set(self.labels)) < len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise Misfit(f"labels must differ, but {twice!r} comes twice; leave one out")


class DecoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decoder.

    tying    "target": the output has the embedding's parameters; "none"
    causal   no token sees those behind it; without, training reads the answer off, to show why the mask is there
    """

    vocabulary: int
    layers: int
    tying: str = "target"
    causal: bool = True

    SIZES: ClassVar = (*Config.SIZES, "vocabulary", "layers")
    CHOICES: ClassVar = {**Config.CHOICES, "tying": dict.fromkeys(("target", "none"))}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("causal", self.causal)
        check_padding(self.padding, self.vocabulary)


class EncoderDecoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoder and a decoder that looks at it; `source_vocabulary` is `vocabulary` unless given.

    tying   "all": source, target and output share one matrix; "target": target and output; "none"
    """

    vocabulary: int
    encoder_layers: int
    decoder_layers: int
    source_vocabulary: int | None = None
    tying: str = "all"

    SIZES: ClassVar = (*Config.SIZES, "vocabulary", "encoder_layers", "decoder_layers", "source_vocabulary")
    CHOICES: ClassVar = {**Config.CHOICES, "tying": dict.fromkeys(("all", "target", "none"))}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.padding, min(self.vocabulary, self.source_vocabulary or self.vocabulary))
        if self.tying == "all" and self.source_vocabulary not in (None, self.vocabulary):
            raise Misfit(
                f"tying='all' needs one vocabulary, but source_vocabulary={self.source_vocabulary} and"
                f" vocabulary={self.vocabulary}; use tying='target', or one tokenizer for both"
            )


def check_size(word: str, size: object) -> None:
    largest = LARGEST_OF.get(word, LARGEST)
    if size is not None and (type(size) is not int or not 1 <= size <= largest):
        raise Misfit(f"{word} must be a whole number from 1 to {largest}, but got {size!r}; give a size that it has")


def check_flag(word: str, flag: object) -> None:
    if not isinstance(flag, bool):
        raise Misfit(f"{word} must be true or false, but got {flag!r}; choose one")


def check_share(word: str, share: object) -> None:
    if isinstance(share, bool) or not isinstance(share, float | int) or not 0.0 <= share < 1.0:
        raise Misfit(f"{word} must be at least 0 and below 1, but got {share!r}; 0.1 drops a tenth")


def check_padding(padding: object, vocabulary: int) -> None:
    if padding is not None and (type(padding) is not int or not 0 <= padding < vocabulary):
        raise Misfit(f"padding must be a token from 0 to {vocabulary - 1}, but got {padding!r}; leave it out for 0")
