"""How far what a model gives moves without an edge or a head: as if each were knocked out by hand."""

import pytest
import torch
from torch import nn
from watched import Plain, Stack

import transom
from transom.lens.asking.edge import Edge
from transom.lens.asking.shifts import shifts

torch.manual_seed(67)
X = torch.randn(1, 5, 14)
EDGES = [Edge("layers.0", 1, 4, 2), Edge("layers.1", 0, 3, 0), Edge("layers.1", 1)]


class Wrapped(nn.Module):
    """Gives what another model gives, in something else."""

    def __init__(self, model, wrap):
        super().__init__()
        self.layers, self.wrap = model.layers, wrap

    def forward(self, x):
        return self.wrap(Stack.forward(self, x))


def without(model, edge, how):
    with torch.no_grad(), transom.knock_out(model, edges=[edge], how=how):
        return model(X)


@pytest.mark.parametrize("how", ["before", "after"])
def test_logits_are_compared_by_their_divergence_at_all_positions(how):
    model = Stack(Plain(), Plain(is_causal=True)).eval()
    edges = EDGES if how == "after" else EDGES[:2]
    found = shifts(model, X, edges, 5, how)
    p = model(X).detach().double().log_softmax(-1)
    expected = []
    for edge in edges:
        q = without(model, edge, how).double().log_softmax(-1)
        expected.append(float((p.exp() * (p - q)).sum()))
    assert found.unit == "nats"
    assert found.values == pytest.approx(expected, rel=1e-3)


def test_vectors_are_compared_by_how_far_they_move():
    class Given:
        def __init__(self, x):
            self.last_hidden_state = x

    plain = Stack(Plain(), Plain(is_causal=True)).eval()
    found = shifts(Wrapped(plain, Given).eval(), X, EDGES[:2], 5)
    whole = plain(X).detach()
    assert found.unit == "share"
    assert found.values == pytest.approx(
        [float((without(plain, edge, "before") - whole).norm() / whole.norm()) for edge in EDGES[:2]], rel=1e-3
    )


def test_what_cannot_be_compared_is_none():
    model = Wrapped(Stack(Plain(), Plain()), lambda x: {"anything": x}).eval()
    assert shifts(model, X, EDGES[:2], 5) is None
