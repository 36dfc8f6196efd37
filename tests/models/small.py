"""Small models for tests, of every kind of part; sizes prime and different where they may be."""

import re

import pytest
import torch

from transom.equations.rotary_scaling import YarnScaling
from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig, EncoderDecoder, EncoderDecoderConfig
from transom.names import Misfit

SIZES = {"d_model": 12, "heads": 2, "d_hidden": 17, "longest": 37, "dropout": 0.1}
PARTS = {
    "plain": {},
    "shared keys": {"heads": 6, "kv_heads": 2, "d_head": 4},
    "narrow": {"narrow": True},
    "low rank": {"value_rank": 3},
    "no bias": {"bias": False, "norm": "rms", "feed_forward": "swiglu"},
    "not scaled": {"scaled": False, "initial": "gpt2", "feed_forward": "gelu"},
    "normed heads": {"qk_norm": True, "norm": "rms", "qkv_bias": False, "norm_eps": 0.1, "feed_forward": "geglu"},
    "scaled scores": {"attention_scale": 1.0, "output_bias": False, "hidden_bias": False, "feed_forward": "silu"},
    "sliding window": {"sliding_window": 3, "feed_forward": "gelu_tanh", "embedding_norm": True, "token_types": 3},
    "a layer slides": {"sliding_window": 3, "sliding_layers": (1,), "feed_forward": "geglu_tanh"},
    "yarn": {
        "positions": "rotary",
        "position_halves": True,
        "rotary_scaling": YarnScaling(factor=4.0, original_longest=11, fast=2.0),
    },
}
# Of models that generate.
OUTPUTS = {"bias of logits": {"logits_bias": True}, "scale of logits": {"logits_scale": 0.3, "tying": "none"}}


def encoder(**parts) -> Encoder:
    config = {"vocabulary": 23, "layers": 2, "labels": ("yes", "no", "perhaps")} | SIZES | parts
    return lively(Encoder(EncoderConfig(**config)))


def decoder(**parts) -> Decoder:
    return lively(Decoder(DecoderConfig(**{"vocabulary": 23, "layers": 2} | SIZES | parts)))


def encoder_decoder(**parts) -> EncoderDecoder:
    config = {"vocabulary": 23, "encoder_layers": 3, "decoder_layers": 2} | SIZES | parts
    return lively(EncoderDecoder(EncoderDecoderConfig(**config)))


def lively(model):
    """The model in evaluation mode, with biases and gains that are not all 0 and 1, so that none can be left out."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def rows(*lengths: int, vocabulary: int = 23) -> list[torch.Tensor]:
    """Random real tokens (no special ones), one row per length."""
    return [torch.randint(4, vocabulary, (length,)) for length in lengths]


def padded(rows: list[torch.Tensor], side: str = "right") -> tuple[torch.Tensor, torch.Tensor]:
    """The rows as one batch, padded on one side with an ordinary token, and the mask of real tokens."""
    longest = max(len(row) for row in rows)
    tokens = torch.full((len(rows), longest), 5)
    real = torch.zeros(tokens.shape, dtype=torch.bool)
    for index, row in enumerate(rows):
        part = slice(0, len(row)) if side == "right" else slice(longest - len(row), longest)
        tokens[index, part], real[index, part] = row, True
    return tokens, real


def assert_misfit(message, function, *args, **kwargs):
    """The call raises a Misfit with exactly this message."""
    with pytest.raises(Misfit, match=f"^{re.escape(message)}$"):
        function(*args, **kwargs)
