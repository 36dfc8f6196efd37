"""Steps by the native engine: where it does them, where it says why not, and that they are those of the others."""

import ctypes

import pytest
import torch
from models.small import padded, rows
from models.writers import decoder, encoder_decoder

from transom.kernels import library
from transom.kernels.library import Engine
from transom.layers import Alibi, PostNorm, Rotary
from transom.models.writing import native_blocks as native
from transom.models.writing import quick
from transom.models.writing.native_blocks import NativeBlocks, native_blocks
from transom.models.writing.quick import QuickSteps

pytestmark = pytest.mark.skipif(not isinstance(library.engine(), Engine), reason="the native engine is not built here")
FREE = {"max_new_tokens": 7, "eos_token_id": None}
KNOWN = {
    "plain": {},
    "shared keys": {"heads": 6, "kv_heads": 2, "d_head": 4},
    "no bias": {"bias": False, "norm": "rms", "feed_forward": "swiglu"},
    "gelu": {"feed_forward": "gelu", "scaled": False},
    "pre_norm": {"arrangement": "pre_norm", "positions": "learned"},
    "no_skip": {"arrangement": "no_skip", "positions": "none"},
    "rotary": {"positions": "rotary", "heads": 6, "kv_heads": 2, "d_head": 4},
    "alibi": {"positions": "alibi"},
    "relative": {"positions": "relative", "heads": 6, "kv_heads": 2, "d_head": 4},
}
UNKNOWN = {
    "NarrowLinear": {"narrow": True},
    "LowRank": {"value_rank": 3},
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(59)


@pytest.fixture
def taken(monkeypatch):
    """What each call of generate went by: steps, or why there are none."""
    found = []
    monkeypatch.setattr(quick, "native_blocks", lambda read: (found.append(native_blocks(read)), found[-1])[1])
    return found


def by_torch(monkeypatch, model, *given, **settings):
    with monkeypatch.context() as patch:
        patch.setenv("TRANSOM_ENGINE", "torch")
        return model.generate(*given, **settings)


@pytest.mark.parametrize("parts", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_natively_is_as_by_torch(build, parts, taken, monkeypatch):
    model, (tokens, real) = build(**parts), padded(rows(7, 3, 5, 1), "left")
    for settings in ({}, {"num_beams": 3, "num_return_sequences": 2}):
        found = model.generate(tokens, real, return_scores=True, **FREE, **settings)
        assert isinstance(taken[-1], NativeBlocks)
        expected = by_torch(monkeypatch, model, tokens, real, return_scores=True, **FREE, **settings)
        assert taken[-1] == "the engine is torch"
        assert torch.equal(found.sequences, expected.sequences)
        torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("reason", "parts"), UNKNOWN.items(), ids=UNKNOWN)
def test_what_the_engine_does_not_know_goes_by_torch(reason, parts, taken):
    model = decoder(**parts)
    model.generate(torch.stack(rows(5, 5)), **FREE)
    assert taken == [f"it does not know {reason}"]


def test_rotary_positions_may_pair_halves_but_not_differ_from_block_to_block(taken, monkeypatch):
    model, tokens = decoder(positions="rotary"), torch.stack(rows(5, 5))
    for block in model.stack.blocks:
        block.attention.positions = Rotary(block.attention.d_head, base=100.0, halves=True)
    found = model.generate(tokens, **FREE)
    assert isinstance(taken[-1], NativeBlocks)
    assert torch.equal(found, by_torch(monkeypatch, model, tokens, **FREE))
    model.stack.blocks[-1].attention.positions = Rotary(model.stack.blocks[-1].attention.d_head)
    model.generate(tokens, **FREE)
    assert taken[-1] == "it does not know Rotary positions that differ from block to block"


def test_positions_of_ones_own_go_by_torch(taken):
    class Steeper(Alibi):
        pass

    model = decoder(positions="alibi")
    model.stack.blocks[0].attention.positions = Steeper(model.stack.blocks[0].attention.heads)
    model.generate(torch.stack(rows(5, 5)), **FREE)
    assert taken == ["it does not know Steeper positions in attention"]


def test_other_numbers_go_by_torch(taken, monkeypatch):
    model, tokens = decoder(), torch.stack(rows(5, 5))
    with torch.autocast("cpu", torch.bfloat16):
        model.generate(tokens, **FREE)
    model.double().generate(tokens, **FREE)
    monkeypatch.setattr(library, "engine", lambda: "it is not built here")
    model.float().generate(tokens, **FREE)
    monkeypatch.setattr(library, "engine", lambda: Engine("generic", ctypes.CDLL(None)))
    model.generate(tokens, **FREE)
    assert taken == [
        "autocast is on",
        "it computes float32 on a CPU, not torch.float64 on cpu",
        "it is not built here",
        "it was built from other sources than these; pip install builds it anew",
    ]


def test_an_arrangement_of_ones_own_is_followed_by_its_equation(taken, monkeypatch):
    class Twice(PostNorm):
        def arranged(self, x, attention, cross, feed_forward):
            return self.norm_feed_forward(x + x + attention(feed_forward(x)))

    class Scaled(PostNorm):
        def arranged(self, x, attention, cross, feed_forward):
            return 0.5 * x + attention(x)

    model, tokens = decoder(), torch.stack(rows(5, 5))
    for kind, known in ((Twice, True), (Scaled, False)):
        for block in model.stack.blocks:
            block.__class__ = kind
        found = model.generate(tokens, **FREE)
        assert (taken[-1] == "it does not know mul in the equation of a block") is not known
        assert torch.equal(found, by_torch(monkeypatch, model, tokens, **FREE))


@pytest.mark.parametrize("build", [decoder, encoder_decoder])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative"])
def test_room_is_made_for_more_rows_and_longer_pasts(build, positions, monkeypatch):
    monkeypatch.setattr(native, "ROOM", 2)
    model, tokens = build(positions=positions), torch.stack(rows(3, 3, 3))
    settings = {"max_new_tokens": 43, "eos_token_id": None}
    for more in ({"num_beams": 4}, {"do_sample": True, "num_return_sequences": 5, "seed": 3}):
        found = model.generate(tokens, **settings, **more)
        assert torch.equal(found, by_torch(monkeypatch, model, tokens, **settings, **more))


def test_a_prompt_of_one_token_is_a_step(monkeypatch):
    model, tokens, read = decoder(), torch.stack(rows(1, 1, 1)), []
    monkeypatch.setattr(QuickSteps, "read", lambda self, own=QuickSteps.read: (read.append(self), own(self))[1])
    found = model.generate(tokens, **FREE)
    assert read[0].plain.cache.length == 0
    assert torch.equal(found, by_torch(monkeypatch, model, tokens, **FREE))
    assert read[-1].plain.cache.length == 1


def test_sampling_and_rules_have_all_logits(monkeypatch):
    model, tokens = encoder_decoder(), torch.stack(rows(5, 5, 5))
    ways = (
        {"do_sample": True, "top_p": 0.9, "seed": 5},
        {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
        {"num_beams": 3, "no_repeat_ngram_size": 2, "min_new_tokens": 5},
    )
    for settings in ways:
        found = model.generate(tokens, max_new_tokens=9, **settings)
        assert torch.equal(found, by_torch(monkeypatch, model, tokens, max_new_tokens=9, **settings))
