"""Qwen3 (Yang et al. 2025): Llama with a norm of queries and keys."""

from typing import Any

from transom.models.config import DecoderConfig
from transom.models.hugging_face import llama, qwen2
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.tensor_names import TensorSource

NAMES = llama.NAMES | {
    "stack.blocks.{i}.attention.norm_Q": "model.layers.{i}.self_attn.q_norm",
    "stack.blocks.{i}.attention.norm_K": "model.layers.{i}.self_attn.k_norm",
}


def read_config(fields: ConfigFields, tensors: TensorSource) -> DecoderConfig:
    bias, settings = bool(fields.take("attention_bias")) or None, llama.read_settings(fields)
    windows = qwen2.read_windows(fields, settings["layers"])
    return DecoderConfig(**settings, **windows, qk_norm=True, qkv_bias=bias, output_bias=bias)


def write_config(config: DecoderConfig) -> dict[str, Any]:
    return llama.write_settings(config) | qwen2.write_windows(config) | {"attention_bias": bool(config.qkv_bias)}


QWEN3 = Family(
    name="qwen3",
    kind="decoder",
    classes={"logits": "Qwen3ForCausalLM", "none": "Qwen3Model"},
    names=NAMES,
    prefix="model.",
    defaults=qwen2.DEFAULTS | {"head_dim": 128},
    neutral=qwen2.NEUTRAL,
    read=read_config,
    write=write_config,
    copies=llama.LLAMA.copies,
    unused=llama.LLAMA.unused,
)
