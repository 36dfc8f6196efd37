"""BART (Lewis et al. 2020): post-norm encoder and decoder, learned positions from row 2, a norm after the embedding."""

from typing import Any

from transom.models.config import EncoderDecoderConfig
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import ACTIVATIONS, Family, activation_name
from transom.models.hugging_face.tensor_names import NameTable, Place, TensorSource
from transom.names import Misfit

OFFSET = 2  # rows of positions that are never used


def stack_names(side: str) -> dict[str, str]:
    """The names of the blocks of the encoder or the decoder."""
    ours, theirs = f"{side}.blocks.{{i}}", f"model.{side}.layers.{{i}}"
    return {
        f"{ours}.attention.W_Q": f"{theirs}.self_attn.q_proj",
        f"{ours}.attention.W_K": f"{theirs}.self_attn.k_proj",
        f"{ours}.attention.W_V": f"{theirs}.self_attn.v_proj",
        f"{ours}.attention.W_O": f"{theirs}.self_attn.out_proj",
        f"{ours}.norm_attention": f"{theirs}.self_attn_layer_norm",
        f"{ours}.cross.W_Q": f"{theirs}.encoder_attn.q_proj",
        f"{ours}.cross.W_K": f"{theirs}.encoder_attn.k_proj",
        f"{ours}.cross.W_V": f"{theirs}.encoder_attn.v_proj",
        f"{ours}.cross.W_O": f"{theirs}.encoder_attn.out_proj",
        f"{ours}.norm_cross": f"{theirs}.encoder_attn_layer_norm",
        f"{ours}.feed_forward.W_1": f"{theirs}.fc1",
        f"{ours}.feed_forward.W_2": f"{theirs}.fc2",
        f"{ours}.norm_feed_forward": f"{theirs}.final_layer_norm",
    }


SHARED_NAMES: NameTable = {
    "source_embedding.vectors": "model.shared.weight",  # the same as the target's
    "logits_bias": Place("final_logits_bias", wrapped=True),
    **stack_names("encoder"),
    **stack_names("decoder"),
}
NAMES: NameTable = SHARED_NAMES | {
    "source_embedding.positions.vectors": "model.encoder.embed_positions.weight",
    "target_embedding.positions.vectors": "model.decoder.embed_positions.weight",
    "source_embedding.norm": "model.encoder.layernorm_embedding",
    "target_embedding.norm": "model.decoder.layernorm_embedding",
}
COPIES: dict[str, str] = dict.fromkeys(
    ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"), "model.shared.weight"
)
DEFAULTS = {
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "d_model": 1024,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "scale_embedding": False,
    "pad_token_id": 1,
    "tie_word_embeddings": True,
}
# Of training, of generating, or of tasks that other heads do.
NEUTRAL = frozenset(
    {
        "bad_words_ids",
        "classif_dropout",
        "decoder_layerdrop",
        "early_stopping",
        "encoder_layerdrop",
        "force_bos_token_to_be_generated",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "length_penalty",
        "min_length",
        "no_repeat_ngram_size",
        "num_beams",
    }
)


def require_post_norm(fields: ConfigFields) -> None:
    """Raise an error for fields of older configs that say otherwise than BART and Marian are."""
    for name, value in {
        "normalize_before": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "extra_pos_embeddings": OFFSET,
    }.items():
        fields.require(name, value, None)


def read_settings(fields: ConfigFields) -> dict[str, Any]:
    """The settings of BART, Marian and Pegasus."""
    fields.require("tie_word_embeddings", True)
    return {
        "vocabulary": fields.take("vocab_size"),
        "longest": fields.take("max_position_embeddings"),
        "d_model": fields.take("d_model"),
        "encoder_layers": fields.take("encoder_layers"),
        "decoder_layers": fields.take("decoder_layers"),
        "heads": take_common(fields, "attention_heads"),
        "d_hidden": take_common(fields, "ffn_dim"),
        "feed_forward": fields.choose("activation_function", ACTIVATIONS),
        "dropout": fields.take("dropout"),
        "attention_dropout": fields.take("attention_dropout"),
        "hidden_dropout": fields.take("activation_dropout"),
        "padding": fields.take("pad_token_id"),
        "scaled": fields.take("scale_embedding"),
        "logits_bias": True,
    }


def take_common(fields: ConfigFields, name: str) -> Any:
    """A size that encoder and decoder have in common."""
    encoder, decoder = fields.take(f"encoder_{name}"), fields.take(f"decoder_{name}")
    if encoder != decoder:
        raise Misfit(
            f"{fields.where} has encoder_{name}={encoder} and decoder_{name}={decoder}, but Transom's two sides have"
            " one size; take another model"
        )
    return encoder


def write_settings(config: EncoderDecoderConfig) -> dict[str, Any]:
    """The fields of BART, Marian and Pegasus."""
    return {
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.longest,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.d_hidden,
        "decoder_ffn_dim": config.d_hidden,
        "activation_function": activation_name(config.feed_forward),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.hidden_dropout,
        "pad_token_id": config.padding,
        "scale_embedding": config.scaled,
    }


def read_config(fields: ConfigFields, tensors: TensorSource) -> EncoderDecoderConfig:
    fields.require("static_position_embeddings", False, None)
    fields.require("normalize_embedding", True, None)
    require_post_norm(fields)
    settings = read_settings(fields)
    return EncoderDecoderConfig(**settings, positions="learned", position_offset=OFFSET, embedding_norm=True)


BART = Family(
    name="bart",
    kind="encoder_decoder",
    classes={"logits": "BartForConditionalGeneration"},
    names=NAMES,
    defaults=DEFAULTS,
    neutral=NEUTRAL,
    read=read_config,
    write=write_settings,
    copies=COPIES,
    keeps_bias=True,
)
