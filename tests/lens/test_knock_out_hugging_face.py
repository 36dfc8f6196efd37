"""Hugging Face models without an edge: what their own eager attention gives when its softmax is changed by hand."""

import pytest
import torch

pytest.importorskip("transformers")

from architectures import BY_HAND, CHUNKED, IDS, INTERFACE, MASK, SDPA
from knocked import softmax_without

import transom
from transom import Misfit

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")

HOWS = ("before", "after")
ALL = {**SDPA, **INTERFACE, **BY_HAND}
EAGER = ("GPT-2", "BERT", "T5, relative bias", "Falcon", *INTERFACE, *BY_HAND)
CASES = [(name, "sdpa") for name in SDPA] + [(name, "eager") for name in EAGER]
QUICK = (("GPT-2", "sdpa"), ("GPT-2", "eager"), ("Llama, grouped", "sdpa"), ("GPT-J", "eager"))


def names_of(model, one):
    with torch.no_grad(), transom.watch(model, keep="statistics") as trace:
        model(**one.inputs)
    return [name for name, _ in trace.items()]


def real(x):
    """Without what stands at padding: there sdpa and eager differ, and nobody reads it."""
    return x * MASK[:, :, None] if x.dim() == 3 and x.shape[1] == MASK.shape[1] else x


def edges_at(one):
    """Edges that every model may look along: at earlier tokens, one of them the only one that the first row sees."""
    few = 6 if "pixel_values" in one.inputs or "input_features" in one.inputs else 5
    return [(None, 1, few, 2), (None, 3, 4, 4), (1, 0, 0, 0)]


@pytest.mark.parametrize(
    ("name", "attention"),
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_an_edge_out_is_the_models_own_eager_attention_without_it(name, attention):
    one, edges = ALL[name], edges_at(ALL[name])
    model, eager = one.built(attention), one.built("eager")
    names = names_of(model, one)
    last = names[-1]
    asked = [transom.lens.Edge(last, head, query, key, batch) for batch, head, query, key in edges]
    for how in HOWS:
        with torch.no_grad():
            with softmax_without([place for place, name in enumerate(names) if name == last], edges, how):
                expected = eager(**one.inputs)[0]
            plain = model(**one.inputs)[0]
            with transom.knock_out(model, edges=asked, how=how), transom.watch(model, layers=last) as trace:
                found = model(**one.inputs)[0]
        assert not torch.allclose(real(found), real(plain), atol=1e-4)
        assert torch.allclose(real(found), real(expected), atol=2e-5 * float(expected.abs().max().clamp_min(1.0)))
        assert not any(sight.receipt().fails for sight in trace)
        assert trace[-1].weights(batch=0, head=1, rows=edges[0][2], keys=2) == 0.0


@pytest.mark.parametrize("name", ["GPT-2", pytest.param("GPT-J", marks=pytest.mark.slow)])
def test_gradients_reach_what_is_left(name):
    """The logits' sensitivity to the embedding of a token that nobody may look at but itself."""
    one = ALL[name]
    for attention in ("eager", "sdpa") if name in SDPA else ("eager",):
        model = one.built(attention)
        x = model.get_input_embeddings()(IDS[:1]).detach().requires_grad_()
        for how in HOWS:
            with transom.knock_out(model, key=3, query=slice(4, None), how=how):
                result = model(inputs_embeds=x)[0][0, -1].square().sum()
            (sent,) = torch.autograd.grad(result, x)
            reaches = sent[0, 3].abs().max() > 0
            # Before the softmax the key is as if it were not there; after it, its score still takes weight from others.
            assert reaches == (how == "after"), (attention, how)


def test_gradients_of_eager_attention_are_those_of_fused_attention():
    found = []
    for attention in ("eager", "sdpa"):
        model = SDPA["GPT-2"].built(attention)
        for how in HOWS:
            model.zero_grad()
            with transom.knock_out(model, layer=1, head=2, query=-1, key=[1, 4], how=how):
                model(IDS)[0][:, -1].square().sum().backward()
            found.append([parameter.grad.clone() for parameter in model.parameters()])
    for eager, fused in ((found[0], found[2]), (found[1], found[3])):
        for one, other in zip(eager, fused, strict=True):
            assert torch.allclose(one, other, atol=1e-4 * float(one.abs().max().clamp_min(1e-6)))
    assert not torch.allclose(found[0][0], found[1][0])


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
    model = SDPA[name].built("sdpa")
    asked = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0, **more}
    place = {"layer": 1, "head": 1, "query": 13, "key": 11}
    with transom.knock_out(model, **place):
        written = model.generate(IDS[:1], **asked, return_dict_in_generate=True, output_logits=True)
    with torch.no_grad(), transom.knock_out(model, **place):
        whole = model(written.sequences[:, :-1]).logits[0, -5:]
    with torch.no_grad():
        plain = model(written.sequences[:, :-1]).logits[0, -5:]
    assert torch.allclose(torch.cat(written.logits), whole, atol=1e-4)
    assert not torch.allclose(whole[3], plain[3], atol=1e-4)
    assert torch.allclose(whole[:3], plain[:3], atol=1e-4)


@pytest.mark.parametrize("how", HOWS)
def test_steps_without_edges_are_stitched_without_them(how):
    model = SDPA["Llama, grouped"].built("sdpa")
    asked = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    edges = [(1, 1, 12, 11), (1, 2, [3, 13], 0), (0, 3, None, 2)]
    with transom.knock_out(model, edges=edges, how=how), transom.watch(model) as steps:
        written = model.generate(IDS[:1], **asked)
    with torch.no_grad(), transom.knock_out(model, edges=edges, how=how), transom.watch(model) as whole:
        model(written[:, :-1])
    for one, other in zip(steps.stitched(), whole, strict=True):
        assert torch.allclose(one.weights(), other.weights(), atol=1e-5)
        assert one.receipt().holds


def test_positions_of_cross_attention_are_those_of_the_decoder():
    model = SDPA["BART"].built("sdpa")
    inputs = SDPA["BART"].inputs
    name = "decoder.layers.1.encoder_attn"
    with torch.no_grad(), transom.knock_out(model, layer=name, head=2, query=5, key=9):
        whole = model(**inputs).last_hidden_state[:1]
    cache, steps = None, []
    with torch.no_grad(), transom.knock_out(model, layer=name, head=2, query=5, key=9):
        for step in range(7):
            one = {word: x[:1] for word, x in inputs.items()}
            fed = {**one, "decoder_input_ids": one["decoder_input_ids"][:, step : step + 1]}
            result = model(**fed, past_key_values=cache, use_cache=True)
            cache = result.past_key_values
            steps.append(result.last_hidden_state)
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=1e-5)


def test_attention_in_chunks_cannot_be_cut_and_says_so():
    model = CHUNKED.built("eager")
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
    one = SDPA[name]
    model = one.built("sdpa")
    inputs = {word: x[:1] for word, x in one.inputs.items()}
    table = transom.effect(model, inputs, k=2)
    assert table.notes == [], "the output projection of each is found, however it keeps its parameters"
    with torch.no_grad():
        whole = model(**inputs).logits[0, -1]
        for row in table:
            with transom.knock_out(model, row.layer, row.head, row.query, row.key):
                without = model(**inputs).logits[0, -1]
            assert row.change == pytest.approx(
                float((without - whole)[table.target]), abs=1e-4 * float(whole.abs().max())
            )
    assert max(abs(row.change) for row in table) > 1e-3


@pytest.mark.slow
def test_effect_of_an_encoder_and_of_attention_by_hand():
    model = SDPA["BERT"].built("sdpa")
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
    by_hand = transom.effect(BY_HAND["GPT-J"].built("eager"), inputs, [(1, 2, -1, key) for key in range(11)])
    assert by_hand.notes == [
        "the values of 'transformer.h.1.attn' are not seen: norm, contribution and local are not known"
    ]
    assert max(abs(row.change) for row in by_hand) > 1e-4


@pytest.mark.slow
def test_a_batch_of_heads_is_knocked_out_as_one_by_one():
    from transom.lens.asking.matter import most_telling

    model = SDPA["Llama, grouped"].built("sdpa")
    with torch.no_grad(), transom.watch(model) as trace:
        model(IDS[:1])
    name, head, *_ = most_telling(model, {"input_ids": IDS[:1]}, trace)
    assert name in trace.names
    assert 0 <= head < 4
