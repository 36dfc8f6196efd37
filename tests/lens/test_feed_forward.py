"""A feed-forward part unit by unit, against its equation in plain loops and against true knock-outs of a unit."""

import math
import re

import pytest
import torch
from torch import nn

from transom.lens.capture.feed_forward import ACTIVATIONS, find_feed_forward, hidden_gradient
from transom.models import Decoder, DecoderConfig
from transom.names import Misfit

TOKENS, ROW = 5, 3


def decoder(feed_forward, **settings):
    torch.manual_seed(7)
    config = DecoderConfig(
        vocabulary=23, d_model=12, heads=3, layers=2, d_hidden=17, longest=11, feed_forward=feed_forward, **settings
    )
    model = Decoder(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def run_of(model):
    ids = torch.tensor([[2, 7, 1, 8, 2]])
    return lambda: model(ids)


def erf_gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def tanh_gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


LOOPS = {
    "relu": ("ReLU", lambda x: max(0.0, x)),
    "gelu": ("GELU", erf_gelu),
    "gelu_tanh": ("GELU (tanh)", tanh_gelu),
    "silu": ("SiLU", lambda x: x / (1 + math.exp(-x))),
    "swiglu": ("SiLU", lambda x: x / (1 + math.exp(-x))),
    "geglu": ("GELU", erf_gelu),
    "geglu_tanh": ("GELU (tanh)", tanh_gelu),
}


@pytest.mark.parametrize("name", LOOPS)
def test_every_unit_is_its_equation(name):
    model = decoder(name)
    run = run_of(model)
    units = find_feed_forward(model, run, "stack.blocks.1.attention", ROW)
    activation, function = LOOPS[name]
    assert units.activation == activation
    assert (units.up is not None) == (name in ("swiglu", "geglu", "geglu_tanh"))
    x = units.x.tolist()
    output = [0.0] * 12 if units.b_2 is None else units.b_2.tolist()
    for unit in range(17):

        def dot(part, unit=unit):
            bias = 0.0 if part.b is None else float(part.b[unit])
            return bias + sum(x[i] * float(part.W[i, unit]) for i in range(12))

        hidden = function(dot(units.gate)) * (1.0 if units.up is None else dot(units.up))
        assert hidden == pytest.approx(float(units.hidden[unit]), rel=1e-4, abs=1e-6)
        output = [sum_ + hidden * float(W) for sum_, W in zip(output, units.W_2[unit], strict=True)]
    assert output == pytest.approx(units.output.tolist(), rel=1e-4, abs=1e-5)


def test_it_is_what_the_models_own_part_took_and_gave():
    model, kept = decoder("gelu"), {}
    part = model.get_submodule("stack.blocks.0.feed_forward")
    run = run_of(model)
    hook = part.register_forward_hook(lambda module, args, output: kept.update(x=args[0], y=output))
    with torch.no_grad():
        run()
    hook.remove()
    units = find_feed_forward(model, run, "stack.blocks.0.attention", ROW)
    torch.testing.assert_close(units.x.float(), kept["x"][0, ROW])
    torch.testing.assert_close(units.output.float(), kept["y"][0, ROW])
    assert units.module is part.get_submodule("W_2")


def test_the_gradient_is_the_slope_of_scaling_a_unit():
    model = decoder("swiglu").double()
    run = run_of(model)
    units = find_feed_forward(model, run, "stack.blocks.0.attention", ROW)

    def read(result):
        return result[:, -1].log_softmax(-1)[:, 4]

    before = [parameter.requires_grad for parameter in model.parameters()]
    by_hidden, by_output = hidden_gradient(model, run, units, read, ROW)
    assert [parameter.requires_grad for parameter in model.parameters()] == before
    for unit in (0, 5, 16):

        def scaled(share, unit=unit):
            def scale(module, args):
                x = args[0].clone()
                x[0, ROW, unit] *= 1 + share
                return (x,)

            hook = units.module.register_forward_pre_hook(scale)
            with torch.no_grad():
                value = float(read(run())[0])
            hook.remove()
            return value

        slope = (scaled(1e-4) - scaled(-1e-4)) / 2e-4
        assert float(units.hidden[unit] * by_hidden[unit]) == pytest.approx(slope, rel=1e-4, abs=1e-9)
    whole = float(units.output @ by_output)
    parts = float(units.hidden @ by_hidden) + (0.0 if units.b_2 is None else float(units.b_2 @ by_output))
    assert parts == pytest.approx(whole, rel=1e-9)
    later = find_feed_forward(model, run, "stack.blocks.1.attention", ROW)
    gradient, _ = hidden_gradient(model, run, later, lambda result: result[:, 0, 1], ROW)
    assert not gradient.any(), "an earlier row does not see a later one"


class Sandwich(nn.Module):
    """A block of two matrices with a function between them."""

    def __init__(self, activation):
        super().__init__()
        self.one, self.two, self.activation = nn.Linear(6, 7), nn.Linear(7, 6), activation

    def forward(self, x):
        return self.two(self.activation(self.one(x)))


def test_what_cannot_be_proved_is_an_error_that_says_so():
    model, x = nn.Sequential(Sandwich(torch.sin)), torch.randn(1, TOKENS, 6)
    said = (
        "the feed-forward part of 0 cannot be taken apart: no two of its matrices with a known activation"
        f" between them ({', '.join(ACTIVATIONS)}) give what it computed"
    )
    with pytest.raises(Misfit, match=f"^{re.escape(said)}$"):
        find_feed_forward(model, lambda: model(x), "0.attention", 0)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_known_activation_is_recognised(name):
    torch.manual_seed(3)
    model, x = nn.Sequential(Sandwich(ACTIVATIONS[name])), 3 * torch.randn(1, TOKENS, 6)
    assert find_feed_forward(model, lambda: model(x), "0.attention", 2).activation == name


def test_a_part_that_runs_twice_and_a_token_that_is_not_there():
    block = nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 6))
    model, x = nn.Sequential(block), torch.randn(1, TOKENS, 6)
    with pytest.raises(Misfit, match="ran several times, and only one that runs once is shown"):
        find_feed_forward(model, lambda: model(model(x)), "0.attention", 0)
    with pytest.raises(Misfit, match=f"there are token={TOKENS}, so 5 is none of them"):
        find_feed_forward(model, lambda: model(x), "0.attention", TOKENS)
