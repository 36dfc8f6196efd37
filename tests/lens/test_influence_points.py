"""`influence` with a gradient that is the mean of several runs, in which all attention fades."""

import pytest
import torch
from torch import nn

import transom
from transom import Misfit
from transom.models import Decoder, DecoderConfig

TOKENS = torch.tensor([[5, 9, 4, 17, 11, 6, 20]])


def small_decoder():
    torch.manual_seed(79)
    config = DecoderConfig(vocabulary=23, layers=2, d_model=12, heads=3, d_hidden=17, arrangement="pre_norm")
    return Decoder(config).eval().double()


def gradients_of_faded(model, scale, target):
    """The gradients by the outputs of attention, each of which goes on as `scale` of itself: W_O is scaled instead."""
    outputs = [module.attention.W_O for module in model.stack.blocks]
    for W_O in outputs:
        W_O.weight.data *= scale
    found = transom.influence(model, TOKENS, target=target)
    for W_O in outputs:
        W_O.weight.data /= scale
    return {name: found[name].gradient / scale for name in found.names}


@pytest.mark.parametrize("points", [1, 2, 5])
def test_the_gradient_is_the_mean_of_runs_in_which_attention_fades(points):
    model = small_decoder()
    found = transom.influence(model, TOKENS, points=points)
    runs = [gradients_of_faded(model, 1.0 - point / points, found.target) for point in range(points)]
    assert len(found.names) == 2
    for name in found.names:
        mean = torch.stack([run[name] for run in runs]).mean(dim=0)
        torch.testing.assert_close(found[name].gradient, mean, rtol=1e-9, atol=1e-12)
        plain = transom.influence(model, TOKENS)[name]
        torch.testing.assert_close(found[name].sight.output, plain.sight.output, rtol=1e-12, atol=1e-13)


class OneHead(nn.Module):
    """Attention to one key among many, whose value is nearly all of what a closing norm divides by."""

    def __init__(self):
        super().__init__()
        self.K = nn.Parameter(torch.eye(7)[None, None])
        self.V = nn.Parameter(torch.tensor([[9.0, 1.0, 0.0]] + 6 * [[0.0, 1.0, 0.5]])[None, None])

    def forward(self, x):
        parts = (8.0 * self.K, self.K, self.V)
        read = transom.attend(*(part.expand(len(x), -1, -1, -1) for part in parts), scale=1.0)
        stream = read[:, 0, 0] + torch.tensor([0.0, 0.3, 0.2])
        return (stream / stream.norm(dim=-1, keepdim=True))[:, :1]


def test_several_points_see_a_step_that_a_norm_hides_from_the_gradient_at_its_beginning():
    model, one = OneHead().eval(), torch.zeros(1, 1)
    (row,) = transom.effect(model, one, [("(model)", 0, 0, 0)])
    estimates = [
        float(transom.influence(model, one, points=points)["(model)"].edges(batch=0, head=0, rows=0, keys=0))
        for points in (1, 8)
    ]
    assert row.change < -0.9
    assert row.change < estimates[1] < 5.0 * estimates[0] < 0.0


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (0, "points must be 1 or more, but got 0; 1 takes the gradient of the run as it is"),
        ("2", "points must be 1 or more, but got '2'; 1 takes the gradient of the run as it is"),
    ],
)
def test_points_are_a_count(points, message):
    with pytest.raises(Misfit) as caught:
        transom.influence(small_decoder(), TOKENS, points=points)
    assert str(caught.value) == message
