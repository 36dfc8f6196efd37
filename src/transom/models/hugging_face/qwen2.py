"""Qwen2 (Yang et al. 2024): Llama with a bias on Q, K and V, and a sliding window in some layers."""

from typing import Any

from transom.models.config import DecoderConfig
from transom.models.hugging_face import llama
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.tensor_names import TensorSource
from transom.names import Misfit

KINDS = ("full_attention", "sliding_attention")
DEFAULTS = llama.DEFAULTS | {
    "vocab_size": 151936,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
NEUTRAL = llama.NEUTRAL - {"layer_types"}


def read_windows(fields: ConfigFields, layers: int) -> dict[str, Any]:
    """The window, and the layers that have it."""
    window = fields.take("sliding_window") if fields.take("use_sliding_window") else None
    first, kinds = fields.take("max_window_layers"), fields.take("layer_types")
    if kinds is None:
        kinds = [KINDS[window is not None and layer >= first] for layer in range(layers)]
    for kind in kinds:
        if kind not in KINDS:
            raise Misfit(f"{fields.where} has layers of {kind!r:.40}, but Transom knows {', '.join(KINDS)}")
    sliding = tuple(layer for layer, kind in enumerate(kinds) if kind == KINDS[1])
    if window is None or not sliding:
        return {}
    return {"sliding_window": window, "sliding_layers": None if len(sliding) == layers else sliding}


def write_windows(config: DecoderConfig) -> dict[str, Any]:
    """The fields for the windows."""
    window, sliding = config.sliding_window, config.sliding_layers
    has_window = [window is not None and (sliding is None or layer in sliding) for layer in range(config.layers)]
    return {
        "use_sliding_window": window is not None,
        "sliding_window": window,
        "max_window_layers": config.layers if window is None else 0,
        "layer_types": [KINDS[slides] for slides in has_window],
    }


def read_config(fields: ConfigFields, tensors: TensorSource) -> DecoderConfig:
    settings = llama.read_settings(fields)
    return DecoderConfig(**settings, **read_windows(fields, settings["layers"]), qkv_bias=True)


def write_config(config: DecoderConfig) -> dict[str, Any]:
    return llama.write_settings(config) | write_windows(config)


QWEN2 = Family(
    name="qwen2",
    kind="decoder",
    classes={"logits": "Qwen2ForCausalLM", "none": "Qwen2Model"},
    names=llama.NAMES,
    prefix="model.",
    defaults=DEFAULTS,
    neutral=NEUTRAL,
    read=read_config,
    write=write_config,
    copies=llama.LLAMA.copies,
    unused=llama.LLAMA.unused,
)
