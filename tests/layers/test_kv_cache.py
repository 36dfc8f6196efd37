"""Caches: cached attention equals uncached attention at every split, and returned tensors never change."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import transom
from transom.layers import (
    ARRANGEMENTS,
    Alibi,
    CrossCache,
    FeedForward,
    MultiHeadAttention,
    Relative,
    Rotary,
    SelfCache,
    Stack,
)

POSITIONED = {
    "nowhere": lambda: None,
    "rotary": lambda: Rotary(6),
    "rotary halves": lambda: Rotary(6, halves=True),
    "alibi": lambda: Alibi(4),
    "relative": lambda: Relative(4, 2),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(17)


@pytest.mark.parametrize("positions", POSITIONED)
@pytest.mark.parametrize("gradients", [False, True])
def test_cached_equals_uncached_at_every_split(positions, gradients):
    layer = MultiHeadAttention(11, 4, 2, 6, 5, positions=POSITIONED[positions]()).double()
    x = torch.randn(3, 7, 11, dtype=torch.float64)
    uncached = layer(x, causal=True)
    with torch.set_grad_enabled(gradients):
        for split in range(8):
            cache = SelfCache()
            parts = [layer(part, causal=True, cache=cache) for part in (x[:, :split], x[:, split:])]
            assert cache.length == 7
            torch.testing.assert_close(torch.cat(parts, dim=1), uncached, rtol=0, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.integers(0, 4), min_size=1, max_size=7), window=st.integers(1, 5), seed=st.integers(0, 999))
def test_cached_in_any_steps_under_a_window_and_padding(steps, window, seed):
    torch.manual_seed(seed)
    token = sum(steps)
    layer = MultiHeadAttention(11, 4, 2, 6, positions=Rotary(6)).double()
    x, real = torch.randn(3, token, 11, dtype=torch.float64), torch.rand(3, token) < 0.8
    uncached = layer(x, allowed=transom.sliding_window(window) & transom.padding(real), causal=True)
    cache, parts, done = SelfCache(), [], 0
    with torch.no_grad():
        for step in steps:
            allowed = transom.sliding_window(window) & transom.padding(real[:, : done + step])
            parts.append(layer(x[:, done : done + step], allowed=allowed, causal=True, cache=cache))
            done += step
    torch.testing.assert_close(torch.cat(parts, dim=1), uncached, rtol=0, atol=1e-12)


def test_gradients_through_a_cache_equal_those_without():
    layer = MultiHeadAttention(11, 4, 2, 6, 5).double()
    x = torch.randn(3, 7, 11, dtype=torch.float64, requires_grad=True)
    expected = torch.autograd.grad(layer(x, causal=True).square().sum(), [x, *layer.parameters()])
    cache = SelfCache()
    parts = [layer(part, causal=True, cache=cache) for part in x.split(2, dim=1)]
    gradients = torch.autograd.grad(torch.cat(parts, dim=1).square().sum(), [x, *layer.parameters()])
    for gradient, expected_gradient in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-11)


def test_a_full_buffer_is_doubled_so_most_steps_copy_nothing():
    cache, addresses = SelfCache(), []
    for _ in range(33):
        K, V = torch.randn(2, 3, 1, 5), torch.randn(2, 3, 1, 7)
        all_keys, all_values = cache.extend(K, V)
        assert torch.equal(all_keys[:, :, -1:], K)
        assert torch.equal(all_values[:, :, -1:], V)
        addresses.append(all_keys.data_ptr())
    moves = sum(before != after for before, after in pairwise(addresses))
    assert moves == 6  # at 2, 3, 5, 9, 17 and 33 tokens
    assert all_keys.shape == (2, 3, 33, 5)
    assert all_values.shape == (2, 3, 33, 7)


@pytest.mark.parametrize("change", [lambda cache: cache.crop(3), lambda cache: cache.select(torch.tensor([1, 0]))])
def test_returned_tensors_never_change(change):
    cache = SelfCache()
    cache.extend(torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7))
    returned, _ = cache.extend(torch.randn(2, 3, 1, 7), torch.randn(2, 3, 1, 7))
    before = returned.clone()
    change(cache)
    cache.extend(torch.randn(2, 3, 2, 7), torch.randn(2, 3, 2, 7))
    assert torch.equal(returned, before)


def test_a_caller_who_writes_into_its_keys_does_not_reach_the_cache():
    cache, K = SelfCache(), torch.randn(2, 3, 5, 7)
    returned, _ = cache.extend(K, torch.randn(2, 3, 5, 7))
    before = returned.clone()
    K.zero_()
    assert torch.equal(returned, before)


def test_selected_entries_continue_as_if_they_had_always_been_there():
    layer = MultiHeadAttention(11, 4, positions=Rotary(6), d_head=6).double()
    x = torch.randn(3, 7, 11, dtype=torch.float64)
    order = torch.tensor([2, 2, 0, 1, 2])
    cache = SelfCache()
    with torch.no_grad():
        layer(x[:, :5], causal=True, cache=cache)
        cache.select(order)
        tail = layer(x[order, 5:], causal=True, cache=cache)
    torch.testing.assert_close(tail, layer(x, causal=True)[order, 5:], rtol=0, atol=1e-12)


def test_a_cropped_cache_continues_from_there():
    layer = MultiHeadAttention(11, 4, positions=Rotary(6), d_head=6).double()
    x = torch.randn(3, 7, 11, dtype=torch.float64)
    cache = SelfCache()
    with torch.no_grad():
        layer(torch.cat([x[:, :4], torch.randn(3, 5, 11, dtype=torch.float64)], dim=1), causal=True, cache=cache)
        cache.crop(4)
        assert cache.length == 4
        tail = layer(x[:, 4:], causal=True, cache=cache)
    torch.testing.assert_close(tail, layer(x, causal=True)[:, 4:], rtol=0, atol=1e-12)


def test_a_source_is_projected_once():
    layer = MultiHeadAttention(11, 4, d_head=6, d_source=5).double()
    calls = []
    layer.W_K.register_forward_hook(lambda *_: calls.append("W_K"))
    x, source = torch.randn(3, 7, 11, dtype=torch.float64), torch.randn(3, 13, 5, dtype=torch.float64)
    uncached = layer(x, source)
    assert calls == ["W_K"]
    cache = CrossCache()
    assert cache.length == 0
    parts = [layer(x[:, :2], source, cache=cache), layer(x[:, 2:5], source, cache=cache), layer(x[:, 5:], cache=cache)]
    assert calls == ["W_K"] * 2
    assert cache.length == 13
    torch.testing.assert_close(torch.cat(parts, dim=1), uncached, rtol=0, atol=1e-12)


def test_a_selected_source_goes_with_its_query():
    layer = MultiHeadAttention(11, 4, d_head=6).double()
    x, source = torch.randn(3, 7, 11, dtype=torch.float64), torch.randn(3, 13, 11, dtype=torch.float64)
    cache, order = CrossCache(), torch.tensor([2, 2, 0, 1, 2])
    layer(x[:, :1], source, cache=cache)
    cache.select(order)
    torch.testing.assert_close(layer(x[order], cache=cache), layer(x, source)[order], rtol=0, atol=1e-12)


def test_selecting_from_empty_caches_leaves_them_empty():
    for cache in (SelfCache(), CrossCache()):
        cache.select(torch.tensor([0]))
        assert cache.length == 0


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_a_stack_decodes_token_by_token_as_at_once(arrangement):
    def build():
        attention = MultiHeadAttention(15, 3, positions=Alibi(3))
        cross = MultiHeadAttention(15, 3, d_source=7)
        return ARRANGEMENTS[arrangement](attention, FeedForward(15, 17), cross)

    stack = Stack(build, 2).double()
    x, source = torch.randn(2, 5, 15, dtype=torch.float64), torch.randn(2, 11, 7, dtype=torch.float64)
    real = torch.tensor([[True] * 8 + [False] * 3, [True] * 11])
    uncached = stack(x, source, source_allowed=transom.padding(real), causal=True)
    cache = stack.new_cache()
    with torch.no_grad():
        parts = [
            stack(token, source if cache.length == 0 else None, None, transom.padding(real), True, cache)
            for token in x.split(1, dim=1)
        ]
    assert cache.length == 5
    torch.testing.assert_close(torch.cat(parts, dim=1), uncached, rtol=0, atol=1e-12)


def test_a_stacks_cache_is_selected_and_cropped_in_every_layer():
    stack = Stack(
        lambda: ARRANGEMENTS["pre_norm"](MultiHeadAttention(15, 3), FeedForward(15, 17), MultiHeadAttention(15, 3)), 3
    ).double()
    x, source = torch.randn(2, 5, 15, dtype=torch.float64), torch.randn(2, 11, 15, dtype=torch.float64)
    order = torch.tensor([1, 0, 1])
    cache = stack.new_cache()
    with torch.no_grad():
        stack(x, source, causal=True, cache=cache)
        cache.crop(3)
        cache.select(order)
        tail = stack(x[order, 3:], causal=True, cache=cache)
    torch.testing.assert_close(tail, stack(x, source, causal=True)[order, 3:], rtol=0, atol=1e-12)
