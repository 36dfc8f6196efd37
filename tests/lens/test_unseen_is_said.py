"""What could not be seen is said wherever its absence would mislead: files, pictures, tables, knock-outs."""

import json

import pytest
import torch
from watched import Plain, Projecting, Stack

import transom
from transom.lens.unseen_attention import UnseenAttention
from transom.serve.session import Session
from transom.show import draw

torch.manual_seed(53)
X = torch.randn(3, 5, 14)
REASON = "its query, key and value projections ran, but no attention was seen under it"
NOTE = f"Not seen: 'layers.1' (Projecting): {REASON}."


@pytest.fixture
def model():
    return Stack(Plain(is_causal=True), Projecting()).eval()


@pytest.fixture
def trace(model):
    with torch.no_grad(), transom.watch(model, tokens=[list("abcde")], unseen="allow") as trace:
        model(X[:1])
    return trace


def test_a_saved_trace_and_its_repr_say_it(trace, tmp_path):
    trace.save(tmp_path / "run.safetensors")
    again = transom.Trace.load(tmp_path / "run.safetensors")
    assert again.unseen == trace.unseen == [UnseenAttention("layers.1", "Projecting", REASON, "strong")]
    assert repr(again) == "Trace(1 attentions: 'layers.0'; 1 unseen: 'layers.1')"
    assert trace.stitched().unseen == trace.unseen


@pytest.mark.parametrize("view", ["heads", "matrix", "arrows"])
def test_every_picture_of_the_run_says_it(trace, view):
    picture = draw(view, trace)
    assert picture.notes[-1] == NOTE
    assert "Not seen" in picture.svg()
    assert "Not seen" in picture.html()
    if view == "matrix":
        assert draw(view, trace[0]).notes[-1] == NOTE, "one attention alone says it too"


def test_heads_rollout_and_effect_say_it(trace, model):
    table = transom.heads(trace)
    assert str(table).splitlines()[-1] == NOTE
    assert json.loads(table.sorted("entropy", most=1).json())["unseen"] == NOTE
    rollout = transom.rollout(trace)
    assert rollout.unseen == tuple(trace.unseen)
    assert repr(rollout) == f"Rollout(rows=5, keys=5, layers=1. {NOTE})"
    effects = transom.effect(model, X[:1], [(0, 1, 4, 2)], output=lambda result: result[:, 4].norm(dim=-1))
    assert effects.notes[-1] == NOTE


def test_the_page_says_it(trace):
    run = Session(trace=trace, name="a model").run("1").to_dict()
    assert run["note"] == NOTE
    assert run["unseen"] == [vars(one) for one in trace.unseen]
    assert len(trace.page().html) > 0


def test_a_knock_out_that_cannot_reach_it_raises_an_error(model, own_errors):
    with pytest.raises(transom.Misfit) as caught, transom.knock_out(model, key=0):
        model(X)
    assert str(caught.value) == (
        f"edges were to be knocked out of attention that could not be reached: 'layers.1' (Projecting): {REASON}; name"
        " the layers that you mean with layer=…"
    )
    with transom.knock_out(model, layer=0, key=0):
        model(X)


def test_a_model_of_which_nothing_is_seen_has_no_effects(own_errors):
    model = Stack(Projecting()).eval()
    with pytest.raises(
        transom.Misfit, match=r"^attention ran that could not be captured: 'layers\.0' \(Projecting\): "
    ):
        transom.effect(model, X, output=lambda result: result[:, 4].norm(dim=-1))
