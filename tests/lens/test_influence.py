"""`influence`: exact where the rest of a model is linear, slopes in float64 elsewhere, and beside true knock-outs."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from watched import Plain, Stack

import transom
from transom import Misfit
from transom.models import Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig

torch.manual_seed(71)
HOW = ["before", "after"]


class LinearRest(nn.Module):
    """Attention of four heads over two of keys and values, then one linear map: the first order is exact."""

    def __init__(self, heads=4, kv_heads=2, queries=5, keys=7):
        super().__init__()
        torch.manual_seed(73)
        self.Q = nn.Parameter(torch.randn(1, heads, queries, 3))
        self.K, self.V = (nn.Parameter(torch.randn(1, kv_heads, keys, 3)) for _ in range(2))
        self.readout = nn.Linear(heads * queries * 3, 11)
        self.softcap, self.causal = None, queries == keys

    def forward(self, x):
        parts = (part.expand(len(x), *part.shape[1:]) for part in (self.Q, self.K, self.V))
        return self.readout(transom.attend(*parts, causal=self.causal, softcap=self.softcap).flatten(1))


ONE = torch.zeros(1, 1)
NAME = "(model)"


def every_edge(model):
    with torch.no_grad(), transom.watch(model) as trace:
        model(ONE)
    return [(NAME, *edge) for edge in (trace[0].weights()[0] > 0).nonzero().tolist()], trace[0]


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("how", HOW)
def test_every_edge_is_its_effect_where_all_that_follows_is_linear(how, softcap):
    model = LinearRest().eval()
    model.softcap = softcap
    edges, _ = every_edge(model)
    found, table = transom.influence(model, ONE, how=how), transom.effect(model, ONE, edges, how=how)
    assert (found.value, found.target, found.names) == (pytest.approx(table.value), table.target, [NAME])
    for row in table:
        estimate = found[NAME].edges(batch=0, head=row.head, rows=row.query, keys=row.key)
        assert float(estimate) == pytest.approx(row.change, abs=2e-6), row
    assert len(edges) == 4 * 5 * 7


@pytest.mark.parametrize("how", HOW)
def test_an_output_that_is_a_number_is_explained_too(how):
    model = LinearRest().eval()
    output = lambda logits: logits[:, 3] - logits[:, 8]  # noqa: E731
    found = transom.influence(model, ONE, output, how=how)
    (row,) = transom.effect(model, ONE, [(NAME, 2, 4, 1)], output, how=how)
    assert found.target is None
    assert float(found[NAME].edges(0, 2, 4, 1)) == pytest.approx(row.change, abs=2e-6)
    assert found.describe_unit() == f"change of the output, {found.value:.4f}; knocked out {how} the softmax"


@pytest.mark.parametrize("how", HOW)
def test_heads_and_sets_of_keys_are_their_knock_outs_where_all_that_follows_is_linear(how):
    model = LinearRest().eval()
    found = transom.influence(model, ONE, how=how)
    table = found.heads(refine=3)
    assert [abs(row.estimate) for row in table] == sorted((abs(row.estimate) for row in table), reverse=True)
    assert [row.change for row in table][:3] == pytest.approx([row.estimate for row in table][:3], abs=2e-6)
    assert table[3].change is None
    spans = [(0, 2), range(2, 6), [1, 4, -1], slice(0, 7)]
    changes = found[NAME].spans(spans)
    assert changes.shape == (1, 4, 5, 4)
    baseline = float(model(ONE)[0, found.target].detach())
    for number, keys in enumerate([[0, 1], [2, 3, 4, 5], [1, 4, 6], list(range(7))]):
        for head, query in ((0, 0), (1, 4), (3, 2)):
            with torch.no_grad(), transom.knock_out(model, NAME, head, query, keys, how=how):
                change = float(model(ONE)[0, found.target]) - baseline
            assert float(changes[0, head, query, number]) == pytest.approx(change, abs=2e-6)
    if how == "before":
        assert not torch.allclose(changes[..., 0], found[NAME].edges(keys=[0, 1]).sum(dim=-1), atol=1e-3)


def test_a_weight_of_nearly_one_is_computed_from_the_other_keys():
    model = LinearRest(queries=7).eval()
    with torch.no_grad():
        model.Q[0, 1, 6], model.K[0, 0, 2] = torch.tensor([9.0, 0.0, 0.0]), torch.tensor([5.0, 0.0, 0.0])
    edges, sight = every_edge(model)
    assert float(sight.weights(0, 1, 6, 2)) > 1.0 - 1e-5
    found = transom.influence(model, ONE)
    whole = found[NAME].edges()
    for row in transom.effect(model, ONE, edges):
        assert float(whole[0, row.head, row.query, row.key]) == pytest.approx(row.change, rel=2e-4, abs=4e-6), row
    assert found[NAME].near_one == int((sight.weights() > 0.9).sum()) >= 5
    # A part of a row does not see the other keys, and gives the same.
    part = found[NAME].edges(head=[3, 1], rows=slice(2, 7), keys=[2, 5])
    assert torch.allclose(part, whole[:, [3, 1]][:, :, 2:][..., [2, 5]], atol=1e-6)
    single = found[NAME].spans([[2], [6]])
    assert torch.allclose(single, whole[..., [2, 6]], rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize("how", HOW)
def test_tops_maps_and_sums_are_those_of_all_edges(how, engine, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", engine)
    found = transom.influence(LinearRest(queries=7).eval(), ONE, how=how)[NAME]
    whole = found.edges()
    top = found.top(3)
    assert torch.allclose(top.changes.abs(), whole.abs().topk(3, dim=-1).values, atol=1e-6)
    assert torch.equal(top.keys == -1, top.changes == 0.0)
    assert torch.allclose(whole.gather(-1, top.keys.clamp_min(0))[top.keys >= 0], top.changes[top.keys >= 0], atol=1e-6)
    assert torch.allclose(found.per_key(), whole.sum(dim=-2), atol=1e-5)
    assert torch.allclose(found.per_row(), whole.sum(dim=-1), atol=1e-5)
    for pool in ("max", "sum", "mean"):
        pooled = found.map(2, cells=3, pool=pool, rows=slice(1, 7), keys=slice(0, 5))
        assert (pooled.rows, pooled.keys, pooled.cell, pooled.pool) == ((1, 7), (0, 5), (2, 2), pool)
        for row in range(3):
            for column in range(3):
                cell = whole[0, 2, 1 + 2 * row : 3 + 2 * row, 2 * column : min(2 * column + 2, 5)].flatten()
                expected = {"max": cell[cell.abs().argmax()], "sum": cell.sum(), "mean": cell.mean()}[pool]
                assert float(pooled.values[row, column]) == pytest.approx(float(expected), abs=1e-6)


CONFIG = {"d_model": 12, "heads": 3, "d_hidden": 23}
DECODER = Decoder(DecoderConfig(vocabulary=19, layers=2, kv_heads=1, positions="rotary", d_head=4, **CONFIG)).eval()
PAIR = EncoderDecoder(EncoderDecoderConfig(vocabulary=19, encoder_layers=2, decoder_layers=2, **CONFIG)).eval()
TOKENS, TARGETS = torch.randint(3, 19, (1, 7)), torch.randint(3, 19, (1, 5))


def moved_output(sight, head, query, key, how):
    """output without an edge − output, of one head and row, by loops in float64."""
    weights, V = sight.weights(0, head, query).tolist(), sight.V[0, head // sight.problem.group].double()
    left = [0.0 if k == key else weight for k, weight in enumerate(weights)]
    total = sum(left) if how == "before" else 1.0
    before, after = (
        sum(weight * V[k] for k, weight in enumerate(some))
        for some in (weights, [w / total if total else 0.0 for w in left])
    )
    return after - before


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["decoder", "pair"])
def test_an_estimate_is_the_slope_along_what_the_edge_moves(kind, how):
    """Against a finite difference in float64: a hook moves the head's output a little of the way."""
    model, inputs = (DECODER, (TOKENS,)) if kind == "decoder" else (PAIR, (TOKENS, TARGETS))
    model = type(model)(model.config).double().eval()
    found = transom.influence(model, inputs, how=how)
    for name in found.names:
        sight, gap = found[name].sight, 1e-4
        for head, query, key in ((0, 1, 0), (1, sight.shape[2] - 1, 2), (2, 3, 3)):
            moved, values = moved_output(sight, head, query, key, how), []
            for step in (-gap, gap):

                def move(module, args, head=head, query=query, moved=moved, step=step):
                    heads = args[0].clone()
                    heads[0, query, 4 * head : 4 * head + 4] += step * moved
                    return (heads,)

                handle = model.get_submodule(name).W_O.register_forward_pre_hook(move)
                with torch.no_grad():
                    values.append(float(model(*inputs)[0, -1, found.target]))
                handle.remove()
            slope = (values[1] - values[0]) / (2 * gap)
            assert float(found[name].edges(0, head, query, key)) == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_first_order_is_near_the_truth_for_small_steps():
    """Parameters of half the size: softmaxes and norms bend less, and estimates come close to knock-outs."""
    model = Decoder(DecoderConfig(vocabulary=19, layers=2, **CONFIG)).eval()
    with torch.no_grad():
        for block in model.stack.blocks:
            block.attention.W_O.weight.mul_(0.05)
    agreement = transom.influence(model, TOKENS).agreement(samples=40, seed=3)
    assert agreement.pearson > 0.999
    assert agreement.rank > 0.98
    assert agreement.top_found >= 9


X = torch.randn(1, 5, 14)


@pytest.mark.parametrize("batch_first", [True, False])
def test_pytorchs_layer_is_the_same_with_and_without_its_weights(batch_first):
    class Layers(nn.Module):
        def __init__(self, need_weights):
            super().__init__()
            torch.manual_seed(79)
            self.layers = nn.ModuleList(nn.MultiheadAttention(14, 2, batch_first=batch_first) for _ in range(2))
            self.need_weights = need_weights

        def forward(self, x):
            x = x if batch_first else x.transpose(0, 1)
            for layer in self.layers:
                x = x + layer(x, x, x, need_weights=self.need_weights)[0]
            return (x if batch_first else x.transpose(0, 1)).square()

    with_weights, without = (transom.influence(Layers(needed).eval(), X) for needed in (True, False))
    assert with_weights.names == without.names == ["layers.0", "layers.1"]
    for name in without.names:
        assert torch.allclose(with_weights[name].edges(), without[name].edges(), atol=1e-6)
        assert without[name].edges().abs().max() > 1e-3


def test_pytorchs_fast_path_which_has_no_gradient_is_off_and_on_again():
    layer = nn.TransformerEncoderLayer(14, 2, 23, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    found = transom.influence(model, X, lambda hidden: hidden[:, 2, 3])
    assert found.names == ["layers.0.self_attn", "layers.1.self_attn"]
    assert torch.backends.mha.get_fastpath_enabled()
    rows = found.agreement(30, seed=1)
    assert rows.rank > 0.8
    assert found["layers.0.self_attn"].edges().abs().max() > 1e-3


class OverwritingOutput(Plain):
    def forward(self, x):
        out = F.scaled_dot_product_attention(*self.project(x))
        result = out * 1.0
        out.fill_(7.0)
        return result.transpose(1, 2).flatten(2)


def test_a_model_that_overwrites_its_attention_is_followed_if_it_can_be():
    expected, found = (transom.influence(Stack(seeded(kind, 3)).eval(), X) for kind in (Plain, OverwritingOutput))
    assert torch.allclose(expected["layers.0"].edges(), found["layers.0"].edges(), atol=1e-6)
    # PyTorch's kernel keeps its output for its own gradient, so no one can differentiate this one.
    message = (
        "influence needs the gradient of the output, but PyTorch cannot compute it: one of the variables needed for"
        " gradient computation has been modified by an inplace operation: .*; use effect, which needs none"
    )
    with pytest.raises(Misfit, match=message):
        transom.influence(Stack(seeded(OverwritingOutput, 3), seeded(OverwritingOutput, 4)).eval(), X)


def seeded(kind, seed):
    torch.manual_seed(seed)
    return kind()


def test_parameters_stay_as_they_were_and_frozen_ones_change_nothing():
    found = transom.influence(DECODER, TOKENS)["stack.blocks.0.attention"].edges()
    next(DECODER.parameters()).requires_grad_(False)
    assert torch.equal(transom.influence(DECODER, TOKENS)["stack.blocks.0.attention"].edges(), found)
    with torch.inference_mode():
        assert torch.equal(transom.influence(DECODER, TOKENS)["stack.blocks.0.attention"].edges(), found)
    assert [parameter.requires_grad for parameter in DECODER.parameters()].count(False) == 1
    next(DECODER.parameters()).requires_grad_(True)
    with pytest.raises(Misfit):
        transom.influence(DECODER, torch.full((1, 3), 99))
    assert all(parameter.requires_grad and parameter.grad is None for parameter in DECODER.parameters())


def test_bfloat16_is_near_float32_and_its_gradients_are_float32():
    torch.manual_seed(83)
    narrow = Decoder(DECODER.config).to(torch.bfloat16).eval()
    wide = Decoder(DECODER.config).eval()
    wide.load_state_dict({name: x.float() for name, x in narrow.state_dict().items()})
    found, expected = (transom.influence(model, TOKENS, target=5) for model in (narrow, wide))
    for name in found.names:
        assert found[name].gradient.dtype == torch.float32
        assert found[name].edges().dtype == torch.float32
        largest = float(expected[name].edges().abs().max())
        assert torch.allclose(found[name].edges(), expected[name].edges(), atol=0.05 * largest)


def test_what_is_masked_cannot_leak():
    model = LinearRest(queries=7).eval()
    with torch.no_grad():
        model.V[0, :, 6] = math.nan
    found = transom.influence(model, ONE, lambda logits: logits.nan_to_num()[:, 0], how="before")
    assert found[NAME].edges(rows=slice(0, 6)).isfinite().all()
    assert found[NAME].edges(rows=slice(0, 6))[..., 6].eq(0.0).all()


@pytest.mark.parametrize("how", HOW)
def test_sources_are_knock_outs_of_all_layers_by_rows_outside_them(how):
    found = transom.influence(DECODER, TOKENS, how=how)
    table = found.sources({"start": (0, 2), "middle": [2, 4], "end": (5, 7)})
    baseline = float(DECODER(TOKENS)[0, -1, found.target].detach())
    rows = {row.name: row for row in table}
    assert (rows["middle"].first, rows["middle"].last) == (2, 4)
    for name, keys in {"start": [0, 1], "middle": [2, 4]}.items():
        outside = [query for query in range(7) if query not in keys]
        with torch.no_grad(), transom.knock_out(DECODER, query=outside, key=keys, how=how):
            change = float(DECODER(TOKENS)[0, -1, found.target]) - baseline
        assert rows[name].change == pytest.approx(change, abs=1e-6)
        mass = sum(float(some.sight.weights(0, rows=-1, keys=keys).sum()) for some in found) / 6
        assert rows[name].mass == pytest.approx(mass, abs=1e-6)
        estimate = sum(float(some.spans([keys])[0][:, outside].sum()) for some in found)
        assert rows[name].estimate == pytest.approx(estimate, abs=1e-6)
    assert (rows["end"].estimate, rows["end"].change) == (0.0, 0.0), "no later row reads it"
    sizes = [abs(row.change) for row in table]
    assert sizes == sorted(sizes, reverse=True)
    assert [row.change is None for row in found.sources([(0, 2), (2, 5)], refine=1)] == [False, True]


def test_sources_of_an_encoder_decoder_are_its_source_tokens():
    found = transom.influence(PAIR, (TOKENS, TARGETS), tokens=[*"ab.cd. e"[:7]], targets=[*"vwxyz"])
    (row,) = found.sources([(1, 3)])
    outside = [0, 3, 4, 5, 6]
    edges = [("encoder", None, outside, [1, 2]), ("decoder.blocks.*.cross", None, None, [1, 2])]
    with torch.no_grad():
        baseline = float(PAIR(TOKENS, TARGETS)[0, -1, found.target])
        with transom.knock_out(PAIR, edges=edges):
            change = float(PAIR(TOKENS, TARGETS)[0, -1, found.target]) - baseline
    assert row.change == pytest.approx(change, abs=1e-6)
    crosses = [found[name].sight.weights(0, rows=-1, keys=[1, 2]).sum() for name in found.names if "cross" in name]
    assert row.mass == pytest.approx(float(sum(crosses)) / 6, abs=1e-6)


def test_passages_are_cut_out_of_the_tokens():
    tokens = ["It", "Ġis", "Ġ3", ".", "5", ".", "ĠWhy", "?", '"', "ĠNo", "Ċ", "Ċ", "End"]
    model = Decoder(DecoderConfig(vocabulary=19, layers=1, **CONFIG)).eval()
    found = transom.influence(model, torch.randint(3, 19, (1, 13)), tokens=tokens)
    by = {
        kind: {(row.first, row.last): row.name for row in found.sources(kind)} for kind in ("sentences", "paragraphs")
    }
    assert by["sentences"] == {(0, 5): "0: It is 3.5.", (6, 8): '1: Why?"', (9, 11): "2: No", (12, 12): "3: End"}
    assert by["paragraphs"] == {(0, 11): '0: It is 3.5. Why?" No', (12, 12): "1: End"}
    chat = ["<|im_start|>", "user", "Hi", "<|im_end|>", "<|im_start|>", "bot"]
    found = transom.influence(model, torch.randint(3, 19, (1, 6)), tokens=chat)
    assert {(row.first, row.last) for row in found.sources("turns")} == {(0, 3), (4, 5)}


def test_agreement_is_measured_on_edges_that_reach_the_number_the_same_ones_for_a_seed():
    found = transom.influence(DECODER, TOKENS)
    agreement, done = found.agreement(samples=20, seed=4), []
    assert agreement.rows == found.agreement(samples=20, seed=4, progress=lambda *at: done.append(at)).rows
    assert done[-1] == (20, 20)
    assert agreement.rows != found.agreement(samples=20, seed=5).rows
    edges = [(row.layer, row.head, row.query, row.key) for row in agreement.rows]
    assert len(set(edges)) == 20
    for row, effect in zip(agreement.rows, transom.effect(DECODER, TOKENS, edges, gradient=False), strict=True):
        assert (row.weight, row.change) == (pytest.approx(effect.weight), pytest.approx(effect.change, abs=1e-5))
        assert row.weight > 0
        assert row.layer == "stack.blocks.0.attention" or row.query == 6, "other rows of the last layer reach nothing"
    estimates, changes = (
        torch.tensor([getattr(row, name) for row in agreement.rows]) for name in ("estimate", "change")
    )
    assert agreement.pearson == pytest.approx(float(torch.corrcoef(torch.stack([estimates, changes]))[0, 1]), abs=1e-5)
    worst = max(agreement.rows, key=lambda row: abs(row.estimate - row.change))
    assert agreement.worst == worst
    small = torch.tensor([row.weight for row in agreement.rows]) <= 0.9
    assert 2 < small.sum() < 20, "the first row has one key, with all the weight"
    without = float(torch.corrcoef(torch.stack([estimates[small], changes[small]]))[0, 1])
    assert agreement.pearson_of_small_steps == pytest.approx(without, abs=1e-5)
    assert agreement.summary() == (
        f"estimates beside 20 true knock-outs: Pearson {agreement.pearson:.3f} ({without:.3f} of the {small.sum()} with"
        f" up to 0.9 of a row's weight), rank {agreement.rank:.3f}, at worst {worst.estimate:+.4f} for"
        f" {worst.change:+.4f}; {agreement.near_one} edges have over 0.9 of a row's weight"
    )
    assert agreement.to_dict()["samples"] == 20


def test_the_strongest_edges_are_those_of_all_attentions():
    found = transom.influence(DECODER, TOKENS)
    table = found.strongest(5, refine=2)
    every = torch.cat([attention.edges().flatten() for attention in found]).abs().topk(5).values
    assert [abs(row.estimate) for row in table] == pytest.approx(every.tolist(), abs=1e-6)
    (first, *_) = table
    (effect,) = transom.effect(DECODER, TOKENS, [(first.layer, first.head, first.query, first.key)])
    assert (first.weight, first.change) == (pytest.approx(effect.weight), pytest.approx(effect.change, abs=1e-5))
    assert [row.change is None for row in table] == [False, False, True, True, True]
    assert str(table).splitlines()[0].split() == ["layer", "head", "query", "key", "weight", "estimate", "change"]
    assert str(table).splitlines()[-1] == found.describe_unit()
    assert table.csv().splitlines()[0] == "layer,head,query,key,weight,estimate,change"
    assert table.to_dict()["rows"][0]["key"] == first.key


class ByHand(nn.Module):
    """Attention whose softmax alone is seen."""

    def __init__(self):
        super().__init__()
        self.attention = SoftmaxAttention()

    def forward(self, x):
        return self.attention(x)


class SoftmaxAttention(Plain):
    def forward(self, x):
        Q, K, V = self.project(x)
        return (torch.softmax(Q @ K.mT, dim=-1) @ V).transpose(1, 2).flatten(2)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.attention = Plain(), SoftmaxAttention()

    def forward(self, x):
        return self.attention(self.seen(x))


def test_attention_without_values_is_left_out_and_said():
    found = transom.influence(Mixed().eval(), X)
    assert found.names == ["seen"]
    assert found.unseen == {"attention": "its output could not be followed to the result"}
    assert found.describe_unit().endswith(
        "the softmax; left out: of 'attention' its output could not be followed to the result"
    )
    with pytest.raises(Misfit) as error:
        found["attention"]
    assert str(error.value) == (
        "the influence of 'attention' is not known: its output could not be followed to the result; use effect for"
        " single edges"
    )


FOUND = transom.influence(DECODER, TOKENS)
WRONG = {
    "influence asks about one sequence, but 'stack.blocks.0.attention' has batch=2 and the output batch=2; give one,"
    " as in {name: x[:1] for name, x in inputs.items()}": lambda: transom.influence(DECODER, TOKENS.repeat(2, 1)),
    "influence compares runs, but the model is training and draws dropout; call model.eval() first": lambda: (
        transom.influence(Plain(), X)
    ),
    "influence takes a torch.nn.Module, but got str; give the model itself": lambda: transom.influence("GPT-2", X),
    'how must be "before" or "after" the softmax, but got \'during\'; before lets other keys take over': lambda: (
        transom.influence(DECODER, TOKENS, how="during")
    ),
    "influence follows gradients from the output to attention, but none leads there; let output return what the model"
    " computed, without detach or no_grad": lambda: transom.influence(DECODER, TOKENS, lambda x: x[:, -1].detach()),
    "influence needs values and gradients of attention, but of 'attention' its output could not be followed to the"
    " result; use effect, which"
    " runs the model without each edge": lambda: transom.influence(ByHand().eval(), X),
    "no attention ran in 'stack.blocks.2.attention'; nearest are 'stack.blocks.1.attention',"
    " 'stack.blocks.0.attention'": lambda: FOUND["stack.blocks.2.attention"],
    "top needs k of 1 or more, but got 0; top(8) lists eight keys of each row": lambda: FOUND[FOUND.names[0]].top(0),
    "refine must be 0 or more, but got -1; 8 runs the model without each of eight": lambda: FOUND.heads(refine=-1),
    "spans are a list of sets of keys, but got (0, 5); [(0, 5)] is the first five keys": lambda: FOUND[
        FOUND.names[0]
    ].spans((0, 5)),
    "a span is (first, one past the last), a range, a slice or a list of keys among keys=7, but got (3, 3); (0, 5) is"
    " the first five keys": lambda: FOUND.sources([(3, 3)]),
    "there are keys=7, so 7 is none of them; count from 0 to 6, or back from -1": lambda: FOUND.sources([(3, 8)]),
    "spans are given, or 'sentences' or 'paragraphs' or 'turns' of the tokens, but got 'sentences' and no tokens;"
    " influence(…, tokens=…) knows the text": lambda: FOUND.sources("sentences"),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_told_raises_an_error(message, own_errors):
    with pytest.raises(Misfit) as error:
        WRONG[message]()
    assert str(error.value) == message


def test_the_sum_over_a_row_after_the_softmax_is_the_head_without_it():
    found = transom.influence(DECODER, TOKENS, how="after")
    for attention in found:
        assert torch.allclose(attention.per_row().sum(dim=-1), attention.per_head(), atol=1e-5)


def test_a_dropout_of_the_models_own_is_refused():
    class Dropping(Plain):
        def forward(self, x):
            heads = F.scaled_dot_product_attention(*self.project(x), dropout_p=0.3)
            return heads.transpose(1, 2).flatten(2)

    with pytest.raises(Misfit, match="but of '\\(model\\)' dropout fell on its weights; use effect"):
        transom.influence(Dropping().eval(), X)
