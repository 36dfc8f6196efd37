"""Hugging Face models without an edge: what their own eager attention gives when its softmax is changed by hand."""

import pytest
import torch

pytest.importorskip("transformers")

from ablation_reference import softmax_without
from architectures import BY_HAND, CHUNKED, IDS, INTERFACE, MASK, SDPA

import transom
from transom import Misfit

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")

HOWS = ("before", "after")
ALL = {**SDPA, **INTERFACE, **BY_HAND}
EAGER = ("GPT-2", "BERT", "T5, relative bias", "Falcon", *INTERFACE, *BY_HAND)
CASES = [(name, "sdpa") for name in SDPA] + [(name, "eager") for name in EAGER]
QUICK = (("GPT-2", "sdpa"), ("GPT-2", "eager"), ("Llama, grouped", "sdpa"), ("GPT-J", "eager"))


def attention_names(model, architecture):
    with torch.no_grad(), transom.watch(model, keep="statistics") as trace:
        model(**architecture.inputs)
    return [name for name, _ in trace.items()]


def mask_padding(x):
    """Zeros at padding: there sdpa and eager differ, and nobody reads it."""
    return x * MASK[:, :, None] if x.dim() == 3 and x.shape[1] == MASK.shape[1] else x


def edges_at(architecture):
    """Edges that every model may use: to earlier tokens, one of them the only one that the first row sees."""
    few = 6 if "pixel_values" in architecture.inputs or "input_features" in architecture.inputs else 5
    return [(None, 1, few, 2), (None, 3, 4, 4), (1, 0, 0, 0)]


@pytest.mark.parametrize(
    ("name", "attention"),
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_an_edge_out_is_the_models_own_eager_attention_without_it(name, attention):
    architecture, edges = ALL[name], edges_at(ALL[name])
    model, eager = architecture.build(attention), architecture.build("eager")
    names = attention_names(model, architecture)
    last = names[-1]
    to_cut = [transom.lens.Edge(last, head, query, key, batch) for batch, head, query, key in edges]
    for how in HOWS:
        with torch.no_grad():
            with softmax_without([number for number, name in enumerate(names) if name == last], edges, how):
                expected = eager(**architecture.inputs)[0]
            plain = model(**architecture.inputs)[0]
            with transom.knock_out(model, edges=to_cut, how=how), transom.watch(model, layers=last) as trace:
                output = model(**architecture.inputs)[0]
        assert not torch.allclose(mask_padding(output), mask_padding(plain), atol=1e-4)
        assert torch.allclose(
            mask_padding(output), mask_padding(expected), atol=2e-5 * float(expected.abs().max().clamp_min(1.0))
        )
        assert not any(sight.receipt().fails for sight in trace)
        assert trace[-1].weights(batch=0, head=1, rows=edges[0][2], keys=2) == 0.0


@pytest.mark.parametrize("name", ["GPT-2", pytest.param("GPT-J", marks=pytest.mark.slow)])
def test_gradients_reach_what_is_left(name):
    """The logits' sensitivity to the embedding of a token that only itself may attend to."""
    architecture = ALL[name]
    for attention in ("eager", "sdpa") if name in SDPA else ("eager",):
        model = architecture.build(attention)
        x = model.get_input_embeddings()(IDS[:1]).detach().requires_grad_()
        for how in HOWS:
            with transom.knock_out(model, key=3, query=slice(4, None), how=how):
                result = model(inputs_embeds=x)[0][0, -1].square().sum()
            (gradient,) = torch.autograd.grad(result, x)
            reaches = gradient[0, 3].abs().max() > 0
            # Before the softmax the key is as if it were not there; after it, its score still takes weight from others.
            assert reaches == (how == "after"), (attention, how)


def test_gradients_of_eager_attention_are_those_of_fused_attention():
    gradients = []
    for attention in ("eager", "sdpa"):
        model = SDPA["GPT-2"].build(attention)
        for how in HOWS:
            model.zero_grad()
            with transom.knock_out(model, layer=1, head=2, query=-1, key=[1, 4], how=how):
                model(IDS)[0][:, -1].square().sum().backward()
            gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for eager, fused in ((gradients[0], gradients[2]), (gradients[1], gradients[3])):
        for x, y in zip(eager, fused, strict=True):
            assert torch.allclose(x, y, atol=1e-4 * float(x.abs().max().clamp_min(1e-6)))
    assert not torch.allclose(gradients[0][0], gradients[1][0])


WRITERS = {
    "a cache": ("Llama, grouped", {}),
    "a cache of fixed size": ("Llama, grouped", {"cache_implementation": "static"}),
    "a cache that forgets": ("Mistral, sliding window", {}),
}


@pytest.mark.parametrize(
    "kind", [kind if kind == "a cache" else pytest.param(kind, marks=pytest.mark.slow) for kind in WRITERS]
)
def test_positions_of_a_generation_are_those_of_the_whole_text(kind):
    name, more = WRITERS[kind]
    model = SDPA[name].build("sdpa")
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0, **more}
    edge = {"layer": 1, "head": 1, "query": 13, "key": 11}
    with transom.knock_out(model, **edge):
        written = model.generate(IDS[:1], **options, return_dict_in_generate=True, output_logits=True)
    with torch.no_grad(), transom.knock_out(model, **edge):
        expected = model(written.sequences[:, :-1]).logits[0, -5:]
    with torch.no_grad():
        plain = model(written.sequences[:, :-1]).logits[0, -5:]
    assert torch.allclose(torch.cat(written.logits), expected, atol=1e-4)
    assert not torch.allclose(expected[3], plain[3], atol=1e-4)
    assert torch.allclose(expected[:3], plain[:3], atol=1e-4)


@pytest.mark.parametrize("how", HOWS)
def test_steps_without_edges_are_stitched_without_them(how):
    model = SDPA["Llama, grouped"].build("sdpa")
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    edges = [(1, 1, 12, 11), (1, 2, [3, 13], 0), (0, 3, None, 2)]
    with transom.knock_out(model, edges=edges, how=how), transom.watch(model) as steps:
        written = model.generate(IDS[:1], **options)
    with torch.no_grad(), transom.knock_out(model, edges=edges, how=how), transom.watch(model) as expected:
        model(written[:, :-1])
    for stitched, sight in zip(steps.stitched(), expected, strict=True):
        assert torch.allclose(stitched.weights(), sight.weights(), atol=1e-5)
        assert stitched.receipt().holds


def test_positions_of_cross_attention_are_those_of_the_decoder():
    model = SDPA["BART"].build("sdpa")
    inputs = SDPA["BART"].inputs
    name = "decoder.layers.1.encoder_attn"
    with torch.no_grad(), transom.knock_out(model, layer=name, head=2, query=5, key=9):
        expected = model(**inputs).last_hidden_state[:1]
    cache, steps = None, []
    with torch.no_grad(), transom.knock_out(model, layer=name, head=2, query=5, key=9):
        for step in range(7):
            kwargs = {name: x[:1] for name, x in inputs.items()}
            kwargs["decoder_input_ids"] = kwargs["decoder_input_ids"][:, step : step + 1]
            result = model(**kwargs, past_key_values=cache, use_cache=True)
            cache = result.past_key_values
            steps.append(result.last_hidden_state)
    assert torch.allclose(torch.cat(steps, dim=1), expected, atol=1e-5)


def test_attention_in_chunks_cannot_be_cut_and_says_so():
    model = CHUNKED.build("eager")
    with torch.no_grad(), pytest.raises(Misfit) as error, transom.knock_out(model, head=1):
        model(**CHUNKED.inputs)
    assert str(error.value) == (
        "edges of 'encoder.layer.0.attention.self' were to be knocked out, but its attention is computed in a form that"
        ' cannot be cut; knock out other layers with layer=…, or load the model with attn_implementation="sdpa"'
    )


@pytest.mark.parametrize(
    "name", ["GPT-2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("Llama, grouped", "T5, relative bias"))]
)
def test_effect_of_a_models_arrows(name):
    architecture = SDPA[name]
    model = architecture.build("sdpa")
    inputs = {key: x[:1] for key, x in architecture.inputs.items()}
    table = transom.effect(model, inputs, k=2)
    assert table.notes == [], "the output projection of each is found, however it stores its parameters"
    with torch.no_grad():
        expected = model(**inputs).logits[0, -1]
        for row in table:
            with transom.knock_out(model, row.layer, row.head, row.query, row.key):
                without = model(**inputs).logits[0, -1]
            assert row.change == pytest.approx(
                float((without - expected)[table.target]), abs=1e-4 * float(expected.abs().max())
            )
    assert max(abs(row.change) for row in table) > 1e-3


@pytest.mark.slow
def test_effect_of_an_encoder_and_of_attention_by_hand():
    model = SDPA["BERT"].build("sdpa")
    inputs = {"input_ids": IDS[:1]}
    with pytest.raises(Misfit) as error:
        transom.effect(model, inputs)
    assert str(error.value) == (
        "the model gives no logits (batch, vocabulary) or (batch, token, vocabulary), but"
        " BaseModelOutputWithPoolingAndCrossAttentions; say what to measure, as in"
        " output=lambda result: result.last_hidden_state[:, 0].norm(dim=-1)"
    )
    table = transom.effect(model, inputs, query=0, k=2, output=lambda result: result.last_hidden_state[:, 0, 5])
    assert table.notes == []
    assert max(abs(row.change) for row in table) > 1e-4
    by_hand = transom.effect(BY_HAND["GPT-J"].build("eager"), inputs, [(1, 2, -1, key) for key in range(11)])
    assert by_hand.notes == []
    assert abs(sum(row.contribution for row in by_hand) - 1) < 1e-5
    assert max(abs(row.change) for row in by_hand) > 1e-4


@pytest.mark.slow
def test_a_batch_of_heads_is_knocked_out_as_one_by_one():
    from transom.lens.attribution.head_ranking import HeadRanker

    model = SDPA["Llama, grouped"].build("sdpa")
    with torch.no_grad(), transom.watch(model) as trace:
        model(IDS[:1])
    name, head, *_ = HeadRanker(model, {"input_ids": IDS[:1]}, trace).rank().first
    assert name in trace.names
    assert 0 <= head < 4
