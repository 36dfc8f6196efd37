"""Two runs subtracted, held to whole matrices; and what cannot be subtracted, said."""

import pytest
import torch

import transom
from transom.lens.attention import record
from transom.names import Misfit

torch.manual_seed(43)
TOKENS = ["the", "cat", "sat", "on", "a", "mat", "."]
MODEL = transom.models.Decoder(
    transom.models.DecoderConfig(vocabulary=23, d_model=12, heads=3, d_hidden=17, layers=2)
).eval()
IDS = torch.randint(4, 23, (2, 7))
NAMES = ["stack.blocks.0.attention", "stack.blocks.1.attention"]


def watched(ids=IDS, tokens=TOKENS, **named):
    with torch.no_grad(), transom.watch(MODEL, tokens=[tokens] * len(ids), **named) as trace:
        MODEL(ids)
    return trace


@pytest.fixture(scope="module")
def both():
    before = watched()
    with transom.knock_out(MODEL, layer=0, head=1):
        after = watched()
    return before, after


@pytest.fixture(params=[None, 40], ids=["one band", "many bands"])
def bands(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(record, "BLOCK_SCORES", request.param)


def test_weights_and_maps_are_the_difference(both):
    name = both[0].names[1]
    whole = both[1][name].weights() - both[0][name].weights()
    found = transom.diff(*both)
    assert found.names == both[0].names
    assert torch.equal(found.weights(name), whole)
    assert torch.equal(found.weights(name, head=2, rows=[1, -1], batch=1), whole[1, 2, [1, -1]])
    pooled = found.map(name, head=0, cells=3, pool="sum").values
    blocks = torch.nn.functional.pad(whole[0, 0], (0, 2, 0, 2)).unflatten(1, (3, 3)).unflatten(0, (3, 3))
    assert torch.allclose(pooled, blocks.sum(dim=(1, 3)), atol=1e-6)
    assert float(whole.abs().max()) > 1e-3, "the runs should differ"


def test_the_summary_tells_how_much_moved_and_the_largest_change(both, bands):
    table = transom.diff(*both).summary()
    assert str(transom.diff(*both)) == str(table)
    for name in both[0].names:
        whole = (both[1][name].weights() - both[0][name].weights()).double()
        moved = whole.abs().sum(dim=-1).mean(dim=(0, 2)) / 2
        for head in range(3):
            flat = whole[:, head].flatten()
            assert table[name, head]["moved"] == pytest.approx(float(moved[head]), abs=1e-9)
            assert table[name, head]["largest"] == pytest.approx(float(flat[flat.abs().argmax()]))


def test_the_strongest_changes_come_first(both, bands):
    found = transom.diff(*both).strongest(5)
    every = torch.cat([(both[1][name].weights() - both[0][name].weights()).flatten() for name in both[0].names])
    expected = every.abs().sort(descending=True).values[:5]
    assert [abs(one.change) for one in found] == pytest.approx(expected.tolist(), abs=1e-7)
    for one in found:
        for trace, weight in zip(both, (one.before, one.after), strict=True):
            assert weight == float(trace[one.layer].weights(one.batch, one.head, one.row, one.key))


def test_a_run_minus_itself_is_nothing(both):
    same = transom.diff(both[0], both[0])
    assert all(row["moved"] == row["largest"] == 0.0 for row in same.summary())


MISTAKES = {
    "other tokens": (
        lambda: transom.diff(watched(), watched(tokens=[*TOKENS[:-1], "!"])),
        "a difference is of the same tokens, but the two runs have others; give both the same text",
    ),
    "another length": (
        lambda: transom.diff(watched(), shorter()),
        f"'{NAMES[0]}' is (batch=2, heads=3, queries=7, keys=7) in the first run and (batch=2, heads=3, queries=5,"
        " keys=5) in the second; give both the same tokens",
    ),
    "other layers": (
        lambda: transom.diff(watched(), watched(layers=1)),
        f"a difference is of two runs of one model, but the first saw 2 attentions ('{NAMES[0]}', '{NAMES[1]}') and the"
        f" second 1 ('{NAMES[1]}'); watch both alike",
    ),
    "a maximum": (
        lambda: transom.diff(watched(), watched()).map(NAMES[0], 0, pool="max"),
        "a signed map is pooled by mean or sum, but got 'max'; a maximum has no sign",
    ),
    "none": (
        lambda: transom.diff(watched(), watched()).strongest(0),
        "strongest needs k of 1 or more, but got 0; 10 is a good look",
    ),
    "many runs": (
        lambda: transom.diff(often(), often()),
        "a difference is of runs in which each module ran once, but some ran often; run without a cache",
    ),
}


def shorter():
    with torch.no_grad(), transom.watch(MODEL) as trace:
        MODEL(IDS[:, :5])
    return trace


def often():
    with torch.no_grad(), transom.watch(MODEL) as trace:
        MODEL(IDS[:, :5])
        MODEL(IDS[:, :5])
    return trace


@pytest.mark.usefixtures("own_errors")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_said(mistake):
    act, message = MISTAKES[mistake]
    with pytest.raises(Misfit) as caught:
        act()
    assert str(caught.value) == message
