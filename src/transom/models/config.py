"""The config of each kind of model, checked, and presets with the sizes of papers."""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from transom.equations.rotary_scaling import LinearScaling, Llama3Scaling, YarnScaling
from transom.files.strict_settings import check_choice
from transom.layers import ARRANGEMENTS, FEED_FORWARDS, NORMS, POSITIONS
from transom.layers.checks import check_padding, check_share
from transom.models.initialization import INITIALS
from transom.models.pooling import POOLERS, POOLINGS
from transom.names import Misfit

# The most of each size: more is a mistake in a file, which would cost memory or time.
LARGEST = 2**24
LARGEST_OF = {"d_model": 2**18, "heads": 2**12, "layers": 1000, "encoder_layers": 1000, "decoder_layers": 1000}
MOST_LABELS = 10_000
POSITIVE = {"norm_eps", "position_base", "attention_scale", "logits_scale"}
FROM_ZERO = {"padding", "position_offset"}
# Settings that version 0.1.0 did not have.
LATER = {
    "norm_eps",
    "qkv_bias",
    "output_bias",
    "hidden_bias",
    "qk_norm",
    "attention_scale",
    "sliding_window",
    "sliding_layers",
    "position_base",
    "position_halves",
    "position_offset",
    "rotary_scaling",
    "buckets",
    "farthest",
    "embedding_norm",
    "token_types",
    "pooler",
    "masked_tokens",
    "logits_bias",
    "logits_scale",
}


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

    The settings below `vocabulary` came later, for models of other libraries; a config.json names them only if they
    differ from their defaults.

    norm_eps                              ε of every norm
    qkv_bias, output_bias, hidden_bias    of W_Q, W_K and W_V; of W_O; of the feed-forward: by default as `bias`
    qk_norm, attention_scale              as in `MultiHeadAttention`
    sliding_window, sliding_layers        tokens that a query sees back, itself included; the layers for which that
                                          holds, by default all
    position_base, position_halves, position_offset, rotary_scaling, buckets, farthest    as in `PositionSizes`
    embedding_norm, token_types           as in `Embedding`
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
    norm_eps: float = 1e-5
    qkv_bias: bool | None = None
    output_bias: bool | None = None
    hidden_bias: bool | None = None
    qk_norm: bool = False
    attention_scale: float | None = None
    sliding_window: int | None = None
    sliding_layers: tuple[int, ...] | None = None
    position_base: float = 10_000.0
    position_halves: bool = False
    position_offset: int = 0
    rotary_scaling: LinearScaling | Llama3Scaling | YarnScaling | None = None
    buckets: int = 32
    farthest: int = 128
    embedding_norm: bool = False
    token_types: int | None = None

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
            elif name in POSITIVE:
                check_above_zero(name, value)
            elif field.type is float:
                check_share(name, value)
            elif name not in FROM_ZERO and (field.type is int or (value is not None and field.type == int | None)):
                check_size(name, value)
        check_padding(self.padding, self.vocabulary)
        check_offset(self.position_offset)
        if self.sliding_layers is not None and self.sliding_window is None:
            raise Misfit(
                f"sliding_layers={self.sliding_layers} say where the window is, but sliding_window says of no size;"
                " give sliding_window, or leave sliding_layers out"
            )

    def to_dict(self) -> dict[str, Any]:
        """The settings for config.json; the later ones only where they differ, so that earlier versions read it."""
        settings = msgspec.structs.asdict(self)
        default = {field.name: field.default for field in msgspec.structs.fields(self)}
        return {name: value for name, value in settings.items() if name not in LATER or value != default[name]}


class EncoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoder.

    labels          the names of its classes
    pooling         makes one vector of a sequence
    pooler          an affine map of that vector and "tanh" (BERT, RoBERTa) or "relu" (DistilBERT); or "none"
    masked_tokens   it has a head for the tokens behind masks, see `MaskedTokenHead`
    """

    layers: int
    labels: tuple[str, ...] = ()
    pooling: str = "mean"
    pooler: str = "none"
    masked_tokens: bool = False

    CHOICES: ClassVar = {**Config.CHOICES, "pooling": POOLINGS, "pooler": POOLERS}

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.labels) > MOST_LABELS:
            raise Misfit(f"there may be {MOST_LABELS} labels or fewer, but {len(self.labels)} came; are they labels?")
        if len(set(self.labels)) < len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise Misfit(f"labels must differ, but {twice!r} comes twice; leave one out")


class DecoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decoder.

    tying          "target": the output has the embedding's parameters; or "none"
    causal         no token sees later ones; False shows why: the model learns to copy the answer
    logits_bias    a learned number per token is added to the logits
    logits_scale   the vectors are multiplied by it before the unembedding
    """

    layers: int
    tying: str = "target"
    causal: bool = True
    logits_bias: bool = False
    logits_scale: float = 1.0

    CHOICES: ClassVar = {**Config.CHOICES, "tying": dict.fromkeys(("target", "none"))}


class EncoderDecoderConfig(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoder, and a decoder that attends to it; `source_vocabulary` is `vocabulary` by default.

    tying          "all": source, target and output share one matrix; "target": target and output; "embeddings":
                   source and target; or "none"
    logits_bias, logits_scale   as in `DecoderConfig`
    """

    encoder_layers: int
    decoder_layers: int
    source_vocabulary: int | None = None
    tying: str = "all"
    logits_bias: bool = False
    logits_scale: float = 1.0

    CHOICES: ClassVar = {**Config.CHOICES, "tying": dict.fromkeys(("all", "target", "embeddings", "none"))}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.padding, self.source_vocabulary or self.vocabulary)
        if self.tying in ("all", "embeddings") and self.source_vocabulary not in (None, self.vocabulary):
            raise Misfit(
                f"tying={self.tying!r} needs one vocabulary, but source_vocabulary={self.source_vocabulary} and"
                f" vocabulary={self.vocabulary}; use tying='target', or one tokenizer for both"
            )


def check_size(name: str, size: object) -> None:
    largest = LARGEST_OF.get(name, LARGEST)
    if type(size) is not int or not 1 <= size <= largest:
        raise Misfit(f"{name} must be a whole number from 1 to {largest}, but got {size!r}; give another size")


def check_above_zero(name: str, value: object) -> None:
    is_number = type(value) in (int, float) and 0.0 < value < float("inf")  # pyright: ignore[reportOperatorIssue]
    if value is not None and not is_number:
        raise Misfit(f"{name} must be a number above 0, but got {value!r}; give another")


def check_offset(offset: object) -> None:
    if type(offset) is not int or not 0 <= offset <= LARGEST:
        raise Misfit(f"position_offset must be a whole number from 0 to {LARGEST}, but got {offset!r}; give another")


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
