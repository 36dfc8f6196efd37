"""Llama and those built like it (SmolLM, Mistral, Qwen2, Qwen3): pre-norm with RMS, rotary positions, SwiGLU."""

from collections.abc import Callable, Mapping
from typing import Any

from transom.equations.rotary_scaling import LinearScaling, Llama3Scaling, RotaryScaling, YarnScaling
from transom.models.config import DecoderConfig
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.tensor_names import TensorSource
from transom.names import Misfit

NAMES = {
    "embedding.vectors": "model.embed_tokens.weight",
    "stack.blocks.{i}.norm_attention": "model.layers.{i}.input_layernorm",
    "stack.blocks.{i}.attention.W_Q": "model.layers.{i}.self_attn.q_proj",
    "stack.blocks.{i}.attention.W_K": "model.layers.{i}.self_attn.k_proj",
    "stack.blocks.{i}.attention.W_V": "model.layers.{i}.self_attn.v_proj",
    "stack.blocks.{i}.attention.W_O": "model.layers.{i}.self_attn.o_proj",
    "stack.blocks.{i}.norm_feed_forward": "model.layers.{i}.post_attention_layernorm",
    "stack.blocks.{i}.feed_forward.W_gate": "model.layers.{i}.mlp.gate_proj",
    "stack.blocks.{i}.feed_forward.W_up": "model.layers.{i}.mlp.up_proj",
    "stack.blocks.{i}.feed_forward.W_down": "model.layers.{i}.mlp.down_proj",
    "stack.closing": "model.norm",
    "output": "lm_head.weight",
}
DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "mlp_bias": False,
}
# Of training alone, or of how the computation is split.
NEUTRAL = frozenset({"pretraining_tp", "base_model_tp_plan", "base_model_pp_plan", "is_llama_config", "layer_types"})


def read_settings(fields: ConfigFields) -> dict[str, Any]:
    """The settings that all of these have."""
    fields.require("hidden_act", "silu")
    fields.require("rope_interleaved", False, default=False)
    heads, d_model = fields.take("num_attention_heads"), fields.take("hidden_size")
    base, scaling = read_rope(fields)
    return {
        "vocabulary": fields.take("vocab_size"),
        "longest": fields.take("max_position_embeddings"),
        "d_model": d_model,
        "layers": fields.take("num_hidden_layers"),
        "heads": heads,
        "kv_heads": fields.take("num_key_value_heads") or heads,
        "d_head": fields.take("head_dim") or d_model // heads,
        "d_hidden": fields.take("intermediate_size"),
        "norm_eps": fields.take_number("rms_norm_eps"),
        "attention_dropout": fields.take("attention_dropout"),
        "padding": fields.take("pad_token_id"),
        "tying": "target" if fields.take("tie_word_embeddings") else "none",
        "position_base": base,
        "rotary_scaling": scaling,
        "position_halves": True,
        "positions": "rotary",
        "norm": "rms",
        "arrangement": "pre_norm",
        "feed_forward": "swiglu",
        "bias": False,
        "scaled": False,
        "dropout": 0.0,
        "initial": "gpt2",
    }


def read_rope(fields: ConfigFields) -> tuple[float, RotaryScaling | None]:
    """The base of the rotary positions and their scaling; older configs have two fields for them."""
    new, old = fields.take("rope_parameters"), fields.take("rope_scaling")
    if new and old and new != old:
        raise Misfit(
            f"{fields.where} has rope_parameters and another rope_scaling, and only one of them can hold; leave one out"
        )
    if not isinstance(new or old or {}, dict):
        raise Misfit(f"{fields.where} has rope_parameters={new or old!r:.60}, but they must be an object; correct them")
    settings = dict(new or old or {})
    base = settings.pop("rope_theta", None) or fields.take("rope_theta")
    fields.known |= {"rope_theta", "rope_scaling"}
    kind = settings.pop("rope_type", None) or settings.pop("type", "default")
    settings.pop("type", None)
    settings.setdefault("original_max_position_embeddings", fields.take("max_position_embeddings"))
    if kind not in SCALINGS:
        raise Misfit(
            f"{fields.where} has rope_type={kind!r:.60}, but Transom knows {', '.join(SCALINGS)}; take another model"
        )
    if fields.settings.get("partial_rotary_factor", settings.pop("partial_rotary_factor", 1.0)) not in (None, 1.0):
        raise Misfit(f"{fields.where} has a partial_rotary_factor, but Transom rotates whole heads; take another model")
    fields.known.add("partial_rotary_factor")
    try:
        scaling = SCALINGS[kind](settings)
    except (KeyError, TypeError, ValueError) as error:
        raise Misfit(
            f"{fields.where} has rope_parameters of {kind!r} in which a number is missing or none ({error});"
            " correct them"
        ) from error
    if settings:
        raise Misfit(
            f"{fields.where} has {next(iter(settings))!r} in rope_parameters, which Transom does not know;"
            " leave it out if it changes nothing"
        )
    return float(base), scaling


def no_scaling(settings: dict[str, Any]) -> None:
    settings.pop("original_max_position_embeddings", None)
    settings.pop("factor", None)


def linear_scaling(settings: dict[str, Any]) -> LinearScaling:
    settings.pop("original_max_position_embeddings", None)
    return LinearScaling(factor=float(settings.pop("factor")))


def llama3_scaling(settings: dict[str, Any]) -> Llama3Scaling:
    return Llama3Scaling(
        factor=float(settings.pop("factor")),
        low_factor=float(settings.pop("low_freq_factor")),
        high_factor=float(settings.pop("high_freq_factor")),
        original_longest=settings.pop("original_max_position_embeddings"),
    )


def yarn_scaling(settings: dict[str, Any]) -> YarnScaling:
    factor, attention_factor = float(settings.pop("factor")), settings.pop("attention_factor", None)
    mscale, of_all = settings.pop("mscale", None), settings.pop("mscale_all_dim", None)
    if attention_factor is None and mscale and of_all:
        whole = YarnScaling(factor=factor, original_longest=1).magnitude - 1.0
        attention_factor = (mscale * whole + 1.0) / (of_all * whole + 1.0)
    return YarnScaling(
        factor=factor,
        original_longest=settings.pop("original_max_position_embeddings"),
        fast=float(settings.pop("beta_fast", None) or 32.0),
        slow=float(settings.pop("beta_slow", None) or 1.0),
        attention_factor=attention_factor,
        truncate=settings.pop("truncate", True),
    )


SCALINGS: Mapping[str, Callable[[dict[str, Any]], RotaryScaling | None]] = {
    "default": no_scaling,
    "linear": linear_scaling,
    "llama3": llama3_scaling,
    "yarn": yarn_scaling,
}


def write_settings(config: DecoderConfig) -> dict[str, Any]:
    """The fields that all of these have."""
    d_head = config.d_head or config.d_model // config.heads
    return {
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.longest,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads or config.heads,
        "head_dim": d_head,
        "intermediate_size": config.d_hidden,
        "rms_norm_eps": config.norm_eps,
        "attention_dropout": config.attention_dropout,
        "pad_token_id": config.padding,
        "tie_word_embeddings": config.tying == "target",
        "rope_parameters": {"rope_theta": config.position_base, **write_scaling(config.rotary_scaling)},
    }


def write_scaling(scaling: RotaryScaling | None) -> dict[str, Any]:
    if isinstance(scaling, LinearScaling):
        return {"rope_type": "linear", "factor": scaling.factor}
    if isinstance(scaling, Llama3Scaling):
        return {
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_factor,
            "high_freq_factor": scaling.high_factor,
            "original_max_position_embeddings": scaling.original_longest,
        }
    if isinstance(scaling, YarnScaling):
        return {
            "rope_type": "yarn",
            "factor": scaling.factor,
            "original_max_position_embeddings": scaling.original_longest,
            "beta_fast": scaling.fast,
            "beta_slow": scaling.slow,
            "attention_factor": scaling.attention_factor,
            "truncate": scaling.truncate,
        }
    return {"rope_type": "default"}


def read_config(fields: ConfigFields, tensors: TensorSource) -> DecoderConfig:
    bias = bool(fields.take("attention_bias"))
    hidden_bias = bool(fields.take("mlp_bias"))
    settings = read_settings(fields)
    return DecoderConfig(**settings, qkv_bias=bias or None, output_bias=bias or None, hidden_bias=hidden_bias or None)


def write_config(config: DecoderConfig) -> dict[str, Any]:
    biases = {"attention_bias": bool(config.qkv_bias), "mlp_bias": bool(config.hidden_bias)}
    return write_settings(config) | biases


LLAMA = Family(
    name="llama",
    kind="decoder",
    classes={"logits": "LlamaForCausalLM", "none": "LlamaModel"},
    names=NAMES,
    prefix="model.",
    defaults=DEFAULTS,
    neutral=NEUTRAL,
    read=read_config,
    write=write_config,
    copies={"lm_head.weight": "model.embed_tokens.weight"},
    unused=(".rotary_emb.inv_freq",),
)
