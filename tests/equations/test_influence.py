"""What a number loses with an edge, number by number: the output computed again without the key."""

import math

import pytest
import torch

from transom.equations.influence import (
    joint_removal_influence,
    removal_influence,
    weight_to_no_key,
    zeroing_influence,
)

torch.manual_seed(3)
SCORES, V, G = torch.randn(5, 7).double(), torch.randn(7, 3).double(), torch.randn(5, 3).double()
SCORES[2, 4] = -math.inf
A = torch.softmax(SCORES, dim=-1)
GV, GO = G @ V.T, (G * (A @ V)).sum(dim=-1)


def change_by_loop(row, keys, how):
    """g · (output without these keys − output), by loops."""
    without, left = [0.0] * 3, 0.0
    for key in range(7):
        if key not in keys:
            left += math.exp(SCORES[row, key])
            without = [x + math.exp(SCORES[row, key]) * float(v) for x, v in zip(without, V[key], strict=True)]
    total = sum(math.exp(score) for score in SCORES[row].tolist()) if how == "after" else left
    output = [sum(float(A[row, key] * V[key, i]) for key in range(7)) for i in range(3)]
    without = [x / total if total else 0.0 for x in without]
    return sum(float(g) * (new - old) for g, new, old in zip(G[row], without, output, strict=True))


@pytest.mark.parametrize("how", ["before", "after"])
def test_an_edge_is_the_row_computed_again_without_it(how):
    found = removal_influence(A, GV, GO) if how == "before" else zeroing_influence(A, GV)
    for row in range(5):
        for key in range(7):
            assert float(found[row, key]) == pytest.approx(change_by_loop(row, [key], how), abs=1e-12)
    assert found[2, 4] == 0.0


@pytest.mark.parametrize("keys", [[2], [0, 3, 5], [0, 1, 2, 3, 5, 6], list(range(7))])
def test_a_set_of_keys_is_the_row_computed_again_without_all_of_them(keys):
    others = [key for key in range(7) if key not in keys]
    parts = A * GV
    sums = (A[:, keys].sum(-1), parts[:, keys].sum(-1), A[:, others].sum(-1), parts[:, others].sum(-1))
    found = joint_removal_influence(*sums, GO)
    for row in range(5):
        assert float(found[row]) == pytest.approx(change_by_loop(row, keys, "before"), abs=1e-12)


def test_masked_values_that_are_not_numbers_change_nothing():
    bad = GV.clone()
    bad[2, 4] = math.nan
    assert torch.equal(removal_influence(A, bad, GO), removal_influence(A, GV, GO))
    assert torch.equal(zeroing_influence(A, bad), zeroing_influence(A, GV))


def test_the_weight_to_no_key_is_what_a_row_lacks():
    assert torch.equal(weight_to_no_key(A), torch.zeros(5).double())
    assert torch.allclose(weight_to_no_key(A * 0.75), torch.full((5,), 0.25).double())
