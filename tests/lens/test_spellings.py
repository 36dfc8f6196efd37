"""A hundred spellings of attention, alone and beside a visible one: exact, listed, or an error; none is silent."""

import warnings

import pytest
import torch
from torch import nn
from watched import Stack
from zoo import odd_spellings, other_spellings, pieced_spellings, plain_spellings, run_spellings
from zoo.spellings import BATCH, HEADS, SPELLINGS, TOKENS, Fused, Layer

import transom
from transom.names import Misfit

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
FILES = (plain_spellings, pieced_spellings, other_spellings, run_spellings, odd_spellings)
D_MODEL = HEADS * 4
WITHOUT_SOFTMAX = {
    "block diagonal heads",
    "difference of two softmaxes",
    "linear attention",
    "low rank by landmarks",
    "relu attention",
    "scores without a softmax",
    "sigmoid attention",
    "squared relu attention",
}


def build(name, beside):
    """A model with one layer that is spelled so; beside a fused one, or alone."""
    torch.manual_seed(61)
    layer = Layer(SPELLINGS[name].compute)
    model = Stack(Fused(), layer) if beside else Stack(layer)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model.eval(), f"layers.{int(beside)}", torch.randn(BATCH, TOKENS, D_MODEL)


def plain_weights(name, model, x):
    """The weights of the layer in question, computed in plain words."""
    for layer in model.layers[:-1]:
        x = x + layer(x)
    Q, K, _ = model.layers[-1].project(x)
    return SPELLINGS[name].weights(Q, K).float()


def run(model, x, **options):
    """The trace and whether the output kept its bits; the error's words in place of the trace if one was raised."""
    torch.manual_seed(5)
    plain = model(x)
    try:
        with warnings.catch_warnings(), transom.watch(model, **options) as trace:
            warnings.simplefilter("ignore")
            torch.manual_seed(5)
            watched = model(x)
    except Misfit as error:
        return str(error)
    assert torch.equal(plain, watched), "watching changed the output"
    return trace


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a visible one"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_is_captured_exactly_or_named(name, beside):
    model, path, x = build(name, beside)
    expected = SPELLINGS[name].expected
    found = run(model, x)
    if expected in {"exact", "noted", "windows"}:
        assert not isinstance(found, str), found
        assert [one.evidence for one in found.unseen] == ["weak"] * (expected == "noted")
        check_weights(found.all(path), plain_weights(name, model, x), in_windows=expected == "windows")
        return
    allowed = run(model, x, unseen="allow")
    if expected == "listed" and not beside:
        assert isinstance(found, str), "nothing is seen, so it is an error"
        return
    assert not isinstance(allowed, str), allowed
    assert path in [one.name for one in allowed.unseen], "silent"
    if expected == "raises":
        assert isinstance(found, str), "no error by default"
        assert path in found
    else:
        assert not isinstance(found, str), found


def check_weights(sights, plain, in_windows):
    """The same weights; in windows, the same weights that are not 0, row by row."""
    if in_windows:
        rows = torch.cat([sight.weights().flatten(0, 2) for sight in sights]).sort(-1, descending=True).values
        plain = plain.sort(-1, descending=True).values[..., : rows.shape[-1]]
        rows = rows.view(BATCH * HEADS, -1, rows.shape[-1])[:, :TOKENS]  # the last block may have a row of padding
    else:
        rows = torch.cat([sight.weights().float() for sight in sights], 2)
    assert torch.allclose(rows.reshape(plain.shape), plain, atol=1e-5)


COMPILED = {
    "matmul": "strong",
    "cosine": "strong",
    "online softmax in chunks of keys": "strong",
    "all elements without a product": "weak",
    "relu attention": "weak",
}


@pytest.mark.slow
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a visible one"])
@pytest.mark.parametrize("name", COMPILED)
def test_a_function_compiled_to_machine_code_is_captured_or_named(name, beside):
    """Its softmax is fused into a loop, and compiled functions belong to no module."""
    compiled = Layer(torch.compile(SPELLINGS[name].compute))
    model = (Stack(Fused(), compiled) if beside else Stack(compiled)).requires_grad_(False)
    x, path = torch.randn(BATCH, TOKENS, D_MODEL), f"layers.{int(beside)}"
    model(x)  # compiled before it is watched
    by_default, allowed = run(model, x), run(model, x, unseen="allow")
    if COMPILED[name] == "weak" and not beside:
        assert isinstance(by_default, str), "nothing is seen, so it is an error"
        return
    assert {one.name: one.evidence for one in allowed.unseen} == {path: COMPILED[name]}
    assert isinstance(by_default, str) == (COMPILED[name] == "strong")


def test_there_are_enough_spellings_from_every_file():
    assert len(SPELLINGS) >= 100
    assert {spelling.compute.__module__ for spelling in SPELLINGS.values()} == {file.__name__ for file in FILES}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_computes_what_its_plain_words_say(name):
    if name in WITHOUT_SOFTMAX:
        pytest.skip("it has no weights that sum to one, none at all, or those of several at once")
    Q, K, V = torch.randn(3, BATCH, HEADS, TOKENS, 4).unbind(0)
    expected = SPELLINGS[name].weights(Q, K).float() @ V
    if name in ("one key head for all", "one head of keys expanded"):
        expected = SPELLINGS[name].weights(Q, K).float() @ V[:, :1]
    assert torch.allclose(SPELLINGS[name].compute(Q, K, V), expected, atol=1e-5)


def test_the_visible_layer_is_visible():
    model = Stack(Fused())
    with transom.watch(model) as trace:
        model(torch.randn(BATCH, TOKENS, D_MODEL))
    assert trace.names == ["layers.0"]
    assert isinstance(model.layers[0], nn.Module)
