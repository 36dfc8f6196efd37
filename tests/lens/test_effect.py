"""`effect`: every column against its closed form on a model of one layer, and against single runs on others."""

import csv
import io
import json
import math

import pytest
import torch
from torch import nn
from watched import Plain, Stack

import transom
from transom import Misfit
from transom.lens import EffectRule
from transom.lens.ablation.ablated_runs import AblatedRuns, ModelCall, divergence
from transom.lens.attribution.head_ranking import CARRIES, MATTERS, HeadRanker, preferred_layers, weighted_value_norms
from transom.models import Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig

torch.manual_seed(61)


class OneLayer(nn.Module):
    """Attention of two heads with known scores, values and W_O; its logits are the output of the last row."""

    def __init__(self, projection="W_O"):
        super().__init__()
        torch.manual_seed(67)
        self.scores = nn.Parameter(torch.randn(2, 3, 5) * 2.0)
        self.V = nn.Parameter(torch.randn(2, 5, 3))
        self.projection = projection
        setattr(self, projection, nn.Linear(6, 7))

    def forward(self, x):
        # Queries are rows of the scores, keys the unit vectors: Q Kᵀ gives the scores themselves.
        batch = x.shape[0]
        Q, K, V = (part.expand(batch, *part.shape) for part in (self.scores, torch.eye(5).expand(2, 5, 5), self.V))
        heads = nn.functional.scaled_dot_product_attention(Q, K, V, scale=1.0).transpose(1, 2).flatten(2)
        return getattr(self, self.projection)(heads if self.projection == "W_O" else heads + 0.0 * x.sum() + 1e-9)


ONE = torch.zeros(1, 1)
EDGES = [("(model)", head, query, key) for head in range(2) for query in (0, 2) for key in range(5)]


def closed_form(model, how, head, query, key):
    """All columns of one edge, from its scores, values and W_O in float64."""
    scores, V = model.scores.detach().double(), model.V.detach().double()
    W_O, bias = model.W_O.weight.detach().double(), model.W_O.bias.detach().double()
    weights = torch.softmax(scores, -1)
    cut = torch.softmax(scores, -1)
    if how == "before":
        left = scores.clone()
        left[head, query, key] = -math.inf
        cut = torch.softmax(left, -1)
    else:
        cut[head, query, key] = 0.0
    a, v, o = weights[head, query, key], V[head, key], (weights @ V)[head, query]
    head_W_O = W_O[:, 3 * head : 3 * head + 3]
    logits = [W_O @ torch.cat([(w @ V)[0, 2], (w @ V)[1, 2]]) + bias for w in (weights, cut)]
    target = int(logits[0].argmax())
    p, q = (torch.softmax(x, -1) for x in logits)
    moved = head_W_O @ ((cut @ V)[head, query] - o)
    return {
        "weight": a,
        "norm": (head_W_O @ (a * v)).norm(),
        "contribution": a * (v @ o) / (o @ o),
        "pull": W_O[target, 3 * head : 3 * head + 3] @ (a * v) if query == 2 else torch.zeros(()),
        "local_change": moved.norm(),
        "change": logits[1][target] - logits[0][target],
        "probability_change": q[target] - p[target],
        "kl": (p * (p / q).log()).sum(),
    }


@pytest.mark.parametrize("how", ["before", "after"])
def test_every_column_is_its_closed_form(how):
    model = OneLayer().eval()
    table = transom.effect(model, ONE, EDGES, how=how)
    assert table.notes == []
    for row, edge in zip(table, EDGES, strict=True):
        assert (row.layer, row.head, row.query, row.key) == edge
        expected = closed_form(model, how, *edge[1:])
        for column, value in expected.items():
            assert getattr(row, column) == pytest.approx(float(value), abs=2e-6), (edge, column)
    first_row = [row for row in table if (row.head, row.query) == (1, 2)]
    assert sum(row.contribution for row in first_row) == pytest.approx(1.0, abs=1e-6)
    assert all(row.kl == row.change == 0.0 for row in table if row.query == 0), "only the last row is read"


def test_a_weight_of_nearly_one_leaves_what_the_other_keys_say():
    model = OneLayer().eval()
    with torch.no_grad():
        model.scores[1, 2] = torch.tensor([25.0, 1.0, 3.0, 2.0, 0.0])
    (row,) = transom.effect(model, ONE, [("(model)", 1, 2, 0)])
    expected = closed_form(model, "before", 1, 2, 0)
    assert row.weight == pytest.approx(1.0)
    assert row.local_change == pytest.approx(float(expected["local_change"]), rel=1e-4)
    assert row.change == pytest.approx(float(expected["change"]), rel=1e-4)


def test_without_a_projection_norms_are_the_heads_own_and_it_says_so():
    model = OneLayer("other").eval()
    table = transom.effect(model, ONE, [("(model)", 1, 2, 3)])
    assert table.notes == [
        "no output projection was found for '(model)': norm and local are those of the head, before W_O"
    ]
    weights, V = torch.softmax(model.scores.detach(), -1), model.V.detach()
    assert table.rows[0].norm == pytest.approx(float((weights[1, 2, 3] * V[1, 3]).norm()), abs=1e-6)


def test_the_projection_of_pytorchs_layer_is_found_though_it_calls_no_module():
    model = nn.MultiheadAttention(14, 2, add_bias_kv=True, batch_first=True).eval()
    inputs = {**dict.fromkeys(("query", "key", "value"), torch.randn(1, 5, 14)), "need_weights": False}
    table = transom.effect(model, inputs, [("(model)", 1, 4, 2)], output=lambda result: result[0][:, 4, 3])
    with torch.no_grad(), transom.watch(model) as trace:
        model(**inputs)
    moved = trace[0].weights(batch=0, head=1, rows=4, keys=2) * trace[0].V[0, 1, 2]
    assert table.notes == []
    assert table.rows[0].norm == pytest.approx(float((model.out_proj.weight[:, 7:].detach() @ moved).norm()), rel=1e-5)


def test_the_output_may_be_a_number():
    model = OneLayer().eval()
    table = transom.effect(model, ONE, EDGES[5:10], output=lambda logits: logits[:, 2, 4])
    baseline = float(model(ONE)[0, 2, 4].detach())
    assert (table.target, table.probability, table.value) == (None, None, pytest.approx(baseline))
    for row, edge in zip(table, EDGES[5:10], strict=True):
        with torch.no_grad(), transom.knock_out(model, edges=[edge]):
            assert row.change == pytest.approx(float(model(ONE)[0, 2, 4]) - baseline, abs=1e-6)
        assert row.kl is row.probability_change is None
    assert (
        str(table).splitlines()[-1]
        == f"change: of the output, {baseline:.4f} with all edges; knocked out before the softmax"
    )


CONFIG = {"d_model": 12, "heads": 3, "d_hidden": 23}
DECODER = Decoder(DecoderConfig(vocabulary=19, layers=2, kv_heads=1, positions="rotary", d_head=4, **CONFIG)).eval()
PAIR = EncoderDecoder(EncoderDecoderConfig(vocabulary=19, encoder_layers=2, decoder_layers=2, **CONFIG)).eval()
TOKENS, TARGETS = torch.randint(3, 19, (1, 7)), torch.randint(3, 19, (1, 5))


class TokensFirst(nn.Module):
    """Batch is its second axis: copies of the input along the first are no batch of it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.MultiheadAttention(14, 2)

    def forward(self, x):
        return self.layer(x, x, x)[0].transpose(0, 1)


MODELS = {
    "Transom's decoder": (DECODER, (TOKENS,), "stack.blocks.1.attention"),
    "Transom's encoder–decoder": (PAIR, (TOKENS, TARGETS), "decoder.blocks.1.cross"),
    "a stack": (Stack(Plain(is_causal=True), Plain(is_causal=True)).eval(), torch.randn(1, 5, 14), "layers.0"),
    "MultiheadAttention, tokens first": (TokensFirst().eval(), (torch.randn(5, 1, 14),), "layer"),
}


def test_pull_is_the_slope_of_the_target_as_an_edge_fades():
    """Against a finite difference: the head's output with a little of one edge taken away by a hook."""
    edge = ("stack.blocks.0.attention", 1, 3, 1)
    (row,) = transom.effect(DECODER, TOKENS, [edge])
    attention, logits_faded = DECODER.get_submodule(edge[0]), []
    with torch.no_grad(), transom.watch(DECODER) as trace:
        target = int(DECODER(TOKENS)[0, -1].argmax())
    sight = trace[edge[0]]
    moved = sight.weights(batch=0, head=1, rows=3, keys=1) * sight.V[0, 0, 1]
    for step in (-0.05, 0.05):

        def faded(module, args, step=step):
            heads = args[0].clone()
            heads[0, 3, 4:8] += step * moved
            return (heads,)

        handle = attention.W_O.register_forward_pre_hook(faded)
        with torch.no_grad():
            logits_faded.append(float(DECODER(TOKENS)[0, -1, target]))
        handle.remove()
    assert row.pull == pytest.approx((logits_faded[1] - logits_faded[0]) / 0.1, rel=0.02, abs=1e-4)
    frozen = [parameter.requires_grad_(False) for parameter in DECODER.parameters()]
    assert transom.effect(DECODER, TOKENS, [edge]).rows[0].pull == pytest.approx(row.pull)
    assert transom.effect(DECODER, TOKENS, [edge], gradient=False).rows[0].pull is None
    for parameter in frozen:
        parameter.requires_grad_(True)


@pytest.mark.parametrize("how", ["before", pytest.param("after", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", MODELS)
def test_many_edges_in_one_run_change_what_each_changes_alone(kind, how):
    model, inputs, layer = MODELS[kind]
    call = ModelCall.from_inputs(model, inputs)
    edges = [(layer, head, query, key) for head in range(2) for query in (3, -1) for key in (0, 3)]
    table = transom.effect(model, inputs, edges, how=how, gradient=False)
    baseline = call()[0, -1].double()
    for row, edge in zip(table, edges, strict=True):
        with transom.knock_out(model, edges=[edge], how=how):
            without = call()[0, -1].double()
        assert row.kl == pytest.approx(float(divergence(baseline, without)), abs=1e-6)
        assert row.change == pytest.approx(float(without[table.target] - baseline[table.target]), abs=1e-5)
    assert max(row.kl for row in table) > 1e-6
    assert ("each edge ran alone" in str(table)) == (kind == "MultiheadAttention, tokens first")


def test_by_default_the_strongest_edges_of_the_last_query_by_weight_and_by_norm():
    with torch.no_grad(), transom.watch(DECODER) as trace:
        DECODER(TOKENS)
    table = transom.effect(DECODER, (TOKENS,), k=3)
    assert 3 <= len(table) <= 6
    assert {row.query for row in table} == {6}
    weights = torch.cat([sight.weights(batch=0, rows=-1).flatten() for sight in trace]).sort(descending=True).values
    assert [row.weight for row in table.rows[:3]] == pytest.approx(weights[:3].tolist())
    every = [(name, head, 6, key) for name in trace.names for head in range(3) for key in range(7)]
    norms = sorted((row.norm for row in transom.effect(DECODER, (TOKENS,), every, gradient=False)), reverse=True)
    assert sorted((row.norm for row in table), reverse=True)[0] == pytest.approx(norms[0])


def test_a_masked_edge_changes_nothing():
    (row,) = transom.effect(DECODER, (TOKENS,), [(0, 1, 2, 5)])
    assert (row.weight, row.norm, row.pull, row.local_change, row.change, row.kl) == (0.0,) * 6


def test_flags_follow_the_rule():
    rule = EffectRule(thick=0.3, thin=0.1, matters=0.2, idle=0.05)
    assert rule.flag(0.3, 0.04) == "thick, does not matter"
    assert rule.flag(0.1, 0.2) == "thin, but matters"
    assert not any(rule.flag(weight, size) for weight, size in ((0.29, 0.01), (0.3, 0.05), (0.11, 9.0), (0.1, 0.19)))
    table = transom.effect(OneLayer().eval(), ONE, EDGES, rule=EffectRule(thick=0.0, thin=1.0, matters=1e-9, idle=1e-9))
    assert {row.flag for row in table if row.query == 0} == {"thick, does not matter"}
    assert {row.flag for row in table if row.query == 2} == {"thin, but matters"}


def test_the_table_as_json_csv_and_text():
    table = transom.effect(OneLayer().eval(), ONE, EDGES[5:8], target=2)
    loaded = json.loads(table.json())
    assert loaded == table.to_dict()
    assert (loaded["how"], loaded["target"], len(loaded["rows"])) == ("before", 2, 3)
    lines = list(csv.DictReader(io.StringIO(table.csv())))
    assert [float(line["weight"]) for line in lines] == [row.weight for row in table]
    text = str(table).splitlines()
    assert " ".join(text[0].split()) == (
        "layer head query key weight norm contribution pull local change probability kl flag"
    )
    assert len({len(line) for line in text[1:4]} | {len(text[1])}) <= 2
    assert text[4].startswith("change, probability: of token id 2, logit ")
    most = table.sorted().rows
    assert [row.kl for row in most] == sorted((row.kl for row in table), reverse=True)


def test_words_stand_beside_their_places():
    words = {"tokens": [*"abcdefg"], "targets": [*"vwxyz"]}
    edges = [("decoder.blocks.1.cross", 0, 3, 5), ("encoder.blocks.0.attention", 1, 2, 6)]
    table = transom.effect(PAIR, (TOKENS, TARGETS), edges, gradient=False, **words)
    assert [(row.looking, row.at) for row in table] == [("y", "f"), ("c", "g")]
    assert "  3 y    5 f  " in str(table)


def test_the_target_has_its_word_where_ids_can_be_spelled():
    spelled = transom.effect(
        OneLayer().eval(), ONE, EDGES[5:8], target=2, spell=lambda ids: [f"word {id}" for id in ids]
    )
    assert (spelled.word, spelled.sorted().word, spelled.to_dict()["word"]) == ("word 2",) * 3
    assert "change, probability: of token id 2 'word 2', logit " in str(spelled)
    number = transom.effect(
        OneLayer().eval(), ONE, EDGES[5:8], output=lambda logits: logits[:, 0, 0], spell=lambda ids: ["never"]
    )
    assert number.word is None


def test_progress_is_reported_and_runs_are_bounded(monkeypatch):
    done = []
    monkeypatch.setattr("transom.lens.ablation.ablated_runs.MAX_COPIES", 4)
    transom.effect(DECODER, (TOKENS,), [(0, 1, 6, key) for key in range(7)], progress=lambda *args: done.append(args))
    assert done == [(3, 7), (6, 7), (7, 7)]
    baseline = torch.zeros(1, 2**20)
    assert AblatedRuns(ModelCall.from_inputs(DECODER, TOKENS), lambda x: x, baseline, "before", 16).batch_size() == 3
    assert AblatedRuns(ModelCall.from_inputs(DECODER, TOKENS), lambda x: x, baseline, "before", 4096).batch_size() == 1


def test_the_head_that_matters_most_is_the_one_without_which_most_changes():
    call = ModelCall.from_inputs(DECODER, TOKENS)
    with torch.no_grad(), transom.watch(DECODER) as trace:
        DECODER(TOKENS)
    baseline, lost = call().double(), {}
    for name in trace.names:
        for head in range(3):
            with transom.knock_out(DECODER, name, head):
                lost[name, head] = float(divergence(baseline, call().double()).mean())
    assert HeadRanker(DECODER, TOKENS, trace).rank().first == (*max(lost, key=lost.get), MATTERS, 3 * len(trace.names))


def test_norms_decide_which_head_matters_most_if_outputs_cannot_be_compared(monkeypatch):
    layer = transom.layers.MultiHeadAttention(12, 3)
    with torch.no_grad():
        layer.W_V.weight[4:8] *= 40.0
    x = torch.randn(1, 5, 12)
    with transom.watch(layer) as trace:
        layer(x)
    monkeypatch.setattr("transom.lens.attribution.output_estimates.MAX_TOKENS", 4)
    monkeypatch.setattr("transom.lens.attribution.head_ranking.MAX_TOKENS_RERUN", 14)
    assert HeadRanker(layer.eval(), x, trace).rank().first == ("(model)", 1, CARRIES, 3)
    assert HeadRanker(None, None, trace).rank().first == ("(model)", 1, CARRIES, 3)
    sight = trace[0]
    moved = (sight.weights()[0] * sight.V[0].norm(dim=-1)[:, None]).sum(dim=(1, 2)) / 5
    assert list(weighted_value_norms(trace).values()) == pytest.approx(moved.tolist(), rel=1e-5)


def test_cross_attentions_are_preferred_if_there_are_any():
    trace = transom.Trace()
    for name in ("encoder.0", "decoder.0.self", "decoder.0.cross", "decoder.1.cross"):
        trace.add(name, transom.sight(*(torch.randn(1, 2, 3, 5) for _ in range(3))))
    assert preferred_layers(trace).names == ["decoder.0.cross", "decoder.1.cross"]
    assert preferred_layers(preferred_layers(trace)).names == ["decoder.0.cross", "decoder.1.cross"]
    alone = transom.Trace()
    alone.add("encoder.0", trace[0])
    assert preferred_layers(alone).names == ["encoder.0"]


# Arguments, and the error they raise.
WRONG = {
    "no edges": (
        {"edges": []},
        "effect got an empty list of edges; give at least one (layer, head, query, key), or leave it out",
    ),
    "a whole head": (
        {"edges": [(0, 1, None, None)]},
        "effect measures single edges (layer, head, query, key), but got (0, 1, None, None); use knock_out for several",
    ),
    "no such layer": (
        {"edges": [("stack.blocks.7.attention", 0, 0, 0)]},
        "layer 'stack.blocks.7.attention' should name one attention by its path, but none ran there; nearest are"
        " 'stack.blocks.1.attention', 'stack.blocks.0.attention'",
    ),
    "several layers": (
        {"edges": [("stack", 0, 0, 0)]},
        "layer 'stack' should name one attention by its path, but it could be 'stack.blocks.0.attention',"
        " 'stack.blocks.1.attention'",
    ),
    "no such head": (
        {"edges": [(0, 3, 0, 0)]},
        "there are heads=3, so 3 is none of them; count from 0 to 2, or back from -1",
    ),
    "no such key": (
        {"edges": [(0, 0, 0, 7)]},
        "there are keys=7, so 7 is none of them; count from 0 to 6, or back from -1",
    ),
    "no such token": (
        {"target": 19},
        "there are vocabulary=19, so 19 is none of them; count from 0 to 18, or back from -1",
    ),
    "no k": ({"k": 0}, "effect needs k of 1 or more, but got 0; 8 lists the eight strongest edges"),
    "how": (
        {"how": "during"},
        'how must be "before" or "after" the softmax, but got \'during\'; before lets other keys take over',
    ),
    "all positions": (
        {"output": lambda logits: logits},
        "output must give logits (batch, vocabulary) or a number per sequence (batch), but it gave (1, 7, 19); pick one"
        " position, as in lambda result: result.logits[:, -1]",
    ),
    "a token of a number": (
        {"output": lambda logits: logits[:, 0, 0], "target": 3},
        "target=3 names a token, but the output is one number; leave target out",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_measured_raises_an_error(kind, own_errors):
    kwargs, message = WRONG[kind]
    with pytest.raises(Misfit) as error:
        transom.effect(DECODER, (TOKENS,), **kwargs)
    assert str(error.value) == message


def test_inputs_that_do_not_fit_raise_an_error(own_errors):
    cases = {
        "effect takes a torch.nn.Module, but got str; give the model itself": ("GPT-2", TOKENS),
        "inputs are what the model is called with, a dict, a tuple or a tensor, but got str; a tokenizer gives them"
        " with return_tensors='pt'": (DECODER, "The cat sat"),
        "effect asks about one sequence, but 'stack.blocks.0.attention' has batch=2 and the output batch=2; give one,"
        " as in {name: x[:1] for name, x in inputs.items()}": (DECODER, TOKENS.repeat(2, 1)),
        "effect compares runs, but the model is training and draws dropout; call model.eval() first": (Plain(), ONE),
    }
    for message, args in cases.items():
        with pytest.raises(Misfit) as error:
            transom.effect(*args)
        assert str(error.value) == message
