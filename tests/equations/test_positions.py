"""Position formulas, number by number and by what they promise."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transom.equations.positions import (
    alibi_slopes,
    apply_rotary,
    apply_rotary_halves,
    clipped_distance,
    rotary_angles,
    sinusoidal,
)


@pytest.mark.parametrize("d_model", [6, 7])
def test_sinusoidal_is_the_papers_formula(d_model):
    table = sinusoidal(torch.arange(11), d_model)
    for position in (0, 3, 10):
        for i in range(d_model):
            angle = position / 10_000 ** (2 * (i // 2) / d_model)
            expected = math.sin(angle) if i % 2 == 0 else math.cos(angle)
            assert table[position, i].item() == pytest.approx(expected, abs=1e-6)


def test_sinusoidal_is_exact_far_out():
    far = sinusoidal(torch.tensor([1_000_003]), 2)
    assert far[0, 0].item() == pytest.approx(math.sin(1_000_003), abs=1e-6)


@pytest.mark.parametrize("turn", [apply_rotary, apply_rotary_halves])
@given(start=st.integers(0, 1_000_000), distance=st.integers(-50, 50))
def test_rotary_products_depend_on_the_distance_only(turn, start, distance):
    torch.manual_seed(start)
    q, k = torch.randn(1, 10).double(), torch.randn(1, 10).double()

    def product(query_at: int, key_at: int) -> float:
        angles = [rotary_angles(torch.tensor([at]), 10).double() for at in (query_at, key_at)]
        return float(turn(q, angles[0]) @ turn(k, angles[1]).T)

    assert product(start + 100 + distance, start + 100) == pytest.approx(product(60 + distance, 60), abs=1e-5)


def test_rotated_turns_each_pair_by_its_angle():
    x = torch.tensor([[1.0, 0.0, 0.0, 2.0]]).double()
    angles = torch.tensor([[math.pi / 2, math.pi]], dtype=torch.float64)
    assert torch.allclose(apply_rotary(x, angles), torch.tensor([[0.0, 1.0, 0.0, -2.0]]).double(), atol=1e-12)
    halves = torch.tensor([[1.0, 0.0, 0.0, 2.0]]).double()
    assert torch.allclose(
        apply_rotary_halves(halves, angles), torch.tensor([[0.0, 0.0, 1.0, -2.0]]).double(), atol=1e-12
    )


def test_rotary_keeps_lengths():
    x = torch.randn(3, 13, 10).double()
    angles = rotary_angles(torch.arange(13), 10).double()
    assert torch.allclose(apply_rotary(x, angles).norm(dim=-1), x.norm(dim=-1), atol=1e-12)


def test_alibi_slopes_of_the_paper():
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(1).tolist() == [2.0**-8]
    # Twelve heads: the eight of 8, then every second one of 16.
    assert alibi_slopes(12).tolist() == pytest.approx(
        [2.0**-i for i in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]
    )


def test_clipped_distance_starts_at_zero():
    found = clipped_distance(torch.tensor([[5]]), torch.arange(11)[None], 3)
    assert found.tolist() == [[0, 0, 0, 1, 2, 3, 4, 5, 6, 6, 6]]
