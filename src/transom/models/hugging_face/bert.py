"""BERT and MiniLM (Devlin et al. 2019; Wang et al. 2020): post-norm, learned positions, token types, a pooler."""

from typing import Any

from transom.models.config import EncoderConfig
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import ACTIVATIONS, Family, activation_name
from transom.models.hugging_face.tensor_names import TensorSource

NAMES = {
    "embedding.vectors": "bert.embeddings.word_embeddings.weight",
    "embedding.positions.vectors": "bert.embeddings.position_embeddings.weight",
    "embedding.type_vectors": "bert.embeddings.token_type_embeddings.weight",
    "embedding.norm": "bert.embeddings.LayerNorm",
    "stack.blocks.{i}.attention.W_Q": "bert.encoder.layer.{i}.attention.self.query",
    "stack.blocks.{i}.attention.W_K": "bert.encoder.layer.{i}.attention.self.key",
    "stack.blocks.{i}.attention.W_V": "bert.encoder.layer.{i}.attention.self.value",
    "stack.blocks.{i}.attention.W_O": "bert.encoder.layer.{i}.attention.output.dense",
    "stack.blocks.{i}.norm_attention": "bert.encoder.layer.{i}.attention.output.LayerNorm",
    "stack.blocks.{i}.feed_forward.W_1": "bert.encoder.layer.{i}.intermediate.dense",
    "stack.blocks.{i}.feed_forward.W_2": "bert.encoder.layer.{i}.output.dense",
    "stack.blocks.{i}.norm_feed_forward": "bert.encoder.layer.{i}.output.LayerNorm",
    "pooler.W": "bert.pooler.dense",
    "head": "classifier",
    "token_head.W": "cls.predictions.transform.dense",
    "token_head.norm": "cls.predictions.transform.LayerNorm",
    "token_head.bias": "cls.predictions.bias",
}
DEFAULTS = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
}


def read_settings(fields: ConfigFields, classes: dict[str, str], pooler: str) -> dict[str, Any]:
    """The settings of BERT and RoBERTa; `pooler` is the name of its matrix."""
    fields.require("position_embedding_type", "absolute", None)
    fields.require("tie_word_embeddings", True)
    has_labels, predicts = (fields.class_name == classes[head] for head in ("labels", "masked_tokens"))
    if predicts:
        fields.require("hidden_act", "gelu")
    return {
        "vocabulary": fields.take("vocab_size"),
        "longest": fields.take("max_position_embeddings"),
        "d_model": fields.take("hidden_size"),
        "layers": fields.take("num_hidden_layers"),
        "heads": fields.take("num_attention_heads"),
        "d_hidden": fields.take("intermediate_size"),
        "feed_forward": fields.choose("hidden_act", ACTIVATIONS),
        "norm_eps": fields.take_number("layer_norm_eps"),
        "dropout": fields.take("hidden_dropout_prob"),
        "attention_dropout": fields.take("attention_probs_dropout_prob"),
        "padding": fields.take("pad_token_id"),
        "token_types": fields.take("type_vocab_size"),
        "labels": fields.read_labels() if has_labels else (),
        "masked_tokens": predicts,
        "pooler": pooler,
        "pooling": "first",
        "positions": "learned",
        "embedding_norm": True,
        "scaled": False,
        "initial": "gpt2",
    }


def write_settings(config: EncoderConfig) -> dict[str, Any]:
    """The fields of BERT and RoBERTa."""
    return {
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.longest,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.d_hidden,
        "hidden_act": activation_name(config.feed_forward),
        "layer_norm_eps": config.norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "pad_token_id": config.padding,
        "type_vocab_size": config.token_types or 1,
    }


CLASSES = {
    "labels": "BertForSequenceClassification",
    "masked_tokens": "BertForMaskedLM",
    "none": "BertModel",
}


def read_config(fields: ConfigFields, tensors: TensorSource) -> EncoderConfig:
    has_pooler = "bert.pooler.dense.weight" in tensors and fields.class_name != CLASSES["masked_tokens"]
    return EncoderConfig(**read_settings(fields, CLASSES, "tanh" if has_pooler else "none"))


BERT = Family(
    name="bert",
    kind="encoder",
    classes=CLASSES,
    names=NAMES,
    prefix="bert.",
    defaults=DEFAULTS,
    read=read_config,
    write=write_settings,
    copies={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    # The pooler and the head for pairs are no part of a model for masked tokens; files may hold them all the same.
    unused=(
        "embeddings.position_ids",
        "pooler.dense.weight",
        "pooler.dense.bias",
        "cls.seq_relationship.weight",
        "cls.seq_relationship.bias",
    ),
    keeps_bias=True,
)
