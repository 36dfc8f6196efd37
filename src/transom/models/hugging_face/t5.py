"""T5 (Raffel et al. 2020): pre-norm with RMS, no scale of the scores, buckets of distances, no biases."""

from typing import Any

import torch

from transom.models.config import EncoderDecoderConfig
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.tensor_names import NameTable, Place, TensorSource
from transom.names import Misfit

FEED_FORWARDS = {"relu": "relu", "gated-gelu": "geglu_tanh", "gated-silu": "swiglu"}
LONGEST = 512  # tokens of training; buckets set no limit


def stack_names(side: str) -> NameTable:
    """The names of the encoder or the decoder, whose blocks have one part more."""
    ours, theirs = f"{side}.blocks.{{i}}", f"{side}.block.{{i}}.layer"
    feed_forward = f"{theirs}.{1 if side == 'encoder' else 2}"
    return {
        f"{ours}.norm_attention": f"{theirs}.0.layer_norm",
        f"{ours}.attention.W_Q": f"{theirs}.0.SelfAttention.q",
        f"{ours}.attention.W_K": f"{theirs}.0.SelfAttention.k",
        f"{ours}.attention.W_V": f"{theirs}.0.SelfAttention.v",
        f"{ours}.attention.W_O": f"{theirs}.0.SelfAttention.o",
        f"{ours}.attention.positions.table": Place(
            f"{theirs}.0.SelfAttention.relative_attention_bias.weight", transposed=True
        ),
        f"{ours}.norm_cross": f"{theirs}.1.layer_norm",
        f"{ours}.cross.W_Q": f"{theirs}.1.EncDecAttention.q",
        f"{ours}.cross.W_K": f"{theirs}.1.EncDecAttention.k",
        f"{ours}.cross.W_V": f"{theirs}.1.EncDecAttention.v",
        f"{ours}.cross.W_O": f"{theirs}.1.EncDecAttention.o",
        f"{ours}.norm_feed_forward": f"{feed_forward}.layer_norm",
        f"{ours}.feed_forward.W_1": f"{feed_forward}.DenseReluDense.wi",
        f"{ours}.feed_forward.W_2": f"{feed_forward}.DenseReluDense.wo",
        f"{ours}.feed_forward.W_gate": f"{feed_forward}.DenseReluDense.wi_0",
        f"{ours}.feed_forward.W_up": f"{feed_forward}.DenseReluDense.wi_1",
        f"{ours}.feed_forward.W_down": f"{feed_forward}.DenseReluDense.wo",
        f"{side}.closing": f"{side}.final_layer_norm",
    }


NAMES: NameTable = {
    "source_embedding.vectors": "shared.weight",  # the same as the target's
    "output": "lm_head.weight",
    **stack_names("encoder"),
    **stack_names("decoder"),
}


def read_config(fields: ConfigFields, tensors: TensorSource) -> EncoderDecoderConfig:
    # Version 1.1 has an output of its own, and does not scale; its files say so by this field.
    is_tied = fields.take("tie_word_embeddings")
    scales = fields.settings.get("scale_decoder_outputs", is_tied is not False)
    fields.known.add("scale_decoder_outputs")
    d_model, layers = fields.take("d_model"), fields.take("num_layers")
    has_output = "lm_head.weight" in tensors and not torch.equal(tensors["lm_head.weight"], tensors["shared.weight"])
    return EncoderDecoderConfig(
        vocabulary=fields.take("vocab_size"),
        longest=fields.take("n_positions") or LONGEST,
        d_model=d_model,
        d_head=fields.take("d_kv"),
        d_hidden=fields.take("d_ff"),
        encoder_layers=layers,
        decoder_layers=fields.take("num_decoder_layers") or layers,
        heads=fields.take("num_heads"),
        buckets=fields.take("relative_attention_num_buckets"),
        farthest=fields.take("relative_attention_max_distance"),
        feed_forward=fields.choose("feed_forward_proj", FEED_FORWARDS),
        norm_eps=fields.take_number("layer_norm_epsilon"),
        dropout=fields.take("dropout_rate"),
        padding=fields.take("pad_token_id"),
        logits_scale=d_model**-0.5 if scales else 1.0,
        tying="embeddings" if has_output else "all",
        positions="buckets",
        attention_scale=1.0,
        norm="rms",
        arrangement="pre_norm",
        bias=False,
        scaled=False,
    )


def write_config(config: EncoderDecoderConfig) -> dict[str, Any]:
    if config.tying == "embeddings":
        raise Misfit("the output is always tied to the embedding in transformers 5, but this model's is its own")
    return {
        "vocab_size": config.vocabulary,
        "n_positions": config.longest,
        "d_model": config.d_model,
        "d_kv": config.d_head or config.d_model // config.heads,
        "d_ff": config.d_hidden,
        "num_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "num_heads": config.heads,
        "relative_attention_num_buckets": config.buckets,
        "relative_attention_max_distance": config.farthest,
        "feed_forward_proj": {ours: theirs for theirs, ours in FEED_FORWARDS.items()}.get(config.feed_forward, "relu"),
        "layer_norm_epsilon": config.norm_eps,
        "dropout_rate": config.dropout,
        "pad_token_id": config.padding,
        "tie_word_embeddings": config.logits_scale != 1.0,
    }


T5 = Family(
    name="t5",
    kind="encoder_decoder",
    classes={"logits": "T5ForConditionalGeneration"},
    names=NAMES,
    defaults={
        "vocab_size": 32128,
        "d_model": 512,
        "d_kv": 64,
        "d_ff": 2048,
        "num_layers": 6,
        "num_heads": 8,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "dropout_rate": 0.1,
        "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "relu",
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    },
    neutral=frozenset({"dense_act_fn", "is_gated_act"}),
    read=read_config,
    write=write_config,
    copies=dict.fromkeys(
        ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"), "shared.weight"
    ),
    unused=("EncDecAttention.relative_attention_bias.weight",),
)
