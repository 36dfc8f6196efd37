"""Rollout against whole matrices multiplied, flow against cuts found by trying all, both on chains of every kind."""

from itertools import product

import pytest
import torch

import transom
from transom.kernels import tiled_attention
from transom.lens.attention import record
from transom.lens.metrics.rollout import MOST_EDGES
from transom.lens.trace import Trace
from transom.names import Misfit

torch.manual_seed(41)
HEADS, TARGET, SOURCE = 3, 11, 7


def attention(queries, keys, **given):
    sizes = ((2, HEADS, queries, 5), (2, HEADS, keys, 5), (2, HEADS, keys, 2))
    Q, K, V = (2 * torch.randn(size).double() for size in sizes)
    return transom.sight(Q, K, V, **given)


def run(*named):
    trace = Trace()
    for name, sight in named:
        trace.add(name, sight)
    return trace


EMPTY = torch.rand(2, HEADS, TARGET, TARGET) < 0.7
EMPTY[:, :, 4] = False
DECODER = run(*((f"blocks.{layer}.attention", attention(TARGET, TARGET, causal=True)) for layer in range(4)))
ENCODER = run(*((f"blocks.{layer}.attention", attention(TARGET, TARGET)) for layer in range(3)))
HOLES = run(*((f"blocks.{layer}.attention", attention(TARGET, TARGET, allowed=EMPTY)) for layer in range(3)))
BOTH = run(
    ("encoder.0.attention", attention(SOURCE, SOURCE)),
    ("encoder.1.attention", attention(SOURCE, SOURCE)),
    ("decoder.0.self", attention(TARGET, TARGET, causal=True)),
    ("decoder.0.cross", attention(TARGET, SOURCE)),
    ("decoder.1.self", attention(TARGET, TARGET, causal=True)),
    ("decoder.1.cross", attention(TARGET, SOURCE)),
)
CHAINS = {"decoder": DECODER, "encoder": ENCODER, "empty rows": HOLES, "encoder–decoder": BOTH}


@pytest.fixture(params=[None, 40], ids=["one band", "many bands"])
def bands(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(record, "BLOCK_SCORES", request.param)
        monkeypatch.setattr(tiled_attention, "BLOCK_SCORES", request.param)


def mixed(weights, residual=0.5):
    """residual · I + (1 − residual) · A for a square A, what a row gives to no key on the diagonal."""
    return residual * torch.eye(len(weights)).double() + (1 - residual) * (weights + torch.diag(1 - weights.sum(dim=1)))


def by_matrices(trace, batch=0, heads=slice(None), residual=0.5):
    """Forward, all at once: what each token of each side is made of, as (tokens, target + source)."""
    side = {"target": torch.eye(TARGET, TARGET + SOURCE).double()}
    side["source"] = torch.eye(TARGET + SOURCE).double()[TARGET:]
    for name, sight in trace.items():
        weights = sight.weights(batch=batch)[heads].mean(dim=0)
        if name.endswith("cross"):
            side["target"] = residual * side["target"] + (1 - residual) * weights @ side["source"]
        else:
            own = "source" if name.startswith("encoder") else "target"
            side[own] = mixed(weights, residual) @ side[own]
    return side["target"]


@pytest.mark.parametrize("kind", CHAINS)
def test_rollout_is_the_product_of_whole_matrices(kind, bands):
    found = transom.rollout(CHAINS[kind])
    expected = by_matrices(CHAINS[kind])
    assert torch.allclose(found.keys, expected[:, :TARGET], atol=1e-12)
    assert found.rows == list(range(TARGET))
    assert found.layers == [name for name, _ in reversed(list(CHAINS[kind].items()))]
    total = found.keys.sum(dim=1)
    if kind == "encoder–decoder":
        assert torch.allclose(found.sources, expected[:, TARGET:], atol=1e-12)
        total = total + found.sources.sum(dim=1)
    else:
        assert found.sources is None
    assert torch.allclose(total, torch.ones(TARGET).double())


def test_asked_rows_heads_batch_and_residual_are_those_of_the_whole():
    found = transom.rollout(DECODER, rows=[3, -1], heads=[2, 0], batch=1, residual=0.25)
    expected = by_matrices(DECODER, 1, [2, 0], 0.25)[[3, TARGET - 1], :TARGET]
    assert torch.allclose(found.keys, expected, atol=1e-12)
    assert found.rows == [3, TARGET - 1]
    names = DECODER.names
    by_name = transom.rollout(DECODER, rows=-1, heads={name: 1 for name in names})
    assert torch.allclose(by_name.keys, transom.rollout(DECODER, rows=-1, heads=1).keys)
    few = transom.rollout(DECODER, layers=["blocks.0", "blocks.1"])
    assert few.layers == [names[1], names[0]]


def smallest_cut(trace, row, place):
    """The least capacity that parts a row from a token, over all ways to part the nodes between them."""
    layers = [mixed(sight.weights(batch=0).mean(dim=0)) for sight in trace]
    size, depth = len(layers[0]), len(layers)
    between = [(layer, node) for layer in range(1, depth) for node in range(size)]
    best = torch.inf
    for sides in product((True, False), repeat=len(between)):
        above = {(depth, row)} | {node for node, side in zip(between, sides, strict=True) if side}
        cut = sum(
            float(layers[layer - 1][i, j])
            for layer in range(1, depth + 1)
            for i in range(size)
            for j in range(size)
            if (layer, i) in above and (layer - 1, j) not in above and (layer > 1 or j == place)
        )
        best = min(best, cut)
    return best


@pytest.mark.parametrize("mask", [{}, {"causal": True}], ids=["encoder", "decoder"])
def test_flow_is_the_smallest_cut(mask):
    trace = run(*((f"{layer}", attention(4, 4, **mask)) for layer in range(3)))
    found = transom.flow(trace, rows=[0, -1])
    for line, row in enumerate(found.rows):
        for place in range(4):
            assert float(found.keys[line, place]) == pytest.approx(smallest_cut(trace, row, place), abs=1e-9)


def test_flow_through_an_encoder_decoder_reaches_the_source():
    found = transom.flow(BOTH)
    assert found.sources is not None
    assert found.keys.shape == (1, TARGET)
    assert found.sources.shape == (1, SOURCE)
    rolled = transom.rollout(BOTH, rows=-1)
    assert (found.sources >= rolled.sources - 1e-9).all(), "a product of shares never exceeds what could flow"
    assert (found.keys >= rolled.keys - 1e-9).all()
    assert float(found.keys.max()) <= 0.5 + 1e-9, "the last cross-attention lets half through to the targets"


def twice():
    sight = attention(5, 5)
    return run(("a", sight), ("a", sight))


MISTAKES = {
    "a share": (
        lambda: transom.rollout(DECODER, residual=1.5),
        "residual is a share from 0 to 1, but got 1.5; 0.5 weighs both alike",
    ),
    "a cache": (
        lambda: transom.rollout(twice()),
        "'a' ran 2 times, so the run is no chain of layers; run the model once over all tokens, without a cache",
    ),
    "a step of a cache": (
        lambda: transom.rollout(run(("a", attention(1, 5, causal=True)))),
        "each attention of the chain should see the whole target of 1 tokens, but 'a' sees 5; run the model once over"
        " all tokens, without a cache, or choose layers=…",
    ),
    "a layer that is not there": (
        lambda: transom.rollout(DECODER, layers="blocks.9"),
        "no attention ran in layer 'blocks.9'; nearest are 'blocks.3.attention', 'blocks.2.attention',"
        " 'blocks.1.attention'",
    ),
    "nothing": (
        lambda: transom.rollout(Trace()),
        "a chain of attentions needs one or more, but the trace holds none; watch a run first",
    ),
    "a large graph": (
        lambda: transom.flow(run(("a", attention(201, 201)))),
        f"flow is for small graphs of up to {MOST_EDGES} edges, but these 1 attentions have 40602; choose layers=… or a"
        " shorter text, or take rollout",
    ),
    "a head that is not there": (
        lambda: transom.rollout(DECODER, heads=5),
        "there are heads=3, so 5 is none of them; count from 0 to 2, or back from -1",
    ),
}


@pytest.mark.usefixtures("own_errors")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_said(mistake):
    act, message = MISTAKES[mistake]
    with pytest.raises(Misfit) as caught:
        act()
    assert str(caught.value) == message


def test_statistics_alone_are_not_enough(own_errors):
    layer = transom.layers.MultiHeadAttention(d_model=12, heads=3)
    with transom.watch(layer, keep="statistics") as trace:
        layer(torch.randn(1, 5, 12))
    with pytest.raises(Misfit) as caught:
        transom.rollout(trace)
    assert str(caught.value) == (
        "of '(model)' only statistics were kept, but its weights are needed; watch with keep='qkv'"
    )


def test_a_rollout_is_short_where_it_is_printed():
    assert repr(transom.rollout(BOTH)) == f"Rollout(rows={TARGET}, keys={TARGET}, sources={SOURCE}, layers=6)"
    assert repr(transom.rollout(DECODER, rows=[3])) == f"Rollout(rows=1, keys={TARGET}, layers=4)"
