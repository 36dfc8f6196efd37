"""The steps of one attention: equal to the equations, and every cell's arithmetic comes to its number."""

import math

import numpy as np
import pytest
import torch
from lessons.cells import check_cells, recompute

import transom
from transom.equations import attention
from transom.lessons import Steps, format_number, steps_of
from transom.names import Misfit

TOKENS = ("The", "cat", "sat", "on", "it")
BATCH, HEADS, TOKEN, D_HEAD, D_VALUE, D_MODEL = 2, 3, 5, 7, 11, 13


@pytest.fixture(scope="module")
def qkv():
    torch.manual_seed(5)
    Q, K = (torch.randn(BATCH, HEADS, TOKEN, D_HEAD, dtype=torch.float64) for _ in range(2))
    return Q, K, torch.randn(BATCH, HEADS, TOKEN, D_VALUE, dtype=torch.float64)


@pytest.fixture(scope="module")
def steps(qkv):
    return steps_of(transom.sight(*qkv, causal=True), batch=1, head=2, tokens=TOKENS)


def test_the_steps_come_in_order(steps):
    assert steps.names == ("Q", "K", "V", "scores", "scaled", "masked", "weights", "sum")
    assert (steps.tokens, steps.at_tokens, steps.heads, steps.layers, len(steps)) == (TOKENS, TOKENS, (2,), (0,), 8)


def test_every_step_is_what_the_equations_give(steps, qkv):
    Q, K, V = (x[1, 2] for x in qkv)
    scores = attention.scores(Q, K)
    scaled = attention.scale_scores(scores, D_HEAD)
    masked = attention.mask_scores(scaled, torch.ones(TOKEN, TOKEN, dtype=torch.bool).tril())
    weights = attention.softmax(masked)
    expected = {"Q": Q, "K": K, "V": V, "scores": scores, "scaled": scaled, "masked": masked, "weights": weights}
    for name, tensor in {**expected, "sum": attention.context(weights, V)}.items():
        assert np.allclose(steps[name].values, tensor.numpy(), rtol=1e-13, atol=1e-15), name


def test_every_cell_comes_to_its_number(steps):
    check_cells(steps)


def test_a_masked_score_is_never_a_number(steps):
    assert steps["masked"].cell("The", "sat").to_text() == "masked: The may not look at sat"
    assert steps["weights"].cell("The", "sat").to_text() == "masked, so the weight is 0"
    assert steps["masked"].to_strings()[0][1:] == ["masked"] * 4
    assert steps["masked"].cell(0, 1).to_dict() == {
        "kind": "masked",
        "what": "The may not look at cat",
        "terms": [],
        "result": None,
        "masked": True,
    }
    assert None in steps["weights"].cell(1, 0).to_dict()["terms"][-1]


def test_nan_in_a_masked_value_leaks_nowhere(qkv):
    Q, K, V = (x.clone() for x in qkv)
    V[:, :, 3] = torch.nan
    steps = steps_of(transom.sight(Q, K, V, causal=True), tokens=TOKENS)
    assert np.isfinite(steps["sum"].values[:3]).all()
    assert np.isnan(steps["sum"].values[3:]).all()


@pytest.mark.parametrize(
    "options",
    [{"softcap": 1.7}, {"scale": 0.3}, {"scale": 1.0}, {"bias": torch.linspace(-1, 1, TOKEN * TOKEN).reshape(5, 5)}],
    ids=["softcap", "scale", "unscaled", "bias"],
)
def test_what_the_attention_did_to_its_scores_is_a_step(options, qkv):
    options = {name: value.double() if isinstance(value, torch.Tensor) else value for name, value in options.items()}
    sight = transom.sight(*qkv, **options)
    steps = steps_of(sight, head=1)
    assert np.allclose(steps["weights"].values, sight.weights(batch=0, head=1).numpy(), rtol=1e-12)
    assert np.allclose(steps["sum"].values, sight.output[0, 1].numpy(), rtol=1e-10)
    assert steps.tokens == ("1", "2", "3", "4", "5")
    last = steps.names[steps.names.index("weights") - 1]
    assert math.isclose(recompute(steps[last].cell(2, 1)), steps[last].values[2, 1], rel_tol=1e-12)


def test_shared_keys_go_by_their_group(qkv):
    Q, K, V = qkv
    sight = transom.sight(torch.cat([Q, Q], dim=1), K, V)
    assert np.allclose(steps_of(sight, head=3)["K"].values, K[0, 1].numpy())


def test_the_projections_open_their_arithmetic(own_errors):
    layer = transom.layers.SelfAttention(D_MODEL, D_HEAD, D_VALUE, bias=True).double()
    x = torch.randn(1, TOKEN, D_MODEL, dtype=torch.float64)
    parameters = {f"W_{letter}": getattr(layer, f"W_{letter}").weight.T for letter in "QKV"}
    parameters |= {f"b_{letter}": getattr(layer, f"W_{letter}").bias for letter in "QKV"}
    with torch.no_grad():
        sight = transom.sight(*layer.project(x))
    steps = steps_of(sight, tokens=TOKENS, embedding=x[0], parameters=parameters)
    assert steps.names[:4] == ("embedding", "Q", "K", "V")
    for name in ("Q", "K", "V"):
        cell = steps[name].cell("sat", 2)
        assert len(cell.terms) == D_MODEL + 1
        assert math.isclose(recompute(cell), cell.result, rel_tol=1e-12)
    with pytest.raises(Misfit) as caught:
        steps_of(sight, embedding=x[0] + 1, parameters=parameters)
    assert str(caught.value) == (
        "the embedding and W_Q should give the Q that was used, but they do not; leave `parameters` out (rotary"
        " positions turn Q and K after the projection)"
    )


def test_only_the_named_steps(qkv):
    assert steps_of(transom.sight(*qkv), names=["weights", "scores"]).names == ("scores", "weights")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda steps: steps["wights"], "there is no step 'wights'; did you mean 'weights'?"),
        (lambda steps: steps["weights", 1], "there are heads 2, but head 1 was asked for; count from 0"),
        (lambda steps: steps["weights", 2, 4], "there are layers 0, but layer 4 was asked for; count from 0"),
        (lambda steps: steps["weights"].cell("Teh", 0), "weights has no row 'Teh'; did you mean 'The'?"),
        (lambda steps: steps["weights"].cell(0, 5), "weights has 5 columns, so 5 is none of them; count from 0"),
    ],
)
def test_a_step_or_cell_that_does_not_exist_is_an_error(read, message, steps):
    with pytest.raises(Misfit) as caught:
        read(steps)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": 3}, "there are heads=3, so 3 is none of them; count from 0 to 2, or back from -1"),
        ({"batch": 2}, "there are batch=2, so 2 is none of them; count from 0 to 1, or back from -1"),
        ({"tokens": ["a"]}, "this attention has queries=5, but 1 tokens came; give one for each"),
        ({"names": ["wieghts"]}, "there is no step 'wieghts'; did you mean 'weights'?"),
    ],
)
def test_what_does_not_fit_is_an_error(options, message, qkv):
    with pytest.raises(Misfit) as caught:
        steps_of(transom.sight(*qkv), **options)
    assert str(caught.value) == message


def test_a_label_that_occurs_twice_must_be_given_by_its_index(qkv):
    steps = steps_of(transom.sight(*qkv), tokens=["a", "b", "a", "c", "d"])
    with pytest.raises(Misfit) as caught:
        steps["weights"].cell("a", 0)
    assert str(caught.value) == (
        "weights has 2 rows 'a', so the label does not say which; give its number, 0 for the first"
    )


def test_a_long_text_is_an_error(own_errors):
    x = torch.zeros(1, 1, 1031, 2)
    with pytest.raises(Misfit) as caught:
        steps_of(transom.sight(x[:, :, :3], x, x))
    assert str(caught.value) == (
        "steps hold every number of at most 1024 tokens, but there are queries=3 and keys=1031;"
        " draw a map instead, or take a shorter text"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, "0.5"),
        (2.0, "2"),
        (-0.0, "0"),
        (0.42232, "0.4223"),
        (1e-9, "0.0000"),
        (-1e-9, "0.0000"),
        (12345678901.0, "1.235e+10"),
        (-math.inf, "masked"),
        (-1.25, "-1.25"),
    ],
)
def test_numbers_are_written_without_needless_zeros(value, shown):
    assert format_number(value) == shown


def test_long_sums_are_cut_and_counted(steps):
    text = steps["scores"].cell(0, 0).to_text(digits=2, most=2)
    assert "… (5 more) = " in text


def test_large_scores_are_written_by_their_differences(qkv):
    Q, K, V = qkv
    steps = steps_of(transom.sight(Q * 200, K, V))
    text = steps["weights"].cell(0, int(steps["weights"].values[0].argmax())).to_text()
    assert text.startswith("e^0 / (")


def test_steps_of_one_head_or_layer(steps):
    assert isinstance(steps.select(head=2), Steps)
    assert len(steps.select(head=2, layer=0)) == 8
    assert len(steps.select(layer=1)) == 0
