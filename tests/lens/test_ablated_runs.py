"""How far what a model gives moves without an edge or a head: as if each were knocked out by hand."""

import pytest
import torch
from torch import nn
from watched import Plain, Stack

import transom
from transom.lens.ablation.ablated_runs import measure_changes
from transom.lens.ablation.edge import Edge

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


def output_without(model, edge, how):
    with torch.no_grad(), transom.knock_out(model, edges=[edge], how=how):
        return model(X)


@pytest.mark.parametrize("how", ["before", "after"])
def test_logits_are_compared_by_their_divergence_at_all_positions(how):
    model = Stack(Plain(), Plain(is_causal=True)).eval()
    edges = EDGES if how == "after" else EDGES[:2]
    changes = measure_changes(model, X, edges, 5, how)
    p = model(X).detach().double().log_softmax(-1)
    expected = []
    for edge in edges:
        q = output_without(model, edge, how).double().log_softmax(-1)
        expected.append(float((p.exp() * (p - q)).sum()))
    assert changes.unit == "nats"
    assert changes.values == pytest.approx(expected, rel=1e-3)


def test_vectors_are_compared_by_how_far_they_move():
    class Given:
        def __init__(self, x):
            self.last_hidden_state = x

    plain = Stack(Plain(), Plain(is_causal=True)).eval()
    changes = measure_changes(Wrapped(plain, Given).eval(), X, EDGES[:2], 5)
    baseline = plain(X).detach()
    assert changes.unit == "share"
    assert changes.values == pytest.approx(
        [float((output_without(plain, edge, "before") - baseline).norm() / baseline.norm()) for edge in EDGES[:2]],
        rel=1e-3,
    )


def test_an_output_that_cannot_be_compared_gives_none():
    model = Wrapped(Stack(Plain(), Plain()), lambda x: {"anything": x}).eval()
    assert measure_changes(model, X, EDGES[:2], 5) is None
