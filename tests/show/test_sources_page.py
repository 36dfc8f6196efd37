"""The page of passages: every figure is there, signs are seen without colours, hostile text stays text."""

import re
from html.parser import HTMLParser

from transom.lens.attribution.influence_table import SourceInfluence
from transom.show.html_page import csp_hash
from transom.show.sources_page import SourcesAnswer, render_sources_page

EVIL = "</p><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[2J\" style='x'"
PASSAGES = {"a": "Mary came.\nShe sang.", "b": EVIL, "c": "Nobody else.", EVIL: "d", "e": "quiet"}
ROWS = [
    SourceInfluence("a", 0, 3, 0.25, -1.5, -2.0),
    SourceInfluence("b", 4, 9, 0.125, 0.75, 1.0),
    SourceInfluence("c", 10, 12, 0.0625, -0.5, None),
    SourceInfluence(EVIL, 13, 14, 0.01, -0.001, -0.002),
    SourceInfluence("e", 15, 16, 0.0, 0.0, 0.0),
]


def page():
    return render_sources_page(SourcesAnswer("m", EVIL, f"Mary {EVIL}", PASSAGES, ROWS, "the note", "Pearson 0.97"))


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.articles, self.text = set(), set(), [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "article":
            self.articles.append(dict(attrs))

    def handle_data(self, data):
        self.text += data


def read():
    reader = Reader()
    reader.feed(page())
    return reader


def test_hostile_text_stays_text():
    found = read()
    assert not found.tags & {"script", "img", "link", "iframe", "a", "form"}
    assert not {name for name in found.attributes if name.startswith("on")} | (
        {"style", "src", "href"} & found.attributes
    )
    assert "<script>alert(1)</script>" in found.text
    assert "‹U+202E›" in found.text
    assert not {"\u202e", "\x1b"} & set(page())


def test_the_policy_allows_this_style_and_nothing_else():
    html = page()
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    assert f"default-src 'none'; style-src {csp_hash(style)}; base-uri 'none'; form-action 'none'" in html
    assert "url(" not in style
    assert "prefers-color-scheme:dark" in style


def test_every_passage_has_its_sign_its_figures_and_its_colour():
    found = read()
    kinds = [article["class"].split() for article in found.articles]
    assert [kind[0] for kind in kinds] == ["helped", "hindered", "helped", "helped", "idle"]
    steps = [int(kind[1][1:]) if len(kind) > 1 else None for kind in kinds]
    assert steps == [0, 48, 24, None, None], "symmetric around 32; what changed little keeps the colour of the page"
    assert found.articles[0]["title"] == "a: helped; change -2.0000; estimate -1.5000; mass 0.2500"
    assert "not knocked out, coloured by its estimate; estimate -0.5000" in found.articles[2]["title"]
    for words in ("▲ helped", "▼ hindered", "Mary came.\nShe sang.", "+1.0000", "0.0625", "Pearson 0.97", "the note"):
        assert words in found.text
    for step in (0, 48, 24):
        assert re.search(rf"\.sources \.c{step}{{background:#[0-9a-f]{{6}};color:#", page())
