"""Models of known size, by name: `PRESETS["tiny"](vocabulary)` gives the config."""

from collections.abc import Callable

from transom.models.config import Config, DecoderConfig, EncoderDecoderConfig


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
    """A writer of single characters that learns on a CPU: nanoGPT's setting (Karpathy 2022)."""
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
