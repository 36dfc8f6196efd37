"""Parts of a logit beside sums written out by hand in float64, for Transom's models and Hugging Face's."""

from dataclasses import replace

import pytest
import torch

import transom
from transom import Misfit
from transom.lens.attribution.residual_stream import ResidualLayout
from transom.models import Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig
from transom.runner.residual_layouts import PRE_NORM, residual_layout

TOKENS = torch.randint(4, 23, (1, 7), generator=torch.Generator().manual_seed(1))
SIZES = {"vocabulary": 23, "d_model": 12, "heads": 3, "d_hidden": 17}
MODELS = {
    "decoder, post-norm": lambda: (Decoder(DecoderConfig(layers=2, **SIZES)), {"tokens": TOKENS}),
    "decoder, pre-norm, RMSNorm, scaled, with biases": lambda: (
        Decoder(
            DecoderConfig(layers=2, arrangement="pre_norm", norm="rms", logits_scale=0.5, logits_bias=True, **SIZES)
        ),
        {"tokens": TOKENS},
    ),
    "encoder–decoder": lambda: (
        EncoderDecoder(EncoderDecoderConfig(encoder_layers=1, decoder_layers=2, **SIZES)),
        {"source": TOKENS, "target": TOKENS[:, :5]},
    ),
}
LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL = {
    **LAYERS,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "vocab_size": 97,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
SPECIAL = {"gpt2": {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}}
SPECIAL["opt"] = {**LAYERS, "vocab_size": 97, "ffn_dim": 37, "max_position_embeddings": 64, "word_embed_proj_dim": 32}
SIDES = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("layers", 2), ("ffn_dim", 37))}
PAIR = {**SIDES, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 97, "d_model": 32}
SPECIAL |= {name: {**PAIR, "pad_token_id": 0, "decoder_start_token_id": 1} for name in ("bart", "marian")}


def random_model(build):
    torch.manual_seed(3)
    model, inputs = build()
    for parameter in model.parameters():
        if parameter.dim() == 1:  # norms and biases that do something
            torch.nn.init.normal_(parameter, 1.0, 0.3)
    return model.double().eval(), inputs


def hugging_face(kind):
    transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(kind, **SPECIAL.get(kind, SMALL))
    pair = kind in ("bart", "marian")
    factory = transformers.AutoModelForSeq2SeqLM if pair else transformers.AutoModelForCausalLM
    model = factory.from_config(config, attn_implementation="sdpa").double().eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, 0.8 if "bias" not in name else 0.1, 0.3)
        else:
            parameter.data.mul_(4.0)
    return model, {"input_ids": TOKENS, **({"decoder_input_ids": TOKENS[:, :5]} if pair else {"use_cache": False})}


@pytest.mark.parametrize("name", MODELS)
def test_parts_sum_to_the_logit_of_transoms_models(name):
    model, inputs = random_model(MODELS[name])
    with torch.no_grad():
        logits = model(**inputs)[0]
    for row in (-1, 2):
        found = transom.attribute_logit(model, inputs, row=row)
        assert found.target == int(logits[row].argmax())
        assert sum(part.value for part in found.parts) == pytest.approx(float(logits[row].max()), abs=1e-9)
        assert found.receipt.holds
        heads = [part for part in found.parts if part.kind == "head"]
        assert len(heads) == 3 * (4 if name == "encoder–decoder" else 2)
        sizes = [abs(part.value) for part in found.parts]
        assert sizes == sorted(sizes, reverse=True)
    both = transom.attribute_logit(model, inputs, target=7, against=9)
    assert both.value == pytest.approx(float(logits[-1, 7] - logits[-1, 9]))
    assert sum(part.value for part in both.parts) == pytest.approx(both.value, abs=1e-9)


@pytest.mark.parametrize("kind", [*PRE_NORM, "bart", "marian"])
def test_parts_sum_to_the_logit_of_hugging_face_models(kind):
    model, inputs = hugging_face(kind)
    with torch.no_grad():
        logits = model(**inputs).logits[0, -1]
    found = transom.attribute_logit(model, inputs, target=11)
    assert sum(part.value for part in found.parts) == pytest.approx(float(logits[11]), abs=1e-6)
    rows = transom.logit_lens(model, inputs, target=11).rows
    assert rows[-1].logit == pytest.approx(float(logits[11]), abs=1e-6), "after the last block it is the model's own"
    assert rows[-1].rank == int((logits > logits[11]).sum())
    assert len(rows) == 3


def test_the_heads_of_gpt_2_are_those_of_its_own_weights():
    model, inputs = hugging_face("gpt2")
    eager = type(model)._from_config(model.config, attn_implementation="eager").double().eval()
    eager.load_state_dict(model.state_dict())
    states = {}
    for layer, block in enumerate(eager.transformer.h):
        block.ln_1.register_forward_hook(lambda _, args, output, layer=layer: states.update({layer: output[0]}))
    with torch.no_grad():
        result = eager(**inputs, output_attentions=True, output_hidden_states=True)
        last = eager.transformer.h[-1]
        stream = []
        eager.transformer.ln_f.register_forward_hook(lambda _, args, output: stream.append(args[0][0, -1]))
        eager(**inputs)
    x, gain = stream[0], eager.transformer.ln_f.weight
    scale = float(((x - x.mean()).square().mean() + eager.transformer.ln_f.eps).sqrt())
    found = {(part.layer, part.head): part.value for part in transom.attribute_logit(model, inputs, target=5).parts}
    W_U, width = eager.lm_head.weight[5], 8
    for layer, block in enumerate(eager.transformer.h):
        V = (states[layer] @ block.attn.c_attn.weight + block.attn.c_attn.bias)[:, 64:]
        for head in range(4):
            columns = slice(head * width, (head + 1) * width)
            z = result.attentions[layer][0, head, -1] @ V[:, columns]
            added = z @ block.attn.c_proj.weight[columns]
            expected = float(((added - added.mean()) / scale * gain @ W_U).detach())
            assert found[layer, head] == pytest.approx(expected, abs=1e-9)
    assert last is eager.transformer.h[1]


def test_the_lens_is_the_norm_and_the_unembedding_of_each_hidden_state():
    model, inputs = hugging_face("llama")
    with torch.no_grad():
        states = model(**inputs, output_hidden_states=True).hidden_states
        expected = [model.lm_head(model.model.norm(state[0, -1])) for state in states[:-1]]
    found = transom.logit_lens(model, inputs, k=4)
    for row, logits in zip(found.rows, expected, strict=False):
        assert row.tokens == logits.topk(4).indices.tolist()
        assert row.probabilities == pytest.approx(logits.softmax(dim=-1).topk(4).values.tolist())


def test_what_is_not_known_is_an_error():
    no_skip = Decoder(DecoderConfig(layers=1, arrangement="no_skip", **SIZES)).eval()
    with pytest.raises(
        Misfit, match=r"need blocks that add to their input, but these are NoSkip; train with arrangement"
    ):
        transom.attribute_logit(no_skip, {"tokens": TOKENS})
    with pytest.raises(
        Misfit, match=r"known for Transom's decoders and for Hugging Face's bart, gemma.* but this is Linear"
    ):
        transom.attribute_logit(torch.nn.Linear(3, 3), TOKENS)
    model, inputs = random_model(MODELS["decoder, post-norm"])
    layout = residual_layout(model)
    short = replace(layout, blocks=layout.blocks[:1])
    assert isinstance(short, ResidualLayout)
    with pytest.raises(Misfit, match=r"the parts of a logit must add up to it, but they are off by"):
        transom.attribute_logit(model, inputs, layout=short)
