"""The config of each kind of model, checked, and presets with the sizes of papers."""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from transom.files.strict_settings import check_choice
from transom.layers import ARRANGEMENTS, FEED_FORWARDS, NORMS, POSITIONS
from transom.layers.checks import check_padding, check_share
from transom.models.initialization import INITIALS
from transom.models.pooling import POOLINGS
from transom.names import Misfit

# The most of each size: more is a mistake in a file, which would cost memory or time.
LARGEST = 2**24
LARGEST_OF = {"d_model": 2**18, "heads": 2**12, "layers": 1000, "encoder_layers": 1000, "decoder_layers": 1000}
MOST_LABELS = 10_000


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that all models have; each is checked by its type, and a `str` by its row in `CHOICES`.

    kv_heads, d_head, narrow, value_rank   as in `MultiHeadAttention`
    bias                whether projections and norms have a bias
    scaled              embeddings times √d_model
    dropout             of the embeddings and of each part's output, as in the paper
    attention_dropout   of the attention weights; at 0 the fused kernel is used in training too
    hidden_dropout      inside the feed-forward part
    longest             tokens of the longest sequence; a firm limit with learned positions
    padding             the padding token
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
    vocabulary: int

    CHOICES: ClassVar[dict[str, dict[str, Any]]] = {
        "positions": POSITIONS,
        "norm": NORMS,
        "arrangement": ARRANGEMENTS,
        "feed_forward": FEED_FORWARDS,
        "initial": INITIALS,
    }

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.type is str:
                check_choice(name, value, self.CHOICES[name])
            elif field.type is bool:
                check_flag(name, value)
            elif field.type is float:
                check_share(name, value)
            elif field.type is int or (name != "padding" and value is not None and field.type == int | None):
                check_size(name, value)
        check_padding(self.padding, self.vocabulary)


class EncoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoder; `labels` are the names of its classes, `pooling` makes one vector of a sequence."""

    layers: int
    labels: tuple[str, ...] = ()
    pooling: str = "mean"

    CHOICES: ClassVar = {**Config.CHOICES, "pooling": POOLINGS}

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.labels) > MOST_LABELS:
            raise Misfit(f"there may be {MOST_LABELS} labels or fewer, but {len(self.labels)} came; are they labels?")
        if len(set(self.labels)) < len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise Misfit(f"labels must differ, but {twice!r} comes twice; leave one out")


class DecoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decoder.

    tying    "target": the output has the embedding's parameters; or "none"
    causal   no token sees later ones; False shows why: the model learns to copy the answer
    """

    layers: int
    tying: str = "target"
    causal: bool = True

    CHOICES: ClassVar = {**Config.CHOICES, "tying": dict.fromkeys(("target", "none"))}


class EncoderDecoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoder, and a decoder that attends to it; `source_vocabulary` is `vocabulary` by default.

    tying   "all": source, target and output share one matrix; "target": target and output; or "none"
    """

    encoder_layers: int
    decoder_layers: int
    source_vocabulary: int | None = None
    tying: str = "all"

    CHOICES: ClassVar = {**Config.CHOICES, "tying": dict.fromkeys(("all", "target", "none"))}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.padding, self.source_vocabulary or self.vocabulary)
        if self.tying == "all" and self.source_vocabulary not in (None, self.vocabulary):
            raise Misfit(
                f"tying='all' needs one vocabulary, but source_vocabulary={self.source_vocabulary} and"
                f" vocabulary={self.vocabulary}; use tying='target', or one tokenizer for both"
            )


def check_size(name: str, size: object) -> None:
    largest = LARGEST_OF.get(name, LARGEST)
    if type(size) is not int or not 1 <= size <= largest:
        raise Misfit(f"{name} must be a whole number from 1 to {largest}, but got {size!r}; give another size")


def check_flag(name: str, flag: object) -> None:
    if not isinstance(flag, bool):
        raise Misfit(f"{name} must be true or false, but got {flag!r}; choose one")


def base(vocabulary: int) -> EncoderDecoderConfig:
    """The base model of the paper (Vaswani et al. 2017, table 3, first row)."""
    return EncoderDecoderConfig(
        vocabulary=vocabulary, encoder_layers=6, decoder_layers=6, d_model=512, d_hidden=2048, heads=8, dropout=0.1
    )


def tiny(vocabulary: int) -> EncoderDecoderConfig:
    """A translator for small corpora (Wu et al. 2021): 2.57 million parameters with 9,712 tokens."""
    return EncoderDecoderConfig(
        vocabulary=vocabulary, encoder_layers=4, decoder_layers=4, d_model=128, d_hidden=256, heads=4, dropout=0.3
    )


def shakespeare_char(vocabulary: int = 65) -> DecoderConfig:
    """A decoder of characters that can be trained on a CPU: nanoGPT's setting (Karpathy 2022)."""
    return DecoderConfig(
        vocabulary=vocabulary,
        layers=4,
        d_model=128,
        d_hidden=512,
        heads=4,
        longest=64,
        positions="learned",
        arrangement="pre_norm",
        feed_forward="gelu",
        initial="gpt2",
        bias=False,
        scaled=False,
        dropout=0.0,
        padding=None,
    )


PRESETS: dict[str, Callable[[int], Config]] = {"base": base, "tiny": tiny, "shakespeare_char": shakespeare_char}
