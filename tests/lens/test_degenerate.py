"""Attentions with an axis of size 0 or 1: all the numbers there are, and a plain word where there are none."""

import pytest
import torch

import transom
from transom.lens.attention.sight import StatsOnlySight
from transom.lens.trace import Trace
from transom.names import Misfit

SIZES = {"batch": 2, "heads": 6, "kv_heads": 3, "queries": 5, "keys": 5, "d_head": 7, "d_value": 11}
NAME = "layers.0.attention"
EMPTY = {
    **{axis: {**SIZES, axis: 0} for axis in ("batch", "heads", "queries", "keys", "d_head", "d_value")},
    "heads and kv_heads": {**SIZES, "heads": 0, "kv_heads": 0},
    "queries and keys": {**SIZES, "queries": 0, "keys": 0},
    "all": dict.fromkeys(SIZES, 0),
    "none, one of each": dict.fromkeys(SIZES, 1),
}
MASKS = {
    "plain": lambda sizes: {},
    "causal": lambda sizes: {"causal": True},
    "padding": lambda sizes: {"allowed": transom.padding(torch.zeros(sizes["keys"], dtype=torch.bool))},
}


def make_sight(sizes, mask="plain", **more):
    size = sizes.__getitem__
    Q = torch.randn(size("batch"), size("heads"), size("queries"), size("d_head"))
    K = torch.randn(size("batch"), size("kv_heads"), size("keys"), size("d_head"))
    V = torch.randn(size("batch"), size("kv_heads"), size("keys"), size("d_value"))
    return transom.sight(Q, K, V, **MASKS[mask](sizes), **more)


def make_trace(sight):
    trace = Trace([f"w{place}" for place in range(sight.statistics.received.shape[2])])
    trace.add(NAME, sight)
    return trace


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("empty", EMPTY)
def test_a_sight_of_nothing_has_all_its_numbers(empty, mask, at_once):
    sizes = EMPTY[empty]
    batch, heads, queries, keys = (sizes[axis] for axis in ("batch", "heads", "queries", "keys"))
    sight = make_sight(sizes, mask, at_once=at_once)
    for rows in (sight.lse, sight.entropy(), sight.peak(), sight.distance()):
        assert rows.shape == (batch, heads, queries)
    assert sight.received().shape == (batch, heads, keys)
    assert torch.allclose(sight.received().sum(), sight.weights().sum())
    top = sight.top(3)
    assert top.weights.shape == top.keys.shape == (batch, heads, queries, min(3, keys))
    assert top.mass.shape == (batch, heads, queries)
    assert sight.weights(head=slice(0, 2), rows=[], keys=slice(None, None, 2)).shape == (
        batch,
        min(2, heads),
        0,
        -(-keys // 2),
    )
    assert sight.scores().shape == (batch, heads, queries, keys)
    assert sight.receipt().holds
    assert sight.receipt(rows=1).holds


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("empty", EMPTY)
def test_a_trace_of_nothing_can_be_measured(empty, mask, tmp_path):
    sight = make_sight(EMPTY[empty], mask)
    heads = EMPTY[empty]["heads"]
    for kept in (sight, StatsOnlySight(sight)):
        trace = make_trace(kept)
        table = transom.heads(trace)
        assert len(table) == heads
        assert all(name in str(table) for name in ("confidence", "distance"))
        trace.save(tmp_path / f"{type(kept).__name__}.safetensors")
        assert len(transom.heads(Trace.load(tmp_path / f"{type(kept).__name__}.safetensors"))) == heads
    change = transom.diff(make_trace(sight), make_trace(sight))
    assert len(change.summary()) == heads
    assert all(one.change == 0.0 for one in change.strongest())


@pytest.mark.parametrize("empty", ["heads", "queries and keys", "d_value", "none, one of each"])
def test_a_path_through_nothing_stays_where_it_is(empty):
    tokens = EMPTY[empty]["queries"]
    found = transom.rollout(make_trace(make_sight(EMPTY[empty])), residual=0.25)
    assert found.keys.shape == (tokens, tokens)
    if empty == "none, one of each":
        assert found.keys.tolist() == [[1.0]]


NOWHERE = {
    "a map without keys": (
        lambda: make_sight(EMPTY["keys"]).map(0),
        "a map takes a run of keys, but there are keys=0; there is nothing to look at",
    ),
    "a map without heads": (
        lambda: make_sight(EMPTY["heads"]).map(0),
        "there are heads=0, so 0 is none of them; there is nothing to look at",
    ),
    "a row of none": (
        lambda: make_sight(EMPTY["queries"]).weights(rows=-1),
        "there are queries=0, so -1 is none of them; there is nothing to look at",
    ),
    "a path from no row to five keys": (
        lambda: transom.rollout(make_trace(make_sight(EMPTY["queries"]))),
        "each attention of the chain should see the whole target of 0 tokens, but 'layers.0.attention' sees 5; run the"
        " model once over all tokens, without a cache, or choose layers=…",
    ),
}
ASKED_WRONGLY = {
    "half a row": (
        lambda sight: sight.weights(rows=1.5),
        "queries are asked for by a number, a slice or a list of numbers, but got 1.5; count from 0",
    ),
    "a list with half a row": (
        lambda sight: sight.weights(rows=[0, 1.7]),
        "queries are asked for by whole numbers, but got 1.7; count from 0",
    ),
    "yes": (
        lambda sight: sight.weights(head=True),
        "heads are asked for by whole numbers, but got True; count from 0",
    ),
    "a list of yes and no": (
        lambda sight: sight.scores(keys=[True, False]),
        "keys are asked for by whole numbers, but got True; count from 0",
    ),
    "a word": (
        lambda sight: sight.weights(keys="31"),
        "keys are asked for by a number, a slice or a list of numbers, but got '31'; count from 0",
    ),
    "half a head's map": (
        lambda sight: sight.map(0.5),
        "heads are asked for by whole numbers, but got 0.5; count from 0",
    ),
    "half a cell": (
        lambda sight: sight.map(0, cells=2.5),
        "a map needs at least 1 cell a side, but got cells=2.5; 256 is a good picture",
    ),
    "half of the strongest": (
        lambda sight: sight.top(1.5),
        "top needs k of 1 or more, but got 1.5; top(8) lists the eight strongest keys of each row",
    ),
    "a receipt of no row": (
        lambda sight: sight.receipt(rows=0),
        "a receipt tries 1 row or more, but got rows=0; leave it out to try all of them",
    ),
    "a mask without its name": (
        lambda sight: transom.sight(sight.Q, sight.K, sight.V, transom.causal()),
        "at_once must be True or False, but got Causal; give masks and all else that attend takes by name:"
        " sight(Q, K, V, allowed=mask)",
    ),
}


@pytest.mark.parametrize("name", NOWHERE)
def test_where_there_is_nothing_it_says_so(name, own_errors):
    make, message = NOWHERE[name]
    with pytest.raises(Misfit) as error:
        make()
    assert str(error.value) == message


@pytest.mark.parametrize("name", ASKED_WRONGLY)
def test_what_is_no_number_is_never_taken_for_one(name, own_errors):
    ask, message = ASKED_WRONGLY[name]
    with pytest.raises(Misfit) as error:
        ask(make_sight(SIZES))
    assert str(error.value) == message


def test_a_place_may_be_a_number_of_numpy_or_torch(own_errors):
    sight = make_sight(SIZES)
    place = torch.tensor([3])
    for one in (place[0], place.numpy()[0]):
        assert torch.equal(sight.weights(rows=one), sight.weights(rows=3))
        assert torch.equal(sight.map(one).values, sight.map(3).values)


def test_statistics_of_another_sequence_have_no_distance_and_the_rest_is_told():
    sight = make_sight({**SIZES, "queries": 7})
    table = transom.heads(make_trace(StatsOnlySight(sight)))
    assert table[NAME, 2]["distance"] is None
    assert table[NAME, 2]["confidence"] == pytest.approx(float(sight.peak()[:, 2].mean()))


def test_a_row_of_the_table_by_name_or_by_number(own_errors):
    table = transom.heads(make_trace(make_sight(SIZES)))
    assert table[3] is table[NAME, 3] is table[-3] is table.rows[3]
    wrong = {
        6: "there are rows=6, so 6 is none of them; count from 0 to 5, or back from -1",
        -7: "there are rows=6, so -7 is none of them; count from 0 to 5, or back from -1",
        NAME: "a row is asked for by (layer, head) or by its number, but got 'layers.0.attention'; only(…) picks"
        " several",
        None: "a row is asked for by (layer, head) or by its number, but got None; only(…) picks several",
        1.5: "a row is asked for by (layer, head) or by its number, but got 1.5; only(…) picks several",
        (): "there is no head (); there are layers.0.attention",
    }
    for place, message in wrong.items():
        with pytest.raises(Misfit) as error:
            table[place]
        assert str(error.value) == message
