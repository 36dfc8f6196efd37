"""GPT-2 (Radford et al. 2019): pre-norm, learned positions, tanh-GELU; its matrices are transposed, Q, K and V one."""

from typing import Any

from transom.models.config import DecoderConfig
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import ACTIVATIONS, Family, activation_name
from transom.models.hugging_face.tensor_names import Place, TensorSource

NAMES = {
    "embedding.vectors": "transformer.wte.weight",
    "embedding.positions.vectors": "transformer.wpe.weight",
    "stack.blocks.{i}.norm_attention": "transformer.h.{i}.ln_1",
    "stack.blocks.{i}.attention.W_Q": Place("transformer.h.{i}.attn.c_attn", part=0, parts=3, transposed=True),
    "stack.blocks.{i}.attention.W_K": Place("transformer.h.{i}.attn.c_attn", part=1, parts=3, transposed=True),
    "stack.blocks.{i}.attention.W_V": Place("transformer.h.{i}.attn.c_attn", part=2, parts=3, transposed=True),
    "stack.blocks.{i}.attention.W_O": Place("transformer.h.{i}.attn.c_proj", transposed=True),
    "stack.blocks.{i}.norm_feed_forward": "transformer.h.{i}.ln_2",
    "stack.blocks.{i}.feed_forward.W_1": Place("transformer.h.{i}.mlp.c_fc", transposed=True),
    "stack.blocks.{i}.feed_forward.W_2": Place("transformer.h.{i}.mlp.c_proj", transposed=True),
    "stack.closing": "transformer.ln_f",
    "output": "lm_head.weight",
}


def read_config(fields: ConfigFields, tensors: TensorSource) -> DecoderConfig:
    fields.require("scale_attn_weights", True)
    fields.require("scale_attn_by_inverse_layer_idx", False)
    d_model = fields.take("n_embd")
    return DecoderConfig(
        vocabulary=fields.take("vocab_size"),
        longest=fields.take("n_positions"),
        d_model=d_model,
        layers=fields.take("n_layer"),
        heads=fields.take("n_head"),
        d_hidden=fields.take("n_inner") or 4 * d_model,
        feed_forward=fields.choose("activation_function", ACTIVATIONS),
        norm_eps=fields.take_number("layer_norm_epsilon"),
        dropout=fields.take("resid_pdrop"),
        attention_dropout=fields.take("attn_pdrop"),
        padding=fields.take("pad_token_id"),
        tying="target" if fields.take("tie_word_embeddings") else "none",
        arrangement="pre_norm",
        positions="learned",
        scaled=False,
        initial="gpt2",
    )


def write_config(config: DecoderConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocabulary,
        "n_positions": config.longest,
        "n_embd": config.d_model,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.d_hidden,
        "activation_function": activation_name(config.feed_forward),
        "layer_norm_epsilon": config.norm_eps,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "pad_token_id": config.padding,
        "tie_word_embeddings": config.tying == "target",
    }


GPT2 = Family(
    name="gpt2",
    kind="decoder",
    classes={"logits": "GPT2LMHeadModel", "none": "GPT2Model"},
    names=NAMES,
    prefix="transformer.",
    defaults={
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.1,
        "attn_pdrop": 0.1,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "tie_word_embeddings": True,
    },
    neutral=frozenset(
        {
            "embd_pdrop",
            "n_ctx",
            "reorder_and_upcast_attn",
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
        }
    ),
    read=read_config,
    write=write_config,
    copies={"lm_head.weight": "transformer.wte.weight"},
    unused=(".attn.bias", ".attn.masked_bias"),
    keeps_bias=True,
)
