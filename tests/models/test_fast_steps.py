"""Fast steps give the same as the forward pass, for all parts and settings; with hooks they are not used."""

from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from models.small import padded, rows
from models.test_models import every_choice
from models.writers import ENDS, WAYS, decoder, encoder_decoder

from transom.layers import POSITIONS, Embedding, MultiHeadAttention, PostNorm, PreNorm, Stack
from transom.lens.capture.watch import watch
from transom.models.generation.decoding_steps import has_hooks
from transom.models.generation.fast import torch_steps
from transom.models.generation.fast.choose_steps import has_known_parts
from transom.models.generation.fast.functional import LEAST_PACKED, unembedding_function
from transom.models.generation.fast.native_steps import NativeSteps
from transom.models.generation.fast.torch_steps import SharedSelfAttention, TorchSteps
from transom.models.generation.vocab_topk import argmax, topk_sum

ENGINES = {"native if it is there": "auto", "torch": "torch"}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(43)


def assert_fast_steps_are_the_same(model, settings):
    tokens, real = padded(rows(7, 3, 5), "left")
    settings = {"max_new_tokens": 7, "eos_token_id": ENDS, "return_scores": True} | settings
    results = [model.generate(tokens, real, **settings)]
    for many in (1, 4):  # on the torch engine: attention by two products, and by the fused kernel
        with patch.object(torch_steps, "MANY_PROMPTS", many), patch.dict("os.environ", {"TRANSOM_ENGINE": "torch"}):
            results.append(model.generate(tokens, real, **settings))
    model.register_forward_hook(lambda *_: None)  # so that the forward pass is used
    assert has_hooks(model)
    plain = model.generate(tokens, real, **settings)
    for fast in results:
        assert torch.equal(fast.sequences, plain.sequences)
        torch.testing.assert_close(fast.scores, plain.scores, rtol=0, atol=2e-5)


@pytest.mark.slow
@every_choice
def test_fast_steps_are_the_same_for_all_parts(parts):
    assert_fast_steps_are_the_same(decoder(**parts), WAYS["beams"])
    assert_fast_steps_are_the_same(encoder_decoder(**parts), WAYS["greedy"])


@pytest.mark.slow
@pytest.mark.parametrize("positions", POSITIONS)
def test_fast_steps_are_the_same_when_keys_are_dropped(positions, monkeypatch):
    calls, keep_keys = [], SharedSelfAttention.keep_keys

    def counted(self, keys):
        calls.append(keys.shape)
        keep_keys(self, keys)

    monkeypatch.setattr(SharedSelfAttention, "keep_keys", counted)
    settings = {"num_beams": 5, "num_return_sequences": 5, "max_new_tokens": 29, "eos_token_id": None}
    assert_fast_steps_are_the_same(decoder(positions=positions, arrangement="pre_norm"), settings)
    assert_fast_steps_are_the_same(encoder_decoder(positions=positions), settings)
    assert calls


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_fast_steps_are_the_same_for_all_settings(build, way):
    assert_fast_steps_are_the_same(build(positions="alibi", heads=6, kv_heads=2, d_head=4), WAYS[way])


class CosineAttention(MultiHeadAttention):
    """Overrides Q and K, as a norm of queries and keys does."""

    def project(self, x, source=None, cache=None):
        Q, K, V = super().project(x, source, cache)
        return 5 * F.normalize(Q, dim=-1), K, V


class ReversedAttention(MultiHeadAttention):
    def forward(self, *args, **kwargs):
        return -super().forward(*args, **kwargs)


class LouderEmbedding(Embedding):
    def forward(self, *args, **kwargs):
        return 3 * super().forward(*args, **kwargs)


class HalvingStack(Stack):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs) / 2


class DoublingBlock(PreNorm):
    def forward(self, *args, **kwargs):
        return 2 * super().forward(*args, **kwargs)


def change_parts(model, old, new):
    """Let each part of a class be one of another, with the same attributes."""
    changed = [part for part in model.modules() if type(part) is old]
    for part in changed:
        part.__class__ = new
    assert changed


CHANGES = [
    (MultiHeadAttention, CosineAttention),
    (MultiHeadAttention, ReversedAttention),
    (Embedding, LouderEmbedding),
    (Stack, HalvingStack),
    (PreNorm, DoublingBlock),
]


@pytest.mark.parametrize("build", [decoder, encoder_decoder])
@pytest.mark.parametrize(("old", "new"), CHANGES, ids=[new.__name__ for _, new in CHANGES])
def test_a_layer_that_somebody_changed_is_run_as_it_is(build, old, new):
    model, source = build(arrangement="pre_norm"), torch.stack(rows(5, 5))
    settings = {"max_new_tokens": 5, "eos_token_id": None, "return_scores": True}
    plain = model.generate(source, **settings)
    change_parts(model, old, new)
    changed = model.generate(source, **settings)
    assert not torch.allclose(changed.scores, plain.scores)
    with watch(model):
        watched = model.generate(source, **settings)
    assert torch.equal(changed.sequences, watched.sequences)
    assert torch.equal(changed.scores, watched.scores)


@pytest.mark.parametrize("place", ["attention", "block"])
def test_a_part_that_somebody_added_means_the_forward_pass(place):
    model = decoder()
    assert has_known_parts(model)
    block = model.stack.blocks[0]
    (block if place == "block" else block.attention).add_module("q_norm", torch.nn.Identity())
    assert not has_known_parts(model)


class Parallel(PreNorm):
    """Attention and feed-forward side by side, as in GPT-J."""

    def combine(self, x, attention, cross, feed_forward):
        h = self.norm_attention(x)
        return x + attention(h) + feed_forward(h)


class DeepNorm(PostNorm):
    """Residuals that count more than the parts, by a parameter of the block (Wang et al. 2022)."""

    def combine(self, x, attention, cross, feed_forward):
        x = self.norm_attention(self.alpha * x + attention(x))
        return self.norm_feed_forward(self.alpha * x + feed_forward(x))


class OwnCall(PreNorm):
    """Calls its feed-forward by itself, not the one that it is given."""

    def combine(self, x, attention, cross, feed_forward):
        return PreNorm.combine(self, x, attention, cross, self.feed_forward)


@pytest.mark.parametrize(("old", "new"), [(PreNorm, Parallel), (PostNorm, DeepNorm)])
def test_a_block_with_an_equation_of_its_own_is_still_fast(old, new):
    model = decoder(arrangement="pre_norm" if old is PreNorm else "post_norm")
    change_parts(model, old, new)
    for block in model.stack.blocks:
        block.alpha = torch.nn.Parameter(torch.tensor(1.7))
    assert has_known_parts(model)
    assert_fast_steps_are_the_same(model, WAYS["greedy"])


def test_a_block_whose_equation_calls_its_own_modules_means_the_forward_pass():
    model, prompt = decoder(arrangement="pre_norm"), torch.stack(rows(5))
    expected = model.generate(prompt, max_new_tokens=5, eos_token_id=None)
    change_parts(model, PreNorm, OwnCall)
    assert not has_known_parts(model)
    assert torch.equal(model.generate(prompt, max_new_tokens=5, eos_token_id=None), expected)


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_watch_captures_every_step_of_every_attention(settings):
    model, source = encoder_decoder(), torch.stack(rows(5, 5))
    settings = {"max_new_tokens": 7, "eos_token_id": None} | settings
    unwatched = model.generate(source, **settings)
    with watch(model) as trace:
        assert torch.equal(model.generate(source, **settings), unwatched)
    for layer in range(2):
        for part in ("attention", "cross"):
            assert len(trace.all(f"decoder.blocks.{layer}.{part}")) == 7


def test_every_hook_is_called():
    model, shapes = encoder_decoder(), []
    model.decoder.blocks[1].cross.register_forward_hook(lambda module, args, output: shapes.append(output.shape))
    model.generate(torch.stack(rows(5, 5)), max_new_tokens=7, eos_token_id=None)
    assert shapes == [(2, 1, 12)] * 7


def test_a_replaced_forward_pass_is_called():
    model, calls = decoder(), []
    layer = model.stack.blocks[0].attention
    forward = layer.forward

    def replaced(*args, **kwargs):
        calls.append(1)
        return forward(*args, **kwargs)

    layer.forward = replaced
    assert has_hooks(model)
    model.generate(torch.stack(rows(5)), max_new_tokens=3, eos_token_id=None)
    assert len(calls) == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_finished_rows_leave_the_batch(engine, monkeypatch):
    sizes = []

    def count_rows(next_logits):
        def counted(self, tokens):
            sizes.append(len(tokens))
            return next_logits(self, tokens)

        return counted

    for steps in (NativeSteps, TorchSteps):
        monkeypatch.setattr(steps, "next", count_rows(steps.next))
    monkeypatch.setenv("TRANSOM_ENGINE", ENGINES[engine])
    model, prompt = decoder(), torch.stack(rows(*[5] * 7))
    free = model.generate(prompt, max_new_tokens=9, eos_token_id=None)
    sizes.clear()
    end = int(free[0, 6])
    model.generate(prompt, max_new_tokens=9, eos_token_id=end)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 1
    unfinished = [[row for row in free[:, 5 : 6 + step].tolist() if end not in row] for step in range(9)]
    assert sizes == [len(step) for step in unfinished if step][: len(sizes)]


@given(st.integers(0, 9999), st.integers(1, 5), st.integers(1, 3), st.integers(1, 700), st.integers(1, 12))
def test_the_largest_are_those_of_topk(seed, batch, token, vocabulary, k):
    torch.manual_seed(seed)
    x = torch.randn(batch, token, vocabulary).masked_fill(torch.rand(batch, token, vocabulary) < 0.3, -torch.inf)
    plus = torch.randn(batch, token)
    sums = (x + plus[..., None]).flatten(1)
    for few in (0, 10**9):
        with patch("transom.models.generation.vocab_topk.FEW", few):
            values, indices = topk_sum(x, plus, k)
            assert torch.equal(argmax(x[:, 0]), x[:, 0].argmax(dim=1))
        assert torch.equal(values, sums.topk(min(k, sums.shape[1])).values)
        assert torch.equal(sums.gather(1, indices), values)
        assert all(len(set(row)) == len(row) for row in indices.tolist())


@pytest.mark.parametrize("batch", [1, 2, 5, 37])
def test_a_large_output_gives_the_same_packed(batch):
    parameter, x = torch.randn(2053, 128), torch.randn(batch, 128)
    assert parameter.numel() >= LEAST_PACKED
    expected = x.double() @ parameter.double().mT
    for packed_for in (1, batch, 3 * batch):
        logits = unembedding_function(parameter, packed_for)(x)
        torch.testing.assert_close(logits.double(), expected, rtol=0, atol=1e-4)
