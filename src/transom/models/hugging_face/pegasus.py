"""Pegasus (Zhang et al. 2020): Marian's parts, with norms before each part and one after the last."""

from typing import Any

from transom.models.config import EncoderDecoderConfig
from transom.models.hugging_face import bart, marian
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.tensor_names import NameTable, TensorSource

NAMES: NameTable = {
    **bart.SHARED_NAMES,
    "encoder.closing": "model.encoder.layer_norm",
    "decoder.closing": "model.decoder.layer_norm",
}


def read_config(fields: ConfigFields, tensors: TensorSource) -> EncoderDecoderConfig:
    for name, value in {
        "static_position_embeddings": True,
        "normalize_embedding": False,
        "normalize_before": True,
        "add_final_layer_norm": True,
        "add_bias_logits": False,
        "extra_pos_embeddings": 1,
    }.items():
        fields.require(name, value, None)
    config = EncoderDecoderConfig(
        **bart.read_settings(fields), positions="sinusoidal", position_halves=True, arrangement="pre_norm"
    )
    marian.check_all_sinusoids(tensors)
    return config


def write_config(config: EncoderDecoderConfig) -> dict[str, Any]:
    # The last two are of older configs; CTranslate2's converter still asks for them.
    return bart.write_settings(config) | {"normalize_before": True, "normalize_embedding": False}


PEGASUS = Family(
    name="pegasus",
    kind="encoder_decoder",
    classes={"logits": "PegasusForConditionalGeneration"},
    names=NAMES,
    defaults=bart.DEFAULTS | {"pad_token_id": 0},
    neutral=bart.NEUTRAL,
    read=read_config,
    write=write_config,
    copies=bart.COPIES,
    unused=marian.POSITIONS,
    keeps_bias=True,
)
