"""Mistral (Jiang et al. 2023): Llama with a sliding window in every layer."""

from typing import Any

from transom.models.config import DecoderConfig
from transom.models.hugging_face import llama
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.tensor_names import TensorSource


def read_config(fields: ConfigFields, tensors: TensorSource) -> DecoderConfig:
    fields.require("attention_bias", False, None)
    fields.require("mlp_bias", False, None)
    return DecoderConfig(**llama.read_settings(fields), sliding_window=fields.take("sliding_window"))


def write_config(config: DecoderConfig) -> dict[str, Any]:
    return llama.write_settings(config) | {"sliding_window": config.sliding_window}


MISTRAL = Family(
    name="mistral",
    kind="decoder",
    classes={"logits": "MistralForCausalLM", "none": "MistralModel"},
    names=llama.NAMES,
    prefix="model.",
    defaults=llama.DEFAULTS
    | {
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    neutral=llama.NEUTRAL,
    read=read_config,
    write=write_config,
    copies=llama.LLAMA.copies,
    unused=llama.LLAMA.unused,
)
