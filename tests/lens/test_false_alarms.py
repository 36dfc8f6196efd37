"""No false alarm: models with a softmax, a gate, a product or a name like attention's, beside one visible attention."""

import warnings

import pytest
import torch
from torch import nn
from watched import Plain, Stack
from zoo import harmless_names, harmless_products
from zoo.harmless import LAYERS, NOTED

import transom

D_MODEL, TOKENS = 14, 11


class Beside(nn.Module):
    """A visible attention, then the layer in question; their results need not fit each other."""

    def __init__(self, layer):
        super().__init__()
        self.attention, self.layer = Stack(Plain(D_MODEL)), layer

    def forward(self, x):
        x = self.attention(x)
        return x, self.layer(x)


def run(name):
    torch.manual_seed(71)
    model, x = Beside(LAYERS[name]()).eval(), torch.randn(3, TOKENS, D_MODEL)
    torch.manual_seed(5)
    plain = model(x)[1]
    torch.manual_seed(5)
    with transom.watch(model) as trace:
        watched = model(x)[1]
    return plain, watched, trace


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_no_attention_raises_nothing(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain, watched, trace = run(name)
    assert trace.names == ["attention.layers.0"]
    assert torch.equal(plain, watched)
    allowed = {"weak"} if name in NOTED else set()
    assert {one.evidence for one in trace.unseen} <= allowed, trace.unseen


def test_there_are_enough_of_them_and_few_are_noted():
    assert len(LAYERS) >= 60
    assert "LSTM" in harmless_names.LAYERS
    assert "gram matrix" in LAYERS, f"{harmless_products.__name__} adds its rows when it is imported"
    assert set(NOTED) <= set(LAYERS)
    assert len(NOTED) <= len(LAYERS) / 6


def test_a_layer_that_is_attention_does_raise():
    class Mixer(nn.Module):
        def forward(self, x):
            e = (x @ x.mT).exp()
            return (e @ x) / (1 + e.sum(-1, keepdim=True))

    model = Beside(Mixer())
    with (
        pytest.raises(transom.names.Misfit, match="attention ran that could not be captured: 'layer'"),
        transom.watch(model),
    ):
        model(torch.randn(3, TOKENS, D_MODEL))
