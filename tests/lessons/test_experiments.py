"""Experiments: the same from the same seed, true to their formulas, and the same story from other seeds."""

import math

import numpy as np
import pytest
import torch

from transom.lessons.experiments import EXPERIMENTS
from transom.names import Misfit


def results(name, **settings):
    defaults = {setting: default for setting, (default, _, _) in EXPERIMENTS[name].settings.items()}
    return {step.name: step for step in EXPERIMENTS[name].run(**{**defaults, **settings})}


QUICK = {"random_keys": {"tries": 101}, "look_ahead": {"updates": 2}}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_same_seed_gives_the_same_numbers(name):
    first, second = (results(name, **QUICK.get(name, {})) for _ in range(2))
    for table in first:
        assert (first[table].values == second[table].values).all()
        assert first[table].values.shape == (len(first[table].rows), len(first[table].columns))
        assert np.isfinite(first[table].values).all()
        assert first[table].cell(0, 0).to_text().endswith(", by experiment")


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_gradients_vanish_without_scaling_whatever_the_seed(seed):
    tables = results("random_keys", tries=2003, seed=seed)
    unscaled, scaled = tables["vanished"].values[:, 2]
    assert unscaled > 0.45
    assert scaled < 0.02
    assert tables["spread"].values[0] == pytest.approx([2, 4, 8, 16], rel=0.1)


@pytest.mark.parametrize("seed", [2, 3])
def test_distance_does_not_matter_and_company_does(seed):
    tables = results("retrieval", seed=seed)
    assert np.ptp(tables["found"].values[0]) < 1e-12
    assert tables["found"].values[1] == pytest.approx([0.1 * 0.9**distance for distance in (1, 10, 100, 1000)])
    crowd = tables["crowd"].values[0]
    assert (np.diff(crowd) < 0).all()


def test_parameters_are_counted_by_their_formulas():
    table = results("parameter_counts", d_model=60, heads=5, rank=7, tokens=11)["parameters"]
    assert table.values[:, 0].tolist() == [60 * 60, 2 * 60 * 7, 60 * 60 / 5, 2 * 7 * 11]


def test_what_is_learned_is_the_same_for_both_sentences():
    table = results("what_is_learned")["learned"]
    for row, (difference, parameter, gradient) in zip(table.rows, table.values, strict=True):
        learned = row in {"embeddings", "W_Q", "W_K", "W_V"}
        assert ((difference == 0.0), bool(parameter)) == (learned, learned)
        assert gradient > 0.0


ORDER = ("embeddings", "W_Q", "W_K", "W_V", "Q", "K", "V", "scores", "weights", "context")


def forward(parameters, replaced):
    """Every tensor by numpy alone; `replaced` tensors are taken as they are."""
    tensors = {name: replaced.get(name, values) for name, values in parameters.items()}
    x = tensors["embeddings"][[0, 1, 2]]
    for letter in "QKV":
        tensors[letter] = replaced.get(letter, x @ tensors[f"W_{letter}"])
    tensors["scores"] = replaced.get("scores", tensors["Q"] @ tensors["K"].T / math.sqrt(3))
    powers = np.exp(tensors["scores"])
    tensors["weights"] = replaced.get("weights", powers / powers.sum(axis=1, keepdims=True))
    return tensors | {"context": replaced.get("context", tensors["weights"] @ tensors["V"])}


def parameters_of(seed):
    """The parameters that the experiment draws."""
    rng = torch.Generator().manual_seed(seed)
    shapes = {"embeddings": (5, 4), "W_Q": (4, 3), "W_K": (4, 3), "W_V": (4, 3)}
    return {name: torch.randn(shape, generator=rng, dtype=torch.float64).numpy() for name, shape in shapes.items()}


@pytest.mark.parametrize("seed", [1, 5])
@pytest.mark.parametrize("name", ORDER)
def test_the_gradient_of_every_tensor_is_that_of_finite_differences(name, seed):
    table = results("what_is_learned", seed=seed)["learned"]
    assert table.rows == ORDER
    parameters, step = parameters_of(seed), 1e-5
    values = forward(parameters, {})[name]
    gradient = np.zeros(values.shape)
    for index in np.ndindex(gradient.shape):
        for sign in (1, -1):
            moved = values.copy()
            moved[index] += sign * step
            gradient[index] += sign * (forward(parameters, {name: moved})["context"] ** 2).sum() / (2 * step)
    norm = table.values[table.rows.index(name), 2]
    assert norm == pytest.approx(np.linalg.norm(gradient), rel=1e-6)


def test_narrow_heads_that_do_not_divide_are_an_error():
    with pytest.raises(Misfit) as caught:
        results("parameter_counts", d_model=10, heads=3)
    assert str(caught.value) == ("narrow heads divide d_model=10, but heads=3 does not; try another number of heads")


def test_the_gradient_of_the_softmax_and_that_to_the_raw_score_are_apart_by_the_division():
    tables = results("random_keys", tries=2003, seed=3)
    softmax, raw = tables["softmax gradient"].values, tables["median gradient"].values
    assert softmax[0] == pytest.approx(raw[0], rel=1e-12)
    assert softmax[1] / raw[1] == pytest.approx([2, 4, 8, 16], rel=1e-12)
    rng = np.random.default_rng(3)
    query, keys = rng.standard_normal((2003, 4)), rng.standard_normal((2003, 2, 4))
    scores = torch.from_numpy((keys @ query[:, :, None])[..., 0]).requires_grad_()
    torch.softmax(scores, dim=1)[:, 0].sum().backward()
    assert float(np.median(scores.grad[:, 0])) == pytest.approx(softmax[0, 0], rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_a_writer_that_looks_ahead_cheats_and_fails_whatever_the_seed(seed):
    (with_mask, floor, right), (without, _, wrong) = results("look_ahead", seed=seed)["writer"].values
    noise, signs = 0.25, 7
    p, q = 1 - noise + noise / signs, noise / signs
    assert floor == pytest.approx(-p * math.log(p) - 6 * q * math.log(q))
    assert without < 0.4 < 0.8 < with_mask < 1.0
    assert wrong < 0.6 < 0.9 < right
