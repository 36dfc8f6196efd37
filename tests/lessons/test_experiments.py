"""Experiments: the same from the same seed, true to their formulas, and the same story from other seeds."""

import math

import numpy as np
import pytest

from transom.lessons.experiments import EXPERIMENTS, tried
from transom.lessons.lesson import Trial


def results(name, **settings):
    defaults = {word: default for word, (default, _, _) in EXPERIMENTS[name].settings.items()}
    return {step.name: step for step in tried(Trial(name, {**defaults, **settings}))}


QUICK = {"random_keys": {"tries": 101}, "look_ahead": {"updates": 2}}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_same_seed_gives_the_same_numbers(name):
    first, second = (results(name, **QUICK.get(name, {})) for _ in range(2))
    for table in first:
        assert (first[table].values == second[table].values).all()
        assert first[table].values.shape == (len(first[table].rows), len(first[table].columns))
        assert np.isfinite(first[table].values).all()
        assert first[table].cell(0, 0).written().endswith(", by experiment")


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_gradients_vanish_without_scaling_whatever_the_seed(seed):
    found = results("random_keys", tries=2003, seed=seed)
    unscaled, scaled = found["vanished"].values[:, 2]
    assert unscaled > 0.45
    assert scaled < 0.02
    assert found["spread"].values[0] == pytest.approx([2, 4, 8, 16], rel=0.1)


@pytest.mark.parametrize("seed", [2, 3])
def test_distance_does_not_matter_and_company_does(seed):
    found = results("retrieval", seed=seed)
    assert np.ptp(found["found"].values[0]) < 1e-12
    assert found["found"].values[1] == pytest.approx([0.1 * 0.9**distance for distance in (1, 10, 100, 1000)])
    crowd = found["crowd"].values[0]
    assert (np.diff(crowd) < 0).all()


def test_parameters_are_counted_by_their_formulas():
    found = results("parameter_counts", d_model=60, heads=5, rank=7, tokens=11)["parameters"]
    assert found.values[:, 0].tolist() == [60 * 60, 2 * 60 * 7, 60 * 60 / 5, 2 * 7 * 11]


def test_what_is_learned_is_the_same_for_both_sentences():
    table = results("what_is_learned")["learned"]
    for row, (difference, parameter, gradient) in zip(table.rows, table.values, strict=True):
        learned = row in {"embeddings", "W_Q", "W_K", "W_V"}
        assert ((difference == 0.0), bool(parameter), (gradient > 0.0)) == (learned, learned, learned)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_a_writer_that_looks_ahead_cheats_and_fails_whatever_the_seed(seed):
    (with_mask, floor, right), (without, _, wrong) = results("look_ahead", seed=seed)["writer"].values
    noise, signs = 0.25, 7
    p, q = 1 - noise + noise / signs, noise / signs
    assert floor == pytest.approx(-p * math.log(p) - 6 * q * math.log(q))
    assert without < 0.4 < 0.8 < with_mask < 1.0
    assert wrong < 0.6 < 0.9 < right
