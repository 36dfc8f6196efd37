"""What a notebook shows of a Sight, a Trace and a lesson, without being told how; and `show` in a terminal."""

import pytest
import torch
from show.samples import WORDS, sight, trace

import transom
from transom.lens import StatsOnlySight
from transom.lessons.lesson_file import load_shipped

THINGS = {"sight": sight, "trace": trace, "lesson": lambda: load_shipped(1), "glance": lambda: StatsOnlySight(sight())}


@pytest.mark.parametrize("name", THINGS)
def test_a_notebook_shows_it_static_and_offline(name):
    thing = THINGS[name]()
    found = thing._repr_mimebundle_()
    assert set(found) == {"text/plain", "text/html", "image/svg+xml"}
    assert found["text/plain"] == repr(thing)
    assert thing._repr_html_() == found["text/html"]
    assert "<script" not in found["text/html"]
    assert "://" not in found["text/html"].replace("http://www.w3.org/2000/svg", "")


def test_what_fits_is_drawn(capsys):
    sight().show()
    trace().show()
    load_shipped(1).show()
    titles = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith(" ")]
    assert "Where head 0 looks" in titles
    assert "6 heads at a glance" in titles
    assert "Three tokens, every number" in titles


def test_show_takes_a_view_and_its_options(capsys):
    trace().show("rows", head=2, rows=1)
    assert capsys.readouterr().out.splitlines()[0] == "Where “quick” looks: blocks.1.attention, head 2"


def test_what_did_not_make_its_output_is_said_and_not_drawn():
    Q, K, V = (torch.randn(1, 2, 5, 3) for _ in range(3))
    spoiled = transom.sight(Q, K, V)
    spoiled.output = spoiled.output + 1.0
    found = spoiled._repr_mimebundle_()
    assert list(found) == ["text/plain"]
    assert found["text/plain"].startswith(
        "Sight(batch=1, heads=2, queries=5, keys=5)\nthe weights should reproduce the model's output"
    )
    assert spoiled._repr_html_() is None


def test_nothing_to_draw_is_said():
    assert transom.Trace(list(WORDS))._repr_mimebundle_() == {
        "text/plain": "Trace(0 attentions: none)\n"
        "this Trace has no attention to draw; run the model inside `with transom.watch(model)`"
    }
