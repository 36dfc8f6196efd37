"""Small random models of transformers, of every family and variant; sizes prime and different where they may be."""

from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")
# Importing the library's parts warns of packages that Transom does not need.
transformers.utils.logging.set_verbosity_error()

LLAMA = {
    "vocab_size": 41,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": 17,
    "max_position_embeddings": 37,
    "rms_norm_eps": 1e-3,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
}
GPT2 = {
    "vocab_size": 41,
    "n_embd": 12,
    "n_layer": 3,
    "n_head": 2,
    "n_positions": 37,
    "n_inner": 17,
    "eos_token_id": 2,
    "bos_token_id": 1,
    "layer_norm_epsilon": 1e-3,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 13,
}
YARN = {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 19}
# Class, its fields: by what is special.
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2 untied": ("GPT2LMHeadModel", GPT2 | {"tie_word_embeddings": False, "activation_function": "relu"}),
    "llama": ("LlamaForCausalLM", LLAMA),
    "llama with biases": ("LlamaForCausalLM", LLAMA | {"attention_bias": True, "mlp_bias": True}),
    "llama tied": ("LlamaForCausalLM", LLAMA | {"tie_word_embeddings": True}),
    "llama 3 scaling": ("LlamaForCausalLM", LLAMA | {"rope_parameters": LLAMA3}),
    "linear scaling": (
        "LlamaForCausalLM",
        LLAMA | {"rope_parameters": {"rope_type": "linear", "rope_theta": 99.0, "factor": 3.0}},
    ),
    "yarn scaling": ("LlamaForCausalLM", LLAMA | {"rope_parameters": YARN}),
    "mistral": ("MistralForCausalLM", LLAMA | {"sliding_window": 5}),
    "mistral without a window": ("MistralForCausalLM", LLAMA | {"sliding_window": None}),
    "qwen2": ("Qwen2ForCausalLM", LLAMA | {"head_dim": 2}),
    "qwen2 sliding": (
        "Qwen2ForCausalLM",
        LLAMA | {"head_dim": 2, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3ForCausalLM", LLAMA),
    "qwen3 with biases": ("Qwen3ForCausalLM", LLAMA | {"attention_bias": True, "use_sliding_window": False}),
}

BERT = {
    "vocab_size": 41,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 17,
    "max_position_embeddings": 37,
    "layer_norm_eps": 1e-3,
}
LABELS = {"id2label": {0: "good", 1: "bad", 2: "neither"}, "label2id": {"good": 0, "bad": 1, "neither": 2}}
DISTILBERT = {
    "vocab_size": 41,
    "dim": 12,
    "n_layers": 3,
    "n_heads": 2,
    "hidden_dim": 17,
    "max_position_embeddings": 37,
}
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", BERT),
    "bert with labels": ("BertForSequenceClassification", BERT | LABELS),
    "bert for masked tokens": ("BertForMaskedLM", BERT),
    "roberta": ("RobertaModel", BERT | {"type_vocab_size": 1}),
    "roberta with labels": ("RobertaForSequenceClassification", BERT | LABELS),
    "roberta for masked tokens": ("RobertaForMaskedLM", BERT | {"hidden_act": "gelu"}),
    "distilbert": ("DistilBertModel", DISTILBERT | {"activation": "relu"}),
    "distilbert with labels": ("DistilBertForSequenceClassification", DISTILBERT | LABELS),
    "distilbert for masked tokens": ("DistilBertForMaskedLM", DISTILBERT),
}
BART = {
    "vocab_size": 41,
    "d_model": 12,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 17,
    "decoder_ffn_dim": 17,
    "max_position_embeddings": 37,
    "pad_token_id": 3,
    "eos_token_id": 2,
    "bos_token_id": 1,
    "forced_eos_token_id": 2,
    "decoder_start_token_id": 3,
}
T5 = {
    "vocab_size": 41,
    "d_model": 12,
    "d_kv": 5,
    "d_ff": 17,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11,
    "pad_token_id": 3,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
    "layer_norm_epsilon": 1e-3,
}
ENCODER_DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("MarianMTModel", BART | {"activation_function": "swish", "scale_embedding": True}),
    "pegasus": ("PegasusForConditionalGeneration", BART | {"activation_function": "relu", "scale_embedding": True}),
    "bart": ("BartForConditionalGeneration", BART | {"forced_bos_token_id": 7}),
    "bart scaled": ("BartForConditionalGeneration", BART | {"scale_embedding": True, "activation_function": "relu"}),
    "t5": ("T5ForConditionalGeneration", T5),
    "t5 1.1": ("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
}


def build(class_name: str, fields: dict[str, Any]) -> Any:
    """A model with random parameters, in which nothing is 0 or 1 and no part is small."""
    torch.manual_seed(61)
    kind = getattr(transformers, class_name)
    model = kind(kind.config_class(**fields)).eval()
    with torch.no_grad():
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
        for name, parameter in model.named_parameters():
            if class_name in ("MarianMTModel", "PegasusForConditionalGeneration") and "embed_positions" in name:
                continue
            parameter.copy_(torch.randn_like(parameter) * (0.5 if parameter.dim() > 1 else 0.3))
            if parameter.dim() == 1:
                parameter += 0.7
    return model


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Equal to 2e-4 of the scale of the numbers."""
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= 2e-4 * theirs.abs().max()


def assert_same_tensors(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    """Two models of transformers hold the same numbers under the same names."""
    found, expected = ours.state_dict(), theirs.state_dict()
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name
