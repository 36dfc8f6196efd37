"""Influence by the native engine against whole matrices in float64."""

import pytest
import torch
from weight_matrices import SETTINGS, exact, tensors

from transom.kernels import influence_stats, native_library, tiled_attention
from transom.kernels.influence_stats import OutputGradient
from transom.kernels.problem import build_problem

ERROR = 6e-5  # ten times that of the weights: up to a weight of 0.9, 1 / (1 − A) is up to 10


def every_change(Q, K, V, G, how, **settings):
    """The change without each edge, in float64: the output of each row without one key, for all keys."""
    weights, _ = exact(Q, K, V, **settings)
    V = V.double().repeat_interleave(Q.shape[1] // V.shape[1], dim=1)
    GV, output = G.double() @ V.mT, weights @ V
    GO = (G.double() * output).sum(-1, keepdim=True)
    if how == "after":
        return -weights * GV, GO
    rest = weights.sum(-1, keepdim=True) - weights
    others = (weights * GV).sum(-1, keepdim=True) - weights * GV
    without = torch.where(rest > 1e-14, others / rest.clamp_min(1e-14), 0.0)
    return torch.where(weights > 0.0, without - GO, 0.0), GO


def problem_with_gradient(sharp, how, queries=101, keys=131, **settings):
    Q, K, V = tensors(queries, keys, sharp=sharp)
    G = torch.randn(*Q.shape[:3], V.shape[3], generator=torch.Generator().manual_seed(9))
    problem = build_problem(Q, K, V, **settings)
    _, lse = tiled_attention.solve_tiled(problem)
    changes, GO = every_change(Q, K, V, G, how, **settings)
    gradient = OutputGradient(lse, GO[..., 0].float(), G, how == "after")
    assert influence_stats.native_supports(problem, gradient)
    return problem, gradient, changes


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize(("name", "sharp"), [(name, 2.0) for name in SETTINGS] + [("causal", 5.0), ("given", 5.0)])
def test_sums_and_tops_are_those_of_all_edges(name, sharp, how, instructions):
    problem, gradient, changes = problem_with_gradient(sharp, how, **SETTINGS[name])
    scale = changes.abs().max()
    for k in (1, 8, 13):
        found = influence_stats.compute_influence(problem, gradient, k)
        largest = changes.abs().topk(k).values
        assert ((found.per_row - changes.sum(-1)).abs() / changes.abs().sum(-1).clamp_min(1.0)).max() < ERROR
        assert ((found.per_key - changes.sum(-2)).abs() / changes.abs().sum(-2).clamp_min(1.0)).max() < ERROR
        assert (found.top_changes.abs() - largest).abs().max() < ERROR * scale
        there = found.top_keys >= 0
        assert torch.equal(there, found.top_changes != 0.0)
        at = changes.gather(-1, found.top_keys.clamp_min(0))
        assert (at - found.top_changes)[there].abs().max() < ERROR * scale, "with their signs"
        assert not (largest[~there] > ERROR * scale).any()


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize(("name", "sharp"), [("plain", 2.0), ("causal", 5.0), ("given", 2.0), ("causal window", 5.0)])
def test_maps_are_those_of_all_edges(name, sharp, how, instructions):
    problem, gradient, changes = problem_with_gradient(sharp, how, **SETTINGS[name])
    for window, cell in (
        (((0, 101), (0, 131)), (7, 9)),
        (((13, 97), (30, 77)), (40, 5)),
        (((50, 51), (2, 131)), (1, 1)),
    ):
        maxima, sums = influence_stats.pool_window(problem, gradient, (1, 4), window, cell)
        part = changes[1, 4, slice(*window[0]), slice(*window[1])]
        for row in range(maxima.shape[0]):
            for column in range(maxima.shape[1]):
                rows, keys = (slice(n * size, (n + 1) * size) for n, size in zip((row, column), cell, strict=True))
                values = part[rows, keys].flatten()
                scale = float(values.abs().sum().clamp_min(1.0))
                assert abs(float(sums[row, column] - values.sum())) < ERROR * scale
                assert abs(float(maxima[row, column].abs() - values.abs().max())) < ERROR * scale
                assert (values - maxima[row, column]).abs().min() < ERROR * scale, "with its sign"


def test_long_rows_and_any_number_of_threads(instructions, monkeypatch):
    problem, gradient, changes = problem_with_gradient(3.0, "before", queries=61, keys=2503, causal=True)
    once = influence_stats.compute_influence(problem, gradient, 8)
    assert ((once.per_key - changes.sum(-2)).abs() / changes.abs().sum(-2).clamp_min(1.0)).max() < ERROR
    for threads in (2, 3):
        monkeypatch.setattr(native_library, "threads", lambda threads=threads: threads)
        again = influence_stats.compute_influence(problem, gradient, 8)
        assert all(torch.equal(getattr(again, name), getattr(once, name)) for name in vars(once))


def test_half_precision_is_near_float32(instructions):
    problem, gradient, _ = problem_with_gradient(2.0, "before", causal=True)
    wide = influence_stats.compute_influence(problem, gradient, 4)
    Q, K, V = (x.to(torch.bfloat16) for x in (problem.Q, problem.K, problem.V))
    narrow = influence_stats.compute_influence(build_problem(Q, K, V, causal=True), gradient, 4)
    assert (narrow.per_row - wide.per_row).abs().max() < 0.5
    assert (narrow.per_key - wide.per_key).abs().mean() < 0.05


def test_what_the_library_cannot_read_is_not_supported(instructions):
    problem, gradient, _ = problem_with_gradient(2.0, "before")
    for wrong in (gradient.gradient.double(), gradient.gradient * torch.nan):
        assert not influence_stats.native_supports(problem, OutputGradient(gradient.lse, gradient.GO, wrong, False))
    V = problem.V.clone()
    V[0, 0, 0, 0] = torch.inf
    assert not influence_stats.native_supports(build_problem(problem.Q, problem.K, V), gradient)
