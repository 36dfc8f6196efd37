"""Hugging Face models as they are: the weights seen under sdpa are those of the model's own eager attention."""

import pytest
import torch

pytest.importorskip("transformers")

import architectures
from architectures import MASK, SDPA

import transom

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def own_weights(result):
    """The weights a model gives when asked, in the order in which its attentions run."""
    within = list(getattr(result, "decoder_attentions", None) or getattr(result, "attentions", None) or ())
    across = list(getattr(result, "cross_attentions", None) or ())
    first = list(getattr(result, "encoder_attentions", None) or ())
    return first + ([weights for pair in zip(within, across, strict=True) for weights in pair] if across else within)


def real_rows(weights):
    """Without the rows of padding: there sdpa and eager differ, and nobody reads them."""
    return weights * MASK[:, None, :, None] if weights.shape[2] == MASK.shape[1] else weights


@pytest.mark.parametrize("name", SDPA)
def test_weights_under_sdpa_are_the_eager_ones_and_the_output_keeps_its_bits(name):
    one = SDPA[name]
    model, eager = one.built("sdpa"), one.built("eager")
    with torch.no_grad():
        expected = own_weights(eager(**one.inputs, output_attentions=True))
        plain = model(**one.inputs)[0]
        with transom.watch(model) as trace:
            seen = model(**one.inputs)[0]
    assert torch.equal(plain, seen)
    assert len(trace) == len(expected) == one.attentions
    for sight, weights in zip(trace, expected, strict=True):
        assert torch.allclose(real_rows(sight.weights()), real_rows(weights), atol=1e-5)
        assert sight.receipt().holds, str(sight.receipt())
    spread = max(float(weights.std()) for weights in expected)
    assert spread > 0.02, "weights that all are alike would prove little"


def test_generation_with_a_cache_keeps_its_tokens_and_every_step():
    model = architectures.SDPA["Llama, grouped"].built("sdpa")
    asked = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(architectures.IDS[:1], **asked)
    with transom.watch(model) as trace:
        assert torch.equal(model.generate(architectures.IDS[:1], **asked), plain)
    for name in trace.names:
        steps = trace.all(name)
        assert [(sight.Q.shape[2], sight.K.shape[2]) for sight in steps] == [(11, 11), (1, 12), (1, 13), (1, 14)]
        assert all(sight.receipt().holds for sight in steps)
