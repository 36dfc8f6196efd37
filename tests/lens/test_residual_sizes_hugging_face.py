"""What the parts of Hugging Face's blocks add to the residual stream, against hooks on those parts."""

import pytest
import torch

from transom.lens import watch
from transom.lens.capture.residual_sizes import measure_residual_sizes

transformers = pytest.importorskip("transformers")
SIZES = {"vocab_size": 41, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 17}


def small_model(kind):
    torch.manual_seed(5)
    if kind == "Llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=3))
    if kind == "BERT":
        return transformers.BertModel(transformers.BertConfig(**SIZES))
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=41, n_embd=12, n_layer=2, n_head=3))


PARTS = {
    "Llama": ("model.layers.1", "self_attn.o_proj", "mlp"),
    "BERT": ("encoder.layer.1", "attention.output.dense", "output.dense"),
    "GPT-2": ("transformer.h.1", "attn.c_proj", "mlp"),
}


@pytest.mark.parametrize("kind", PARTS)
def test_sizes_are_those_of_the_parts_themselves(kind):
    model, ids = small_model(kind).eval(), torch.tensor([[3, 1, 4, 1, 5, 9]])
    with watch(model) as trace, torch.no_grad():
        model(ids)
    block, *paths = PARTS[kind]
    expected = []
    hooks = [
        model.get_submodule(f"{block}.{path}").register_forward_hook(
            lambda module, args, output: expected.append(output[0].norm(dim=-1))
        )
        for path in paths
    ]
    found = measure_residual_sizes(model, lambda: model(ids), trace.names)[block]
    for hook in hooks:
        hook.remove()
    assert [name for name, _ in found.parts] == ["attention", "feed_forward"]
    for (_, sizes), part in zip(found.parts, expected, strict=True):
        torch.testing.assert_close(sizes, part.double(), rtol=1e-5, atol=1e-6)
