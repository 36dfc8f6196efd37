"""Decoding steps by the native engine: when it does them, its reasons when not, and that results are the same."""

import pytest
import torch
from models.small import OUTPUTS, PARTS, padded, rows
from models.writers import decoder, encoder_decoder

from transom.kernels import native_library
from transom.kernels.native_library import NativeLibrary
from transom.layers import Alibi, PostNorm, Rotary
from transom.models.generation.decoding_steps import CachedSteps
from transom.models.generation.fast import choose_steps, native_steps
from transom.models.generation.fast.native_steps import NativeSteps, make_native_steps

pytestmark = pytest.mark.skipif(
    not isinstance(native_library.library_or_reason(), NativeLibrary), reason="the native engine is not built here"
)
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
    "buckets": {"positions": "buckets", "buckets": 5, "farthest": 7, "attention_scale": 1.0},
    "scaled scores": PARTS["scaled scores"],
    "sliding window": PARTS["sliding window"],
    "geglu_tanh": {"feed_forward": "geglu_tanh", "position_halves": True, "position_offset": 3},
    "geglu": {"feed_forward": "geglu", "hidden_bias": False},
    "yarn": PARTS["yarn"],
    **OUTPUTS,
}
UNKNOWN = {
    "windows that differ from block to block": PARTS["a layer slides"],
    "NarrowLinear": {"narrow": True},
    "LowRank": {"value_rank": 3},
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(59)


@pytest.fixture
def outcomes(monkeypatch):
    """For each call of generate its native steps, or the reason why there are none."""
    outcomes = []

    def record_outcome(cached, num_beams):
        outcomes.append(make_native_steps(cached, num_beams))
        return outcomes[-1]

    monkeypatch.setattr(choose_steps, "make_native_steps", record_outcome)
    return outcomes


def test_native_steps_norm_queries_and_keys(outcomes, monkeypatch):
    model, (tokens, real) = decoder(**PARTS["normed heads"], positions="rotary"), padded(rows(7, 3, 5, 1), "left")
    sequences = model.generate(tokens, real, **FREE)
    assert isinstance(outcomes[-1], NativeSteps)
    assert torch.equal(sequences, generate_by_torch(monkeypatch, model, tokens, real, **FREE))


def generate_by_torch(monkeypatch, model, *args, **settings):
    with monkeypatch.context() as patch:
        patch.setenv("TRANSOM_ENGINE", "torch")
        return model.generate(*args, **settings)


@pytest.mark.parametrize("parts", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_native_steps_are_those_of_torch(build, parts, outcomes, monkeypatch):
    model, (tokens, real) = build(**parts), padded(rows(7, 3, 5, 1), "left")
    for settings in ({}, {"num_beams": 3, "num_return_sequences": 2}):
        result = model.generate(tokens, real, return_scores=True, **FREE, **settings)
        assert isinstance(outcomes[-1], NativeSteps)
        expected = generate_by_torch(monkeypatch, model, tokens, real, return_scores=True, **FREE, **settings)
        assert outcomes[-1] == "the engine is torch"
        assert torch.equal(result.sequences, expected.sequences)
        torch.testing.assert_close(result.scores, expected.scores, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("reason", "parts"), UNKNOWN.items(), ids=UNKNOWN)
def test_parts_that_the_engine_does_not_know_use_torch(reason, parts, outcomes):
    model = decoder(**parts)
    model.generate(torch.stack(rows(5, 5)), **FREE)
    assert outcomes == [f"it does not know {reason}"]


def test_rotary_positions_may_pair_halves_but_not_differ_from_block_to_block(outcomes, monkeypatch):
    model, tokens = decoder(positions="rotary"), torch.stack(rows(5, 5))
    for block in model.stack.blocks:
        block.attention.positions = Rotary(block.attention.d_head, base=100.0, halves=True)
    sequences = model.generate(tokens, **FREE)
    assert isinstance(outcomes[-1], NativeSteps)
    assert torch.equal(sequences, generate_by_torch(monkeypatch, model, tokens, **FREE))
    model.stack.blocks[-1].attention.positions = Rotary(model.stack.blocks[-1].attention.d_head)
    model.generate(tokens, **FREE)
    assert outcomes[-1] == "it does not know Rotary positions that differ from block to block"


def test_custom_positions_use_torch(outcomes):
    class Steeper(Alibi):
        pass

    model = decoder(positions="alibi")
    model.stack.blocks[0].attention.positions = Steeper(model.stack.blocks[0].attention.heads)
    model.generate(torch.stack(rows(5, 5)), **FREE)
    assert outcomes == ["it does not know Steeper positions in attention"]


def test_other_dtypes_use_torch(outcomes, monkeypatch):
    model, tokens = decoder(), torch.stack(rows(5, 5))
    with torch.autocast("cpu", torch.bfloat16):
        model.generate(tokens, **FREE)
    model.double().generate(tokens, **FREE)
    monkeypatch.setattr(native_library, "library_or_reason", lambda: "it is not built here")
    model.float().generate(tokens, **FREE)
    assert outcomes == [
        "autocast is on",
        "it computes float32 on a CPU, not torch.float64 on cpu",
        "it is not built here",
    ]


def test_a_custom_arrangement_is_followed_by_its_equation(outcomes, monkeypatch):
    class Twice(PostNorm):
        def combine(self, x, attention, cross, feed_forward):
            return self.norm_feed_forward(x + x + attention(feed_forward(x)))

    class Scaled(PostNorm):
        def combine(self, x, attention, cross, feed_forward):
            return 0.5 * x + attention(x)

    model, tokens = decoder(), torch.stack(rows(5, 5))
    for kind, known in ((Twice, True), (Scaled, False)):
        for block in model.stack.blocks:
            block.__class__ = kind
        sequences = model.generate(tokens, **FREE)
        assert (outcomes[-1] == "it does not know mul in the equation of a block") is not known
        assert torch.equal(sequences, generate_by_torch(monkeypatch, model, tokens, **FREE))


@pytest.mark.parametrize("build", [decoder, encoder_decoder])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative"])
def test_room_is_made_for_more_rows_and_longer_pasts(build, positions, monkeypatch):
    monkeypatch.setattr(native_steps, "ROOM", 2)
    model, tokens = build(positions=positions), torch.stack(rows(3, 3, 3))
    settings = {"max_new_tokens": 43, "eos_token_id": None}
    for more in ({"num_beams": 4}, {"do_sample": True, "num_return_sequences": 5, "seed": 3}):
        sequences = model.generate(tokens, **settings, **more)
        assert torch.equal(sequences, generate_by_torch(monkeypatch, model, tokens, **settings, **more))


def test_a_prompt_of_one_token_is_a_step(monkeypatch):
    model, tokens, reads = decoder(), torch.stack(rows(1, 1, 1)), []
    first = CachedSteps.first
    monkeypatch.setattr(CachedSteps, "first", lambda self: (reads.append(self), first(self))[1])
    sequences = model.generate(tokens, **FREE)
    assert not reads
    assert torch.equal(sequences, generate_by_torch(monkeypatch, model, tokens, **FREE))
    assert len(reads) == 1


def test_sampling_and_rules_compute_all_logits(monkeypatch):
    model, tokens = encoder_decoder(), torch.stack(rows(5, 5, 5))
    ways = (
        {"do_sample": True, "top_p": 0.9, "seed": 5},
        {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
        {"num_beams": 3, "no_repeat_ngram_size": 2, "min_new_tokens": 5},
    )
    for settings in ways:
        sequences = model.generate(tokens, max_new_tokens=9, **settings)
        assert torch.equal(sequences, generate_by_torch(monkeypatch, model, tokens, max_new_tokens=9, **settings))
