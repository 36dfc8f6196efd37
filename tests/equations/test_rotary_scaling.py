"""Rotary scalings compared with those of transformers, and the properties they should have."""

from types import SimpleNamespace

import pytest
import torch
from models.small import assert_misfit

from transom.equations.positions import rotary_angles, rotary_phases
from transom.equations.rotary_scaling import LinearScaling, Llama3Scaling, YarnScaling

CASES = {
    "linear": (LinearScaling(factor=3.0), {"factor": 3.0}),
    "llama3": (
        Llama3Scaling(factor=8.0, original_longest=101, low_factor=1.5, high_factor=5.0),
        {"factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 5.0},
    ),
    "yarn": (YarnScaling(factor=4.0, original_longest=101), {"factor": 4.0}),
    "yarn, other bounds": (
        YarnScaling(factor=4.0, original_longest=101, fast=7.0, slow=2.0, attention_factor=1.7, truncate=False),
        {"factor": 4.0, "beta_fast": 7.0, "beta_slow": 2.0, "attention_factor": 1.7, "truncate": False},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("base", [97.0, 500_000.0])
def test_frequencies_are_those_of_transformers(case, base):
    functions = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    scaling, settings = CASES[case]
    config = SimpleNamespace(
        rope_parameters=settings | {"rope_theta": base, "original_max_position_embeddings": 101},
        head_dim=22,
        hidden_size=44,
        num_attention_heads=2,
        max_position_embeddings=307,
        standardize_rope_params=lambda: None,
    )
    expected, magnitude = functions[case.split(",")[0]](config, torch.device("cpu"))
    found = rotary_phases(torch.tensor(1), 22, base, scaling)
    torch.testing.assert_close(found.float(), expected, rtol=2e-6, atol=0)
    assert scaling.magnitude == pytest.approx(magnitude)


def test_a_context_of_the_old_length_keeps_yarns_queries():
    assert YarnScaling(factor=1.0, original_longest=11).magnitude == 1.0


def test_short_waves_stay_and_long_ones_are_stretched():
    scaling = Llama3Scaling(factor=8.0, original_longest=8192)
    plain, scaled = (rotary_phases(torch.tensor(1), 64, 500_000.0, one) for one in (None, scaling))
    assert torch.equal(plain[:8], scaled[:8])
    torch.testing.assert_close(scaled[-4:], plain[-4:] / 8.0)


def test_linear_scaling_squeezes_positions():
    positions = torch.arange(0, 33, 3)
    squeezed = rotary_angles(positions, 10, scaling=LinearScaling(factor=3.0), dtype=torch.float64)
    torch.testing.assert_close(squeezed, rotary_angles(positions // 3, 10, dtype=torch.float64))


def test_a_scaling_needs_positive_numbers():
    message = "factor of a rotary scaling must be a number above 0, but got 0.0; give another"
    assert_misfit(message, LinearScaling, factor=0.0)
