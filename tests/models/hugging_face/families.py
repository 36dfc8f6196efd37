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


def build(class_name: str, fields: dict[str, Any]) -> Any:
    """A model with random parameters, in which nothing is 0 or 1 and no part is small."""
    torch.manual_seed(61)
    kind = getattr(transformers, class_name)
    model = kind(kind.config_class(**fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.5 if parameter.dim() > 1 else 0.3))
            if parameter.dim() == 1:
                parameter += 0.7
    return model
