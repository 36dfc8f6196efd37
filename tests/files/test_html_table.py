"""Tables in a notebook: escaped, and the same cells as in the terminal."""

from html.parser import HTMLParser

import torch

import transom
from transom.files.html_table import MOST_ROWS, render_html_table
from transom.lens.ablation.effect_table import Effect, EffectTable
from transom.lens.attribution.agreement import Agreement
from transom.lens.attribution.influence_table import EdgeInfluence, InfluenceTable, SourceInfluence
from transom.lens.unseen_attention import UnseenAttention, UnseenList

HOSTILE = '<img src=x onerror="alert(1)">\x1b[31m'


class Cells(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def all_tables():
    edge = EdgeInfluence(HOSTILE, 1, 2, 3, 0.5, -0.25, 0.125)
    effect = Effect(HOSTILE, 0, 1, 2, 0.5, None, 0.1, 0.2, 0.3, -0.4, None, 0.01, "", HOSTILE, "b")
    trace = small_trace()
    yield transom.heads(trace)
    yield transom.diff(trace, small_trace(2.0))
    yield InfluenceTable([SourceInfluence(HOSTILE, 0, 3, 0.5, 1.5)], "a note")
    yield Agreement([edge, edge], 3)
    yield EffectTable([effect], "before", None, 1.5, None, [HOSTILE])
    yield UnseenList([UnseenAttention(HOSTILE, "Layer", "by hand")])
    yield trace.unseen


def small_trace(scale=1.0):
    torch.manual_seed(3)
    trace = transom.Trace(["a", "b", "c"])
    trace.add("layer.0", transom.sight(*(scale * torch.randn(1, 2, 3, 5) for _ in range(3))))
    return trace


def test_every_table_has_text_and_html_and_nothing_in_it_is_markup():
    for table in all_tables():
        bundle = table._repr_mimebundle_()
        assert bundle["text/plain"] == str(table) == repr(table)
        assert "\x1b" not in bundle["text/html"] + bundle["text/plain"]
        found = Cells(bundle["text/html"])
        assert set(found.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}
        heads, rows = table.table_cells()
        assert found.tags.count("th") == len(heads)
        assert found.tags.count("td") == len(heads) * len(rows)


def test_a_long_table_says_what_is_left_out():
    html = render_html_table(["n"], [[str(n)] for n in range(MOST_ROWS + 7)])
    assert "7 more rows are not shown" in html
    assert Cells(html).tags.count("td") == MOST_ROWS
