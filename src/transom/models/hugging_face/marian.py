"""Marian, OPUS-MT's translators (Junczys-Dowmunt et al. 2018): the paper's model, sinusoids with all sines first."""

from typing import Any

import torch

from transom.equations.positions import sinusoidal
from transom.models.config import EncoderDecoderConfig
from transom.models.hugging_face import bart
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.tensor_names import TensorSource
from transom.names import Misfit

POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def read_config(fields: ConfigFields, tensors: TensorSource) -> EncoderDecoderConfig:
    fields.require("static_position_embeddings", True, None)
    fields.require("normalize_embedding", False, None)
    fields.require("share_encoder_decoder_embeddings", True)
    fields.require("decoder_vocab_size", fields.take("vocab_size"), None)
    bart.require_post_norm(fields)
    config = EncoderDecoderConfig(**bart.read_settings(fields), positions="sinusoidal", position_halves=True)
    check_all_sinusoids(tensors)
    return config


def check_all_sinusoids(tensors: TensorSource) -> None:
    for name in POSITIONS:
        if name in tensors:
            check_sinusoids(tensors.where, name, tensors[name])


def check_sinusoids(where: str, name: str, found: torch.Tensor) -> None:
    """Stored positions must be the sinusoids that our model computes."""
    rows, d_model = found.shape
    if not torch.allclose(found.float(), sinusoidal(torch.arange(rows), d_model, halves=True), atol=1e-3):
        raise Misfit(f"{where} should hold sinusoids in {name!r}, but these are others; take another model")


def write_config(config: EncoderDecoderConfig) -> dict[str, Any]:
    return bart.write_settings(config) | {"decoder_vocab_size": config.vocabulary}


MARIAN = Family(
    name="marian",
    kind="encoder_decoder",
    classes={"logits": "MarianMTModel"},
    names=bart.SHARED_NAMES,
    defaults=bart.DEFAULTS | {"vocab_size": 58101, "pad_token_id": 58100, "share_encoder_decoder_embeddings": True},
    neutral=bart.NEUTRAL,
    read=read_config,
    write=write_config,
    copies=bart.COPIES,
    unused=POSITIONS,
    keeps_bias=True,
)
