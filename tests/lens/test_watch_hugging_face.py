"""Hugging Face models as they are: the weights seen under sdpa are those of the model's own eager attention."""

import pytest
import torch

pytest.importorskip("transformers")

import architectures
from architectures import BY_HAND, CHUNKED, INTERFACE, MASK, SDPA

import transom

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def own_weights(result):
    """The weights that a model returns, in the order in which its attentions run."""
    self_weights = list(getattr(result, "decoder_attentions", None) or getattr(result, "attentions", None) or ())
    cross_weights = list(getattr(result, "cross_attentions", None) or ())
    encoder_weights = list(getattr(result, "encoder_attentions", None) or ())
    if cross_weights:
        self_weights = [weights for pair in zip(self_weights, cross_weights, strict=True) for weights in pair]
    return encoder_weights + self_weights


def real_rows(weights):
    """Without the rows of padding: there sdpa and eager differ, and nobody reads them."""
    return weights * MASK[:, None, :, None] if weights.shape[2] == MASK.shape[1] else weights


@pytest.mark.parametrize("name", SDPA)
def test_weights_under_sdpa_are_the_eager_ones_and_the_output_keeps_its_bits(name):
    architecture = SDPA[name]
    model, eager = architecture.build("sdpa"), architecture.build("eager")
    with torch.no_grad():
        expected = own_weights(eager(**architecture.inputs, output_attentions=True))
        plain = model(**architecture.inputs)[0]
        with transom.watch(model) as trace:
            watched = model(**architecture.inputs)[0]
    assert torch.equal(plain, watched)
    assert len(trace) == len(expected) == architecture.attentions
    for sight, weights in zip(trace, expected, strict=True):
        assert torch.allclose(real_rows(sight.weights()), real_rows(weights), atol=1e-5)
        assert sight.receipt().holds, str(sight.receipt())
    spread = max(float(weights.std()) for weights in expected)
    assert spread > 0.02, "weights that all are alike would prove little"


def test_generation_with_a_cache_keeps_its_tokens_and_every_step():
    model = architectures.SDPA["Llama, grouped"].build("sdpa")
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(architectures.IDS[:1], **options)
    with transom.watch(model) as trace:
        assert torch.equal(model.generate(architectures.IDS[:1], **options), plain)
    for name in trace.names:
        steps = trace.all(name)
        assert [(sight.Q.shape[2], sight.K.shape[2]) for sight in steps] == [(11, 11), (1, 12), (1, 13), (1, 14)]
        assert all(sight.receipt().holds for sight in steps)


def watch_eager(architecture):
    """The model's own weights, and the trace of an eager run that kept its bits."""
    model = architecture.build("eager")
    with torch.no_grad():
        expected = own_weights(model(**architecture.inputs, output_attentions=True))
        plain = model(**architecture.inputs)[0]
        with transom.watch(model) as trace:
            watched = model(**architecture.inputs)[0]
    assert torch.equal(plain, watched)
    assert len(trace) == len(expected) == architecture.attentions
    for sight, weights in zip(trace, expected, strict=True):
        assert torch.allclose(sight.weights(), weights, atol=1e-5), "padded rows included"
    return trace


@pytest.mark.parametrize("name", [*SDPA, *INTERFACE])
def test_eager_attention_is_seen_through_the_interface(name):
    trace = watch_eager({**SDPA, **INTERFACE}[name])
    assert all(sight.receipt().holds for sight in trace)
    if name not in {"T5, relative bias", "GPT-OSS, with sinks", "Falcon"}:  # Falcon's eager function is its own
        assert all(sight.Q.shape[3] > 0 for sight in trace), "understood as queries and keys, not as weights alone"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_falcon_with_alibi_is_seen_as_it_is_though_its_two_attentions_differ(attention):
    architecture = architectures.causal("Falcon", {**architectures.LAYERS, "vocab_size": 97, "alibi": True})
    model = architecture.build(attention)
    with torch.no_grad():
        plain = model(**architecture.inputs)[0]
        with transom.watch(model) as trace:
            assert torch.equal(model(**architecture.inputs)[0], plain)
        own = model(**architecture.inputs, output_attentions=True).attentions if attention == "eager" else None
    assert len(trace) == 2
    if own is None:
        assert all(sight.receipt().holds for sight in trace)
        return
    for sight, weights in zip(trace, own, strict=True):
        assert torch.allclose(sight.weights(), weights, atol=1e-5)


def test_a_soft_cap_and_a_sink_are_what_they_are():
    assert [sight.problem.softcap for sight in watch_eager(INTERFACE["Gemma 2, soft-capped"])] == [5.0, 5.0]
    for sight in watch_eager(INTERFACE["GPT-OSS, with sinks"]):
        assert (sight.weights().sum(-1) < 0.999).any(), "the sink takes its share and shows no value"


@pytest.mark.parametrize("name", BY_HAND)
def test_weights_computed_by_hand_are_seen_with_their_values(name):
    for sight in watch_eager(BY_HAND[name]):
        assert sight.receipt().holds
        assert sight.Q.shape[3] == 0, "queries and keys are not known"
        assert sight.entropy().isfinite().all()


@pytest.mark.parametrize("name", ["Llama, grouped", "BART", "Gemma 2, soft-capped"])
def test_training_with_eager_attention_keeps_its_bits(name):
    architecture = {**SDPA, **INTERFACE}[name]
    model = architecture.build("eager").train()
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.3
    results = []
    for watched in (False, True):
        torch.manual_seed(59)
        if watched:
            with transom.watch(model) as trace:
                results.append(model(**architecture.inputs)[0])
        else:
            results.append(model(**architecture.inputs)[0])
    assert torch.equal(*results)
    if name != "BART":
        assert all("dropout of 0.3" in sight.receipt().unproved for sight in trace)
    assert all(torch.allclose(sight.weights().sum(-1), torch.ones(()), atol=1e-5) for sight in trace)


def test_attention_in_chunks_is_asked_by_its_values():
    model = CHUNKED.build("eager")
    with torch.no_grad():
        plain = model(**CHUNKED.inputs)[0]
        own = model(**CHUNKED.inputs, output_attentions=True).attentions
        with transom.watch(model) as trace:
            assert torch.equal(model(**CHUNKED.inputs)[0], plain)
    window = own[0].shape[-1] // 2
    for sight, weights in zip(trace, own, strict=True):
        assert sight.receipt().holds
        for row in range(weights.shape[2]):  # column c of the model's own weights is the key at row − window + c
            keys = [row - window + column for column in range(2 * window + 1)]
            inside = [column for column, key in enumerate(keys) if 0 <= key < sight.shape[3]]
            ours = sight.weights(rows=row, keys=[keys[column] for column in inside])
            assert torch.allclose(ours, weights[:, :, row, inside], atol=1e-6)
        assert torch.allclose(sight.weights(rows=0).sum(-1), torch.ones(()))


def test_the_interface_is_put_back():
    from transformers.modeling_utils import AttentionInterface

    before = AttentionInterface.get_interface
    watch_eager(INTERFACE["ESM"])
    assert AttentionInterface.get_interface is before
