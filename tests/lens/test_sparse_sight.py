"""Attention in windows and blocks of long texts: a Sight of the weights that are not 0, without queries × keys."""

import pytest
import torch

import transom
from transom.equations.region import Region
from transom.equations.sparse_bias import SparseBias
from transom.lens.capture import value_probe
from transom.lens.capture.sparse_probe import ask_sparse_weights, colour_blocks
from transom.names import Misfit

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


def dense_to_sparse(dense):
    kept = dense != -torch.inf
    return SparseBias(dense[kept], kept.nonzero()[:, 3], kept.flatten(0, 2).sum(dim=-1).cumsum(0))


@pytest.mark.parametrize(
    "indices",
    [
        {},
        {"batch": slice(1, 2), "rows": slice(2, 6), "columns": slice(3, 9)},
        {"heads": torch.tensor([2, 0]), "columns": torch.tensor([8, 1, 8])},
        {"rows": torch.tensor([6]), "columns": slice(4, 4)},
    ],
)
def test_any_region_of_a_sparse_bias_is_that_of_its_dense_one(indices):
    torch.manual_seed(0)
    dense = torch.randn(2, 3, 7, 9).masked_fill(torch.rand(2, 3, 7, 9) < 0.7, -torch.inf)
    dense[0, 1, 3] = -torch.inf
    region = Region(tuple(dense.shape), device=CPU).narrow(**indices)
    bias = dense_to_sparse(dense)
    bias.check(tuple(dense.shape), CPU)
    assert torch.equal(bias.materialize(region), region.crop(dense))


@pytest.mark.parametrize(
    ("part", "value"), [("keys", torch.tensor([0, 9])), ("ends", torch.tensor([2, 1])), ("ends", torch.tensor([2]))]
)
def test_a_sparse_bias_that_does_not_fit_is_refused(part, value):
    parts = {"source": torch.zeros(2), "keys": torch.tensor([0, 1]), "ends": torch.tensor([1, 2]), part: value}
    with pytest.raises(Misfit, match="SparseBias"):
        SparseBias(**parts).check((1, 1, 2, 3), CPU)


@pytest.mark.parametrize("all_seen_by", [0, 3])
def test_keys_that_no_row_sees_together_are_asked_for_at_once(all_seen_by):
    torch.manual_seed(0)
    near = (torch.arange(300)[:, None] - torch.arange(300)).abs() < 7
    near[torch.arange(all_seen_by)] = True
    near[200] = False
    weights = torch.rand(1, 2, 300, 300) * near
    asked = []

    def ask(ones):
        asked.append(ones.shape[1])
        return weights @ ones

    found = ask_sparse_weights(ask, (1, 2, 300, 300), 8, weights)
    dense = torch.zeros(600, 300)
    dense[found.rows, found.keys] = found.weights
    assert torch.equal(dense.reshape(weights.shape), weights)
    assert sum(asked) < 100 or all_seen_by


def test_blocks_of_one_colour_share_no_row():
    torch.manual_seed(0)
    seen = torch.rand(50, 20) < 0.1
    colours = colour_blocks(seen)
    for colour in colours.unique():
        assert int(seen[:, colours == colour].sum(dim=1).max()) <= 1


def longformer(tokens, window):
    torch.manual_seed(0)
    config = transformers.LongformerConfig(**SIZES, attention_window=window, max_position_embeddings=tokens + 4)
    return transformers.LongformerModel(config).eval()


def own_weights(model, ids):
    """Longformer's own weights: (batch, heads, queries, distance from the first key of its window)."""
    weights = model(ids, output_attentions=True).attentions[0]
    return weights if weights.shape[2] == ids.shape[1] else weights.transpose(1, 2)


@pytest.mark.parametrize("tokens", [1024, pytest.param(16384, marks=pytest.mark.slow)])  # dense: 2 GiB
def test_longformer_is_seen_as_its_own_windows(tokens):
    window = 32
    model, ids = longformer(tokens, window), torch.randint(50, (1, tokens))
    with torch.no_grad():
        plain = model(ids).last_hidden_state
        with transom.watch(model) as trace:
            assert torch.equal(model(ids).last_hidden_state, plain)
        own = own_weights(model, ids)
    sight = trace[0]
    bias = sight.problem.bias
    assert isinstance(bias, SparseBias)
    assert sight.shape == (1, 2, tokens, tokens)
    assert not trace.unseen
    assert len(bias.source) <= 2 * tokens * (window + 1)
    for row in (0, 7, 500, tokens - 1):
        first = row - window // 2
        expected = torch.zeros(2, tokens)
        for place in range(window + 1):
            if 0 <= first + place < tokens:
                expected[:, first + place] = own[0, :, row, place]
        torch.testing.assert_close(sight.weights(batch=0, rows=row), expected)
    column = sight.weights(batch=0, head=1, keys=500)
    rows = torch.arange(500 - window // 2, 500 + window // 2 + 1)
    expected = torch.zeros(tokens)
    expected[rows] = own[0, 1, rows, 500 - rows + window // 2]
    torch.testing.assert_close(column, expected)
    assert sight.receipt(rows=16).holds
    top = sight.top(3)
    torch.testing.assert_close(top.weights[0, 0, 500], own[0, 0, 500].topk(3).values)
    torch.testing.assert_close(sight.received().sum(), torch.tensor(2.0 * tokens), rtol=1e-4, atol=0)


def test_a_sparse_sight_is_saved_and_mapped(tmp_path):
    model, ids = longformer(1024, 32), torch.randint(50, (1, 1024))
    with torch.no_grad(), transom.watch(model) as trace:
        model(ids)
    trace.save(tmp_path / "long.safetensors")
    again = transom.Trace.load(tmp_path / "long.safetensors")
    assert isinstance(again[0].problem.bias, SparseBias)
    assert torch.equal(again[0].weights(), trace[0].weights())
    assert torch.equal(again[0].entropy(), trace[0].entropy())
    blocks = trace[0].weights(batch=0, head=0).reshape(16, 64, 16, 64)
    assert torch.equal(again[0].map(0, cells=16).values, blocks.amax(dim=(1, 3)))
    assert (tmp_path / "long.safetensors").stat().st_size < 1024 * 1024 * 2 * 4 / 2


T5 = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 8, "num_layers": 1, "num_heads": 2, "local_radius": 4}
PEGASUS = {"vocab_size": 50, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
PEGASUS |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "block_size": 8}
LED = {**PEGASUS, "attention_window": 8, "max_encoder_position_embeddings": 64}
BIG_BIRD = {**SIZES, "block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 128}
MODELS = {
    "Longformer with a global token": lambda: longformer(64, 8),
    "LongT5, local": lambda: transformers.LongT5EncoderModel(transformers.LongT5Config(**T5)),
    "LongT5, global": lambda: transformers.LongT5EncoderModel(
        transformers.LongT5Config(**T5, encoder_attention_type="transient-global", global_block_size=8)
    ),
    "BigBird": lambda: transformers.BigBirdModel(transformers.BigBirdConfig(**BIG_BIRD)),
    "LED": lambda: transformers.LEDModel(transformers.LEDConfig(**LED)),
    "PegasusX": lambda: transformers.PegasusXModel(transformers.PegasusXConfig(**PEGASUS, num_global_tokens=2)),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_sparse_model_gives_the_same_weights_sparse_and_dense(name, monkeypatch):
    torch.manual_seed(0)
    model, ids = MODELS[name]().eval(), torch.randint(3, 50, (2, 64))
    options = {"decoder_input_ids": ids[:, :5]} if model.config.is_encoder_decoder and "T5" not in name else {}
    if "global token" in name:
        options["global_attention_mask"] = (torch.arange(64) < 1).long().expand(2, -1)
    traces = {}
    for dense in (0, 2**40):
        monkeypatch.setattr(value_probe, "DENSE_WEIGHTS", dense)
        with torch.no_grad(), transom.watch(model) as traces[dense]:
            model(ids, **options)
    sparse = [sight for sight in traces[0] if isinstance(sight.problem.bias, SparseBias)]
    assert sparse
    for one, other in zip(traces[0], traces[2**40], strict=True):
        assert torch.equal(one.weights(), other.weights())
        assert one.receipt().holds == other.receipt().holds
