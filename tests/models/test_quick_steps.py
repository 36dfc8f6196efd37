"""Quick steps: the same as plain ones for all parts and ways; and where somebody listens, none are taken."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models.small import padded, rows
from models.test_models import every_choice
from models.writers import ENDS, WAYS, decoder, encoder_decoder

from transom.layers import POSITIONS
from transom.lens.watch import watch
from transom.models.writing import quick_parts
from transom.models.writing.bare import PACKED, unembedded
from transom.models.writing.largest import largest, likeliest
from transom.models.writing.quick import QuickSteps, hooked
from transom.models.writing.quick_parts import OwnPast


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(43)


def watched(model):
    """The model with somebody listening, so that it goes through its own forward pass."""
    model.register_forward_hook(lambda *_: None)
    assert hooked(model)
    return model


def assert_quickly_as_plainly(model, settings):
    tokens, real = padded(rows(7, 3, 5), "left")
    told = {"max_new_tokens": 7, "eos_token_id": ENDS, "return_scores": True} | settings
    found = [model.generate(tokens, real, **told)]
    for many in (1, 4):  # on the torch engine: attention by two products, and by the fused kernel
        with patch.object(quick_parts, "MANY", many), patch.dict("os.environ", {"TRANSOM_ENGINE": "torch"}):
            found.append(model.generate(tokens, real, **told))
    plain = watched(model).generate(tokens, real, **told)
    for quick in found:
        assert torch.equal(quick.sequences, plain.sequences)
        torch.testing.assert_close(quick.scores, plain.scores, rtol=0, atol=2e-5)


@pytest.mark.slow
@every_choice
def test_quickly_is_plainly_for_all_parts(parts):
    assert_quickly_as_plainly(decoder(**parts), WAYS["beams"])
    assert_quickly_as_plainly(encoder_decoder(**parts), WAYS["greedy"])


@pytest.mark.slow
@pytest.mark.parametrize("positions", POSITIONS)
def test_quickly_is_plainly_when_keys_are_forgotten(positions, monkeypatch):
    forgotten, own = [], OwnPast.keep
    monkeypatch.setattr(OwnPast, "keep", lambda self, kept: (forgotten.append(kept.shape), own(self, kept)))
    settings = {"num_beams": 5, "num_return_sequences": 5, "max_new_tokens": 29, "eos_token_id": None}
    assert_quickly_as_plainly(decoder(positions=positions, arrangement="pre_norm"), settings)
    assert_quickly_as_plainly(encoder_decoder(positions=positions), settings)
    assert forgotten


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_quickly_is_plainly_in_all_ways(build, way):
    assert_quickly_as_plainly(build(positions="alibi", heads=6, kv_heads=2, d_head=4), WAYS[way])


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_whoever_watches_sees_every_step_of_every_attention(settings):
    model, source = encoder_decoder(), torch.stack(rows(5, 5))
    told = {"max_new_tokens": 7, "eos_token_id": None} | settings
    unwatched = model.generate(source, **told)
    with watch(model) as trace:
        assert torch.equal(model.generate(source, **told), unwatched)
    for layer in range(2):
        for part in ("attention", "cross"):
            assert len(trace.all(f"decoder.blocks.{layer}.{part}")) == 7


def test_every_hook_is_called():
    model, called = encoder_decoder(), []
    model.decoder.blocks[1].cross.register_forward_hook(lambda module, given, result: called.append(result.shape))
    model.generate(torch.stack(rows(5, 5)), max_new_tokens=7, eos_token_id=None)
    assert called == [(2, 1, 12)] * 7


def test_a_forward_pass_that_somebody_replaced_is_gone_through():
    model, called = decoder(), []
    layer = model.stack.blocks[0].attention
    own = layer.forward

    def replaced(*given, **settings):
        called.append(1)
        return own(*given, **settings)

    layer.forward = replaced
    assert hooked(model)
    model.generate(torch.stack(rows(5)), max_new_tokens=3, eos_token_id=None)
    assert len(called) == 3


def test_finished_rows_leave_the_batch(monkeypatch):
    sizes, own = [], QuickSteps.next

    def counted(self, tokens):
        sizes.append(len(tokens))
        return own(self, tokens)

    monkeypatch.setattr(QuickSteps, "next", counted)
    model, prompt = decoder(), torch.stack(rows(*[5] * 7))
    free = model.generate(prompt, max_new_tokens=9, eos_token_id=None)
    sizes.clear()
    end = int(free[0, 6])
    model.generate(prompt, max_new_tokens=9, eos_token_id=end)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 1
    left = [[row for row in free[:, 5 : 6 + step].tolist() if end not in row] for step in range(9)]
    assert sizes == [len(rows_) for rows_ in left if rows_][: len(sizes)]


@given(st.integers(0, 9999), st.integers(1, 5), st.integers(1, 3), st.integers(1, 700), st.integers(1, 12))
def test_the_largest_are_those_of_topk(seed, batch, token, vocabulary, k):
    torch.manual_seed(seed)
    x = torch.randn(batch, token, vocabulary).masked_fill(torch.rand(batch, token, vocabulary) < 0.3, -torch.inf)
    plus = torch.randn(batch, token)
    found = {}
    for few in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("transom.models.writing.largest.FEW", few)
            found[few] = (*largest(x, plus, k), likeliest(x[:, 0]))
    whole = (x + plus[..., None]).flatten(1)
    expected = whole.topk(min(k, whole.shape[1])).values
    for values, places, first in found.values():
        assert torch.equal(values, expected)
        assert torch.equal(whole.gather(1, places), values)
        assert all(len(set(row)) == len(row) for row in places.tolist())
        assert torch.equal(first, x[:, 0].argmax(dim=1))


@pytest.mark.parametrize("rows_", [1, 2, 5, 37])
def test_a_large_output_gives_the_same_packed(rows_):
    parameter, x = torch.randn(2053, 128), torch.randn(rows_, 128)
    assert parameter.numel() >= PACKED
    expected = x.double() @ parameter.double().mT
    for packed_for in (1, rows_, 3 * rows_):
        found = unembedded(parameter, packed_for)(x)
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)
