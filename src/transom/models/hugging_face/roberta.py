"""RoBERTa (Liu et al. 2019): BERT whose positions begin behind the padding token's number."""

from typing import Any

from transom.models.config import EncoderConfig
from transom.models.hugging_face import bert
from transom.models.hugging_face.config_fields import ConfigFields
from transom.models.hugging_face.family import Family
from transom.models.hugging_face.tensor_names import TensorSource

NAMES = {
    ours: theirs.replace("bert.", "roberta.", 1) for ours, theirs in bert.NAMES.items() if theirs.startswith("bert.")
}
HEAD_NAMES = {
    "labels": {"pooler.W": "classifier.dense", "head": "classifier.out_proj"},
    "masked_tokens": {
        "token_head.W": "lm_head.dense",
        "token_head.norm": "lm_head.layer_norm",
        "token_head.bias": "lm_head.bias",
    },
}
CLASSES = {
    "labels": "RobertaForSequenceClassification",
    "masked_tokens": "RobertaForMaskedLM",
    "none": "RobertaModel",
}


def read_config(fields: ConfigFields, tensors: TensorSource) -> EncoderConfig:
    has_pooler = "roberta.pooler.dense.weight" in tensors and fields.class_name == CLASSES["none"]
    pooler = "tanh" if has_pooler or fields.class_name == CLASSES["labels"] else "none"
    settings = bert.read_settings(fields, CLASSES, pooler)
    offset = settings["padding"] + 1
    return EncoderConfig(**settings | {"longest": settings["longest"] - offset, "position_offset": offset})


def write_config(config: EncoderConfig) -> dict[str, Any]:
    fields = bert.write_settings(config)
    return fields | {"max_position_embeddings": config.longest + config.position_offset}


ROBERTA = Family(
    name="roberta",
    kind="encoder",
    classes=CLASSES,
    names=NAMES,
    head_names=HEAD_NAMES,
    prefix="roberta.",
    defaults=bert.DEFAULTS | {"vocab_size": 50265, "pad_token_id": 1},
    read=read_config,
    write=write_config,
    copies={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    unused=("embeddings.position_ids", "roberta.pooler.dense.weight", "roberta.pooler.dense.bias"),
    keeps_bias=True,
)
