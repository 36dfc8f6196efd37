"""Feed-forward parts of Hugging Face's models, recognised by their numbers."""

import pytest
import torch

from transom.lens.capture.feed_forward import find_feed_forward

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SIZES = {"vocab_size": 31, "num_hidden_layers": 2, "num_attention_heads": 2}
WIDE = {**SIZES, "hidden_size": 12, "intermediate_size": 19}
# Configuration, name of an attention, activation, whether it is gated.
MODELS = {
    "gpt2": (
        lambda: transformers.GPT2Config(vocab_size=31, n_embd=12, n_layer=2, n_head=2, n_inner=19),
        "transformer.h.1.attn", "GELU (tanh)", False,
    ),
    "llama": (lambda: transformers.LlamaConfig(**WIDE), "model.layers.1.self_attn", "SiLU", True),
    "gemma": (
        lambda: transformers.GemmaConfig(**WIDE, num_key_value_heads=2, head_dim=6),
        "model.layers.1.self_attn", "GELU (tanh)", True,
    ),
    "phi3": (lambda: transformers.Phi3Config(**WIDE, pad_token_id=0), "model.layers.0.self_attn", "SiLU", True),
    "gpt_neox": (lambda: transformers.GPTNeoXConfig(**WIDE), "gpt_neox.layers.1.attention", "GELU", False),
    "opt": (
        lambda: transformers.OPTConfig(**SIZES, hidden_size=12, ffn_dim=19, word_embed_proj_dim=12),
        "model.decoder.layers.1.self_attn", "ReLU", False,
    ),
    "bert": (lambda: transformers.BertConfig(**WIDE), "encoder.layer.1.attention.self", "GELU", False),
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_its_units_add_up_to_what_the_part_gives(kind):
    make, name, activation, gated = MODELS[kind]
    torch.manual_seed(5)
    kinds = transformers.AutoModel if kind == "bert" else transformers.AutoModelForCausalLM
    model = kinds.from_config(make()).eval()
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    units = find_feed_forward(model, lambda: model(ids), name, 2)
    assert (units.activation, units.up is not None) == (activation, gated)
    total = units.hidden @ units.W_2.double()
    torch.testing.assert_close(total if units.b_2 is None else total + units.b_2, units.output, rtol=1e-4, atol=1e-6)
    assert tuple(units.W_2.shape) == (19, 12)
