"""Statistics by the native engine, with the output in one pass and from the log-sum-exp, against the weights."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from weight_matrices import SETTINGS, exact, tensors

import transom
from transom.kernels import native_library, tiled_attention, weight_stats
from transom.kernels.problem import build_problem

ERROR = 5e-6


def both(Q, K, V, k, **settings):
    """The statistics of one pass, and those that the log-sum-exp gives."""
    problem = build_problem(Q, K, V, **settings)
    start = K.shape[2] - Q.shape[2]
    output, lse, at_once = weight_stats.attend_with_stats(problem, k, start)
    expected, sums = tiled_attention.solve_tiled(problem)
    assert torch.allclose(output, expected, atol=1e-5)
    assert torch.allclose(lse, sums, atol=1e-5)
    return at_once, weight_stats.compute_stats(problem, sums, k, start)


@pytest.mark.parametrize("name", SETTINGS)
def test_statistics_are_those_of_the_weights(name, instructions):
    qkv = tensors()
    weights, expected = exact(*qkv, **SETTINGS[name])
    strongest = weights.topk(8).values
    for found in both(*qkv, 8, **SETTINGS[name]):
        for statistic, value in expected.items():
            assert ((getattr(found, statistic) - value).abs() / value.abs().clamp_min(1.0)).max() < ERROR, statistic
        assert (found.top_weights - strongest).abs().max() < ERROR
        there = found.top_keys >= 0
        assert torch.equal(there, strongest > 0)
        at = weights.gather(-1, found.top_keys.clamp_min(0))
        assert (at - strongest)[there].abs().max() < ERROR
        assert ((found.top_keys.sort(-1).values.diff(dim=-1) > 0) | ~there[..., 1:].flip(-1)).all(), "no key twice"


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    k=st.sampled_from([1, 3, 8, 9, 16, 31, 32]), keys=st.sampled_from([1, 7, 31, 33, 131, 700]), kind=st.integers(0, 2)
)
def test_the_strongest_keys_of_any_kind_of_row(instructions, k, keys, kind):
    """Random, all alike (then the first ones), and rising all the way (the worst order to come in)."""
    Q, K, V = tensors(queries=17, keys=keys)
    if kind == 1:
        K = K[:, :, :1].expand(-1, -1, keys, -1)
    if kind == 2:
        K = torch.linspace(0, 3, keys)[:, None] * torch.ones(2, 3, 1, 19) / 19
        Q = torch.ones_like(Q)
    weights, _ = exact(Q, K, V)
    few = min(k, keys)
    expected, places = weights.topk(few)
    for found in both(Q, K, V, k):
        assert (found.top_weights[..., :few] - expected).abs().max() < ERROR
        assert (found.top_keys[..., few:] == -1).all()
        if kind == 1:
            assert torch.equal(found.top_keys[..., :few], torch.arange(few).expand(places.shape))
        if kind == 2:
            assert torch.equal(found.top_keys[..., :few], places)


def test_all_is_the_same_for_any_number_of_threads(instructions, monkeypatch):
    qkv = tensors(queries=401, keys=409)
    once = both(*qkv, 8, causal=True)
    for threads in (2, 3):
        monkeypatch.setattr(native_library, "threads", lambda threads=threads: threads)
        for mine, its in zip(both(*qkv, 8, causal=True), once, strict=True):
            assert all(torch.equal(getattr(mine, name), getattr(its, name)) for name in vars(its))


@pytest.mark.parametrize("sharp", [1.0, 3.0])
def test_long_rows_go_over_several_blocks(sharp, instructions):
    qkv = tensors(queries=61, keys=4507, sharp=sharp)
    _, expected = exact(*qkv, causal=True)
    for found in both(*qkv, 8, causal=True):
        for statistic, value in expected.items():
            assert ((getattr(found, statistic) - value).abs() / value.abs().clamp_min(1.0)).max() < ERROR, statistic


@pytest.mark.parametrize("cell", [(1, 1), (2, 3), (13, 17), (101, 131)])
@pytest.mark.parametrize("name", ["causal window", "given"])
def test_a_map_is_made_of_the_weights(cell, name, instructions):
    Q, K, V = tensors()
    weights, _ = exact(Q, K, V, **SETTINGS[name])
    problem = build_problem(Q, K, V, **SETTINGS[name])
    lse = tiled_attention.solve_tiled(problem)[1]
    for rows, keys in (((0, 101), (0, 131)), ((31, 90), (17, 120))):
        maxima, sums = weight_stats.pool_window(problem, lse, (1, 4), (rows, keys), cell)
        part = weights[1, 4, slice(*rows), slice(*keys)]
        for down, strip in enumerate(part.split(cell[0])):
            for across, pooled in enumerate(strip.split(cell[1], dim=1)):
                assert abs(float(maxima[down, across] - pooled.max())) < ERROR
                assert abs(float(sums[down, across] - pooled.sum())) < ERROR * max(1.0, float(pooled.sum()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_looked_at_as_it_is(dtype, instructions):
    Q, K, V = (x.to(dtype) for x in tensors())
    _, expected = exact(Q, K, V, causal=True)
    lse = tiled_attention.solve_tiled(build_problem(Q.float(), K.float(), V.float(), causal=True))[1]
    problem = build_problem(Q, K, V, causal=True)
    for found in (weight_stats.attend_with_stats(problem, 8, 30)[2], weight_stats.compute_stats(problem, lse, 8, 30)):
        for statistic, value in expected.items():
            assert ((getattr(found, statistic) - value).abs() / value.abs().clamp_min(1.0)).max() < ERROR, statistic


def test_a_sight_looks_natively_and_says_the_same(monkeypatch):
    qkv = tensors()
    found = {}
    for engine, at_once in (("torch", True), ("auto", False), ("auto", True)):
        monkeypatch.setenv("TRANSOM_ENGINE", engine)
        sight = transom.sight(*qkv, at_once=at_once, causal=True)
        assert (sight.top_eight is not None) == (at_once and engine == "auto")
        top = sight.top(5)
        maps = [sight.map(2, cells=17, pool=pool).values for pool in ("max", "mean")]
        found[engine] = (
            sight.entropy(),
            sight.peak(),
            sight.distance(),
            sight.received(),
            top.weights,
            top.mass,
            *maps,
        )
    for expected, *others in zip(*found.values(), strict=True):
        for one in others:
            assert torch.allclose(one, expected, atol=1e-5)


def test_where_the_log_sum_exp_is_too_coarse_torch_looks(monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", "auto")
    Q, K, V = tensors()
    problem = build_problem(Q * 30, K, V)
    lse = tiled_attention.solve_tiled(problem)[1]
    assert lse.abs().max() > weight_stats.LARGEST_LSE
    assert not weight_stats.native_supports(problem, lse)
