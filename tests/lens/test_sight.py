"""A Sight's every number against a float64 softmax held whole, for every kind of attention."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import attention as by_loops

import transom
from transom.equations.biases import DistanceBias
from transom.kernels import tiled_attention
from transom.lens.attention.pooled_map import POOLS
from transom.lens.attention.receipt import default_row_count

torch.manual_seed(23)
Q, K, V = torch.randn(2, 6, 7, 5).double(), torch.randn(2, 3, 11, 5).double(), torch.randn(2, 3, 11, 3).double()
ALLOWED = torch.rand(2, 6, 7, 11) < 0.5
ALLOWED[1, 2, 3] = False
BIAS = torch.randn(2, 6, 7, 11).double()

# What is given, and the same as a dense mask, bias and cap for the loop.
LAST = torch.ones(7, 11, dtype=torch.bool).tril(4).expand(2, 6, 7, 11)
KINDS = {
    "plain": ({}, {}),
    "causal": ({"causal": True}, {"allowed": LAST}),
    "masked, with an empty row": ({"allowed": ALLOWED}, {"allowed": ALLOWED}),
    "biased": ({"bias": BIAS}, {"bias": BIAS}),
    "capped": ({"softcap": 2.0}, {"softcap": 2.0}),
    "everything": (
        {"allowed": ALLOWED, "causal": True, "bias": BIAS, "softcap": 2.0, "scale": 1.7},
        {"allowed": ALLOWED & LAST, "bias": BIAS, "softcap": 2.0, "scale": 1.7},
    ),
}


def seen(kind):
    return transom.sight(Q, K, V, **KINDS[kind][0])


def truth(kind):
    """Output, weights and scores from the loop."""
    return tuple(torch.tensor(x, dtype=torch.float64) for x in by_loops(Q, K, V, **KINDS[kind][1]))


@pytest.fixture(params=[None, 40], ids=["one band", "many bands"])
def bands(request, monkeypatch):
    """The same numbers whether the attention is looked at whole or a few rows at a time."""
    if request.param:
        monkeypatch.setattr(tiled_attention, "FEWEST_ROWS", 3)
        monkeypatch.setattr(tiled_attention, "BLOCK_SCORES", request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_scores_are_the_loops(kind):
    output, weights, scores = truth(kind)
    sight = seen(kind)
    assert torch.allclose(sight.output, output, atol=1e-12)
    assert torch.allclose(sight.weights(), weights, atol=1e-12)
    assert torch.allclose(sight.scores().exp(), scores.exp(), atol=1e-12)
    assert torch.allclose(sight.lse.exp(), scores.logsumexp(-1).exp(), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_those_of_the_loops_weights(kind, bands):
    _, weights, _ = truth(kind)
    sight = seen(kind)
    away = torch.tensor([[abs(j - (i + 4)) for j in range(11)] for i in range(7)]).double()
    assert torch.allclose(sight.entropy(), torch.special.entr(weights).sum(-1), atol=1e-12)
    assert torch.allclose(sight.peak(), weights.amax(-1), atol=1e-12)
    assert torch.allclose(sight.distance(), (weights * away).sum(-1), atol=1e-12)
    assert torch.allclose(sight.received(), weights.sum(-2), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 4, 50])
def test_top_lists_the_strongest_and_what_they_cover(kind, k, bands):
    _, weights, _ = truth(kind)
    found = seen(kind).top(k)
    expected = weights.sort(-1, descending=True).values[..., :k]
    assert torch.allclose(found.weights, expected, atol=1e-12)
    assert torch.allclose(found.mass, expected.sum(-1), atol=1e-12)
    there = found.keys >= 0
    assert torch.equal(there, expected > 0)
    assert torch.allclose(weights.gather(-1, found.keys.clamp_min(0))[there], found.weights[there], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_receipt_holds_and_a_false_output_is_caught(kind, bands):
    sight = seen(kind)
    assert sight.receipt().holds
    assert sight.receipt().difference < 1e-12
    sight.output = sight.output + 1e-6
    receipt = sight.receipt()
    assert not receipt.holds
    assert receipt.difference == pytest.approx(1e-6, rel=1e-3)
    assert str(receipt).startswith("FAILS: 1.0e-06 of ")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_the_receipt_holds_in_every_dtype_and_would_not_forgive_a_wrong_mask(dtype, size):
    q, k, v = (torch.randn(1, 2, 331, 17).to(dtype) for _ in range(3))
    sight = transom.sight(q * size, k, v, causal=True)
    assert sight.receipt().holds
    sight.output = transom.attend(q * size, k, v)
    assert not sight.receipt().holds
    assert str(transom.sight(q, k, v).receipt()).startswith("holds: ")


def test_a_receipt_with_nan_holds_only_where_both_are_nan():
    bad = V.clone()
    bad[0, 0, 3] = torch.nan
    sight = transom.sight(Q, K, bad)
    assert sight.receipt().holds
    sight.output = sight.output.clone()
    sight.output[1, 0, 0, 0] = torch.nan
    assert sight.receipt().difference == math.inf


def test_weights_under_dropout_are_those_before_it_and_the_receipt_still_holds():
    torch.manual_seed(3)
    sight = transom.sight(Q, K, V, dropout=0.5)
    assert torch.allclose(sight.weights().sum(-1), torch.ones(2, 6, 7).double())
    assert torch.allclose(sight.weights(), transom.sight(Q, K, V).weights(), atol=1e-12)
    assert not torch.allclose(sight.output, transom.attend(Q, K, V))
    assert sight.receipt().holds


@pytest.mark.parametrize(
    "asked",
    [
        {"head": 4},
        {"head": -1, "batch": 1},
        {"rows": slice(2, 5), "keys": [10, 0, 3]},
        {"batch": 0, "head": [5, 2], "rows": 6, "keys": slice(None, None, 2)},
        {"head": slice(1, 3), "rows": torch.tensor([1, -1])},
        {"rows": slice(4, 4)},
        {"keys": slice(None, None, -3)},
    ],
)
def test_only_what_is_asked_for(asked):
    whole = truth("causal")[1].numpy()
    expected = whole
    for axis, name in reversed(list(enumerate(("batch", "head", "rows", "keys")))):
        index = asked.get(name, slice(None))
        index = index.numpy() if isinstance(index, torch.Tensor) else index
        expected = expected[(slice(None),) * axis + (index,)]
    found = seen("causal").weights(**asked)
    assert found.shape == expected.shape
    assert torch.allclose(found, torch.from_numpy(expected.copy()), atol=1e-12)


@pytest.mark.parametrize("pool", POOLS)
@given(
    cells=st.integers(1, 20),
    rows=st.tuples(st.integers(0, 6), st.integers(1, 7)),
    keys=st.tuples(st.integers(0, 10), st.integers(1, 11)),
    held=st.sampled_from([9, 40, 2**19]),
)
def test_a_map_is_the_pooled_matrix(pool, cells, rows, keys, held):
    rows, keys = (slice(one[0], max(one[0] + 1, one[1])) for one in (rows, keys))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transom.lens.attention.pooled_map.BLOCK_SCORES", held)
        found = seen("causal").map(5, cells=cells, pool=pool, rows=rows, keys=keys, batch=1)
    window = truth("causal")[1][1, 5, rows, keys]
    tall, wide = (math.ceil(size / cells) for size in window.shape)
    reduce = {"max": torch.amax, "mean": torch.mean, "sum": torch.sum}[pool]
    expected = [[reduce(part, dim=(0, 1)) for part in line.split(wide, dim=1)] for line in window.split(tall)]
    assert torch.allclose(found.values, torch.stack([torch.stack(line) for line in expected]), atol=1e-12)
    assert (found.cell, found.pool) == ((tall, wide), pool)
    assert (found.rows, found.keys) == ((rows.start, min(7, rows.stop)), (keys.start, min(11, keys.stop)))


@pytest.mark.parametrize("far", [-1e9, torch.finfo(torch.float32).min, 3e4])
def test_a_row_wholly_at_a_huge_bias_still_sums_to_one(far):
    """Its log-sum-exp cannot tell the keys apart any more; the weights are found again from the scores."""
    q, k, v = (x.float() for x in (Q, K, V))
    bias = torch.zeros(7, 11)
    bias[2] = far
    sight = transom.sight(q, k, v, bias=bias)
    assert torch.allclose(sight.weights().sum(-1), torch.ones(2, 6, 7), atol=1e-5)
    assert torch.allclose(sight.received().sum(-1), torch.full((2, 6), 7.0), rtol=1e-5)


def test_large_scores_give_the_weights_of_float64():
    q, k, v = (torch.randn(1, 1, 13, 5, dtype=torch.float64) for _ in range(3))
    exact = transom.sight(q * 300, k, v).weights()
    found = transom.sight(q.float() * 300, k.float(), v.float()).weights()
    assert (found - exact).abs().max() < 1e-4
    assert torch.allclose(found.sum(-1), torch.ones(1, 1, 13), atol=1e-6)


def test_a_bias_object_is_looked_through():
    slopes = torch.rand(6).double()
    sight = transom.sight(Q, K, V, bias=DistanceBias(slopes), causal=True)
    assert sight.receipt().holds
    assert torch.allclose(sight.weights().sum(-1), torch.ones(2, 6, 7).double())
    plain = sight.scores(head=3, rows=6, batch=0) - transom.sight(Q, K, V).scores(head=3, rows=6, batch=0)
    assert torch.allclose(plain, -slopes[3] * torch.arange(10, -1, -1).double(), atol=1e-12)


@pytest.mark.parametrize("sizes", [(0, 7, 11), (2, 0, 11), (2, 7, 0), (1, 1, 1)])
def test_sizes_of_nothing_and_one(sizes):
    batch, queries, keys = sizes
    sight = transom.sight(
        torch.ones(batch, 3, queries, 5), torch.ones(batch, 3, keys, 5), torch.ones(batch, 3, keys, 2)
    )
    assert sight.weights().shape == (batch, 3, queries, keys)
    for found in (sight.entropy(), sight.peak(), sight.distance(), sight.top(4).mass):
        assert found.shape == (batch, 3, queries)
    assert sight.received().shape == (batch, 3, keys)
    assert sight.receipt().holds


def test_the_output_still_carries_gradients_and_the_rest_does_not():
    q = Q.clone().requires_grad_()
    sight = transom.sight(q, K, V)
    assert sight.output.requires_grad
    assert not sight.weights().requires_grad
    assert not sight.entropy().requires_grad
    assert not sight.Q.requires_grad


def test_a_sight_says_how_large_it_is():
    assert repr(seen("plain")) == "Sight(batch=2, heads=6, queries=7, keys=11)"


WRONG = {
    "a head that is not there": (
        lambda sight: sight.weights(head=6),
        "there are heads=6, so 6 is none of them; count from 0 to 5, or back from -1",
    ),
    "a key in a list": (
        lambda sight: sight.scores(keys=[0, -12]),
        "there are keys=11, so -12 is none of them; count from 0 to 10, or back from -1",
    ),
    "a bool tensor": (
        lambda sight: sight.weights(rows=torch.ones(7).bool()),
        "queries are asked for by number, but got a bool tensor; use tensor.nonzero()[:, 0]",
    ),
    "a pool that is none": (
        lambda sight: sight.map(0, pool="median"),
        "pool must be one of max, mean, sum, but got 'median'; max keeps single strong weights visible",
    ),
    "no cells": (
        lambda sight: sight.map(0, cells=0),
        "a map needs at least 1 cell a side, but got cells=0; 256 is a good picture",
    ),
    "an empty window": (
        lambda sight: sight.map(0, rows=slice(5, 5)),
        "a map takes a run of queries such as slice(0, 7), but got slice(5, 5, None); it must not be empty or skip",
    ),
    "no top": (
        lambda sight: sight.top(0),
        "top needs k of 1 or more, but got 0; top(8) lists the eight strongest keys of each row",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_shown_is_said(name, own_errors):
    ask, message = WRONG[name]
    with pytest.raises(transom.Misfit) as error:
        ask(seen("plain"))
    assert str(error.value) == message


def test_a_receipt_of_some_rows_says_so_and_finds_what_is_wrong_in_them():
    sight = transom.sight(torch.randn(1, 3, 29, 5), torch.randn(1, 3, 31, 5), torch.randn(1, 3, 31, 7))
    receipt = sight.receipt(rows=3)
    assert receipt.holds
    assert str(receipt).endswith("(3 of 29 rows tried)")
    assert sight.receipt(rows=29) == sight.receipt()
    sight.output[0, 2, 14, 1] += 1.0
    assert sight.receipt(rows=3).fails
    assert sight.receipt(rows=3).difference == pytest.approx(1.0, abs=1e-4)


def test_a_receipt_of_some_rows_takes_nan_for_a_row_that_may_look_nowhere():
    sight = seen("masked, with an empty row")
    assert sight.receipt(rows=3).holds
    sight.output[1, 2, 3] = torch.nan
    assert sight.receipt(rows=3).holds
    sight.output[1, 2, 0] = torch.nan
    assert sight.receipt(rows=3).fails


def test_how_many_rows_are_tried_where_nobody_says():
    assert default_row_count((1, 2, 4096, 4096)) is None
    assert default_row_count((1, 2, 4096, 4099)) == 64
