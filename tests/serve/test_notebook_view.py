"""The page in a notebook: what can be chosen from Python, and what is said without anywidget."""

import sys

import pytest
from serve.client import small_trace

from transom.names import Misfit
from transom.serve import notebook_view
from transom.serve.notebook_view import NO_WIDGET, AttentionSize, NotebookView, Selection
from transom.serve.offline_page import OfflinePage, page_of
from transom.serve.session import NO_TOKENS, Session

SIZES = [AttentionSize("a.0", 3, 5, 7), AttentionSize("a.1", 2, 5, 7)]


class PlainWidget:
    """What a view needs of a widget, without a notebook."""

    def __init__(self, chosen):
        self.chosen, self.callbacks = chosen, []

    def observe(self, callback, names):
        assert names == "chosen"
        self.callbacks.append(callback)

    def change(self, **chosen):
        """As the page does it."""
        self.chosen = {**self.chosen, **chosen}
        for callback in self.callbacks:
            callback(None)


@pytest.fixture
def view(monkeypatch):
    monkeypatch.setattr(notebook_view, "build_widget", lambda view, chosen: PlainWidget(chosen))
    return NotebookView(OfflinePage("<p>"), SIZES, Selection("a.1", 1))


def test_what_is_chosen_on_the_page_is_read_in_python(view):
    heard = []
    view.on_select(heard.append)
    assert view.selection == Selection("a.1", 1)
    view.widget.change(attention=0, head=2, row=4, key=6)
    assert view.selection == Selection("a.0", 2, 4, 6)
    assert heard == [view.selection]


def test_python_chooses_on_the_page(view):
    assert view.select(row=3, key=-1) == Selection("a.1", 1, 3, 6)
    assert view.widget.chosen == {"attention": 1, "head": 1, "row": 3, "key": 6}
    assert view.select(attention="a.0") == Selection("a.0", 0)
    assert view.select(row=None) == Selection("a.0", 0)


@pytest.mark.parametrize("wanted", [{"attention": "a.2"}, {"head": 2}, {"row": 5}, {"key": 7}, {"row": "x"}])
def test_what_is_not_there_cannot_be_chosen(view, wanted):
    before = view.selection
    with pytest.raises(Misfit):
        view.select(**wanted)
    assert view.selection == before


def test_without_anywidget_a_frame_is_shown_and_says_how(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    view = NotebookView(OfflinePage("<p>"), SIZES, Selection("a.0", 0))
    assert "transom[notebook]" in repr(view)
    with pytest.raises(Misfit) as caught:
        view.select(head=1)
    assert str(caught.value) == NO_WIDGET


def test_a_page_knows_its_attentions_and_one_without_tokens_says_how_to_name_them():
    page = page_of(small_trace(["the", "cat", "sat"]))
    assert [(one.name, one.heads, one.queries) for one in page.attentions] == [
        ("blocks.0.attention", 3, 3),
        ("blocks.1.attention", 3, 3),
    ]
    unnamed = small_trace(["a", "b"])
    unnamed.tokens = None
    assert Session(trace=unnamed).run("1").info["note"] == NO_TOKENS
    assert Session(trace=small_trace(["a", "b"])).run("1").info["note"] is None
