"""Estimates of how far the whole output moves, beside true knock-outs of models whose attention says little: there the
first order is nearly all."""

from itertools import product
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import transom
from transom.lens.ablation.ablated_runs import measure_changes
from transom.lens.ablation.edge import Edge
from transom.lens.attribution import output_estimates
from transom.lens.attribution.head_ranking import CARRIES, ESTIMATED, HeadRanker
from transom.lens.attribution.output_estimates import draw_logit_probe, estimate_output
from transom.models import Decoder, DecoderConfig

TOKENS = torch.randint(0, 19, (1, 7), generator=torch.Generator().manual_seed(3))
MANY = 500  # probes: the noise of a mean of squares is √(2 / 500), 6 %


def quiet_decoder():
    torch.manual_seed(5)
    model = Decoder(DecoderConfig(vocabulary=19, layers=2, d_model=12, heads=3, d_hidden=17)).double().eval()
    with torch.no_grad():
        for block in model.stack.blocks:
            block.attention.W_O.weight *= 1e-3
    return model


class Vectors(nn.Module):
    """Gives the vectors of a text, as an encoder without a head does."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        layer = nn.TransformerEncoderLayer(d_model=12, nhead=2, dim_feedforward=17, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double()
        with torch.no_grad():
            for each in self.encoder.layers:
                each.self_attn.out_proj.weight *= 1e-3

    def forward(self, x):
        return SimpleNamespace(last_hidden_state=self.encoder(x))


def test_probes_of_logits_have_the_curvature_of_the_divergence(monkeypatch):
    logits = torch.randn(1, 1, 6, dtype=torch.float64)
    p = logits[0, 0].float().softmax(dim=-1).double()
    total = torch.zeros(6, 6, dtype=torch.float64)
    for signs in product((-1.0, 1.0), repeat=6):
        monkeypatch.setattr(output_estimates, "draw_signs", lambda *_, signs=signs: torch.tensor([signs]))
        probe = draw_logit_probe(logits, torch.Generator())[0, 0]
        total += torch.outer(probe, probe) / 64
    torch.testing.assert_close(total, p.diag() - torch.outer(p, p), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["logits", "vectors"])
def test_estimates_are_the_changes_where_the_first_order_is_nearly_all(kind):
    x = torch.randn(1, 7, 12, dtype=torch.float64)
    model, inputs = (quiet_decoder(), TOKENS) if kind == "logits" else (Vectors().eval(), x)
    found = estimate_output(model, inputs, probes=MANY)
    assert found.unit == {"logits": "nats", "vectors": "share"}[kind]
    heads = list(found.heads())
    true = measure_changes(model, inputs, [Edge(*head) for head in heads], 7, "after")
    assert true.unit == found.unit
    assert list(found.heads().values()) == pytest.approx(true.values, rel=0.3)
    name, head = heads[1]
    edges = [(query, key) for query in (3, 6) for key in range(4)]
    true = measure_changes(model, inputs, [Edge(name, head, *edge) for edge in edges], 7).values
    estimates = found.edges(name, head)
    assert [float(estimates[edge]) for edge in edges] == pytest.approx(true, rel=0.3)
    torch.testing.assert_close(found.edges(name, head, rows=6, keys=slice(2, 4)), estimates[6, 2:4])


def test_the_strongest_edges_are_those_with_the_largest_estimates(monkeypatch):
    found = estimate_output(quiet_decoder(), TOKENS)
    name, head = found.names[1], 2
    whole = found.edges(name, head)
    for block in (2**20, 8):
        monkeypatch.setattr(output_estimates, "BLOCK", block)
        strongest = found.strongest(name, head, 5)
        assert [edge.estimate for edge in strongest] == pytest.approx(whole.flatten().topk(5).values.tolist())
        for edge in strongest:
            assert float(whole[edge.query, edge.key]) == pytest.approx(edge.estimate)
            weight = found.probes[0][1][1].sight.weights(batch=0, head=head, rows=edge.query, keys=edge.key)
            assert edge.weight == float(weight)


def test_heads_are_ranked_by_estimate_and_the_first_by_knock_outs():
    model = quiet_decoder()
    with torch.no_grad(), transom.watch(model) as trace:
        model(TOKENS)
    ranker, done = HeadRanker(model, TOKENS, trace), []
    at_once = ranker.rank(refine=0)
    assert at_once.why == ESTIMATED
    assert [row.estimate for row in at_once.rows] == sorted(ranker.estimates.heads().values(), reverse=True)
    assert {row.effect for row in at_once.rows} == {None}
    refined = ranker.rank(refine=2, progress=lambda some, total: done.append((some, total)))
    assert done == [(2, 2)]
    assert refined.first.why.endswith("would change most (2 were tried, the others estimated)")
    first = {(row.layer, row.head) for row in at_once.rows[:2]}
    assert {(row.layer, row.head) for row in refined.rows[:2]} == first
    assert refined.rows[0].effect >= refined.rows[1].effect > 0.0
    assert refined.rows[2:] == at_once.rows[2:]


def test_what_cannot_be_estimated_is_ranked_otherwise(monkeypatch):
    model = quiet_decoder()
    with torch.no_grad(), transom.watch(model) as trace:
        model(TOKENS)
    monkeypatch.setattr(output_estimates, "MAX_TOKENS", 6)
    assert estimate_output(model, TOKENS) is None
    by_effect = HeadRanker(model, TOKENS, trace).rank()
    assert all(row.effect is not None and row.estimate is None for row in by_effect.rows)
    monkeypatch.setattr("transom.lens.attribution.head_ranking.MAX_TOKENS_RERUN", 6)
    assert HeadRanker(model, TOKENS, trace).rank().why == CARRIES
