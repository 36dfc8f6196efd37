"""DistilBERT (Sanh et al. 2019): BERT without token types, and with another classifier."""

from typing import Any

from transom.models.config import EncoderConfig
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import ACTIVATIONS, Family, activation_name
from transom.models.hugging_face.tensor_names import TensorSource

NAMES = {
    "embedding.vectors": "distilbert.embeddings.word_embeddings.weight",
    "embedding.positions.vectors": "distilbert.embeddings.position_embeddings.weight",
    "embedding.norm": "distilbert.embeddings.LayerNorm",
    "stack.blocks.{i}.attention.W_Q": "distilbert.transformer.layer.{i}.attention.q_lin",
    "stack.blocks.{i}.attention.W_K": "distilbert.transformer.layer.{i}.attention.k_lin",
    "stack.blocks.{i}.attention.W_V": "distilbert.transformer.layer.{i}.attention.v_lin",
    "stack.blocks.{i}.attention.W_O": "distilbert.transformer.layer.{i}.attention.out_lin",
    "stack.blocks.{i}.norm_attention": "distilbert.transformer.layer.{i}.sa_layer_norm",
    "stack.blocks.{i}.feed_forward.W_1": "distilbert.transformer.layer.{i}.ffn.lin1",
    "stack.blocks.{i}.feed_forward.W_2": "distilbert.transformer.layer.{i}.ffn.lin2",
    "stack.blocks.{i}.norm_feed_forward": "distilbert.transformer.layer.{i}.output_layer_norm",
    "pooler.W": "pre_classifier",
    "head": "classifier",
    "token_head.W": "vocab_transform",
    "token_head.norm": "vocab_layer_norm",
    "token_head.bias": "vocab_projector.bias",
}
CLASSES = {
    "labels": "DistilBertForSequenceClassification",
    "masked_tokens": "DistilBertForMaskedLM",
    "none": "DistilBertModel",
}


def read_config(fields: ConfigFields, tensors: TensorSource) -> EncoderConfig:
    fields.require("tie_word_embeddings", True)
    has_labels, predicts = (fields.class_name == CLASSES[head] for head in ("labels", "masked_tokens"))
    if predicts:
        fields.require("activation", "gelu")
    return EncoderConfig(
        vocabulary=fields.take("vocab_size"),
        longest=fields.take("max_position_embeddings"),
        d_model=fields.take("dim"),
        layers=fields.take("n_layers"),
        heads=fields.take("n_heads"),
        d_hidden=fields.take("hidden_dim"),
        feed_forward=fields.choose("activation", ACTIVATIONS),
        dropout=fields.take("dropout"),
        attention_dropout=fields.take("attention_dropout"),
        padding=fields.take("pad_token_id"),
        labels=fields.read_labels() if has_labels else (),
        masked_tokens=predicts,
        pooler="relu" if has_labels else "none",
        pooling="first",
        positions="learned",
        norm_eps=1e-12,
        embedding_norm=True,
        scaled=False,
        initial="gpt2",
    )


def write_config(config: EncoderConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.longest,
        "dim": config.d_model,
        "n_layers": config.layers,
        "n_heads": config.heads,
        "hidden_dim": config.d_hidden,
        "activation": activation_name(config.feed_forward),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "pad_token_id": config.padding,
    }


DISTILBERT = Family(
    name="distilbert",
    kind="encoder",
    classes=CLASSES,
    names=NAMES,
    prefix="distilbert.",
    defaults={
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "dim": 768,
        "n_layers": 6,
        "n_heads": 12,
        "hidden_dim": 3072,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "activation": "gelu",
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    },
    # Its positions are in the file, however they were first set.
    neutral=frozenset({"sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout"}),
    read=read_config,
    write=write_config,
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    unused=("embeddings.position_ids",),
    keeps_bias=True,
)
