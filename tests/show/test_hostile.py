"""Hostile tokens through every view and every form: nothing breaks out, and the text is shown as it is."""

import json
import re
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from show.hostile import PAYLOADS
from show.samples import SAMPLES, WORDS, sample

from transom.show import VIEWS, draw
from transom.show.formatting import LONGEST, clip, display_width, make_visible, pad, wrap

FIVES = [tuple((PAYLOADS + PAYLOADS)[first : first + 5]) for first in range(0, len(PAYLOADS), 5)]
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "h1",
    "p",
    "div",
    "figure",
    "figcaption",
    "i",
    "ul",
    "li",
}
TAGS |= {"svg", "g", "rect", "text", "path", "line", "circle", "table", "thead", "tbody", "tr", "th", "td", "button"}
TAGS |= {"b", "code", "details", "summary"}


def labelled(words):
    """A picture whose five labels, whatever they hold, are told apart: curves have them as names."""
    return tuple(f"{number}{word}" for number, word in enumerate(words))


def pictured(view, words):
    thing, options = SAMPLES[view](labelled(words) if view == "curves" else words)
    few = {"only": ["V", "weights"]} if view == "steps" else {}  # all steps have the same labels
    return draw(view, thing, **options, **few)


def harmful(text):
    """Signs that a terminal or an eye would obey."""
    return [sign for sign in text if unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}]


def test_there_are_enough_of_them():
    assert len(PAYLOADS) == len(set(PAYLOADS)) >= 60


# A few of them in every run, all of them in `make test-all`.
FEW = [pytest.param(FIVES[::7], id="few"), pytest.param(FIVES, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("fives", FEW)
@pytest.mark.parametrize("view", VIEWS)
def test_no_form_lets_any_of_them_out(view, fives):
    for words in fives:
        picture = pictured(view, words)
        assert not harmful(picture.text(width=90).replace("\n", ""))
        drawn = ElementTree.fromstring(picture.svg())  # well formed, whatever the words
        assert not harmful("".join(drawn.itertext()))
        page = picture.html()
        assert set(re.findall(r"<([a-zA-Z]\w*)", page)) <= TAGS
        assert not harmful(page.replace("\n", ""))
        assert json.loads(picture.json())["title"] == picture.title
        assert picture.json().isascii()


@pytest.mark.parametrize("fives", FEW)
@pytest.mark.parametrize("view", ["sequence", "arrows"])
def test_diagrams_keep_words_in_their_quotes(view, fives):
    for words in fives:
        picture = pictured(view, words)
        plain = sample(view)
        for form in ("mermaid", "dot"):
            made, usual = getattr(picture, form)(), getattr(plain, form)()
            assert len(made.splitlines()) == len(usual.splitlines())
            assert not harmful(made.replace("\n", ""))
            bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', made) if form == "dot" else made
            if form == "dot":
                assert bare == re.sub(r'"(?:[^"\\]|\\.)*"', '""', usual)
            else:
                assert not re.search(r"[<>;%{}\\](?![^;]*;)", re.sub(r"#\d+;|->>|-->", "", bare))


@pytest.mark.parametrize("words", FIVES[::9])
@pytest.mark.parametrize("kind", [".pdf", ".png"])
def test_paper_takes_them_as_text(words, kind, tmp_path):
    pytest.importorskip("typst", reason="the extra `export` is not installed")
    assert pictured("matrix", words).save(tmp_path / f"figure{kind}").stat().st_size > 2_000


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_each_is_shown_and_told_from_others(payload):
    shown = make_visible(payload)
    assert shown
    assert shown == shown.strip()
    assert len(shown) <= 12 * LONGEST
    assert not harmful(shown)
    if payload.isascii() and payload.isprintable() and payload.strip() == payload and 0 < len(payload) < LONGEST:
        assert shown == payload


def test_no_two_are_shown_alike():
    assert len({make_visible(payload) for payload in PAYLOADS}) == len(PAYLOADS)


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("", "‹empty›"),
        (" ", "‹space›"),
        ("   ", "‹3 spaces›"),
        (" cat", "·cat"),
        ("a b", "a b"),
        ("a\nb", r"a‹\n›b"),
        ("\x1b[31m", "‹U+001B›[31m"),
        ("\u202eabc", "‹U+202E›abc"),
        ("\ud800", "‹U+D800›"),
        ("\u0301x", "‹U+0301›x"),
        ("e\u0301", "e\u0301"),
        ("e\u0301\u0302\u0303\u0304", "e\u0301\u0302\u0303‹U+0304›"),
        ("\u3164", "‹U+3164›"),
        ("x" * 500, "x" * LONGEST + "…"),
        ("שלום", "שלום"),
    ],
)
def test_how_a_token_is_made_visible(token, shown):
    assert make_visible(token) == shown


@given(st.text(max_size=30))
def test_whatever_comes_is_one_harmless_line(token):
    shown = make_visible(token)
    assert shown
    assert not harmful(shown)
    assert display_width(clip(shown, 7)) <= 7
    assert display_width(pad(shown, 9)) == 9
    assert all(display_width(line) <= 20 for line in wrap(shown, 20))
    ElementTree.fromstring(f"<t>{shown.replace('&', '&amp;').replace('<', '&lt;')}</t>")


def test_the_json_has_the_text_as_it_came():
    rows = json.loads(pictured("matrix", ("<b>", "\ud800", "a\nb", "\u202e", "x" * 999)).json())["panels"][0]["rows"]
    assert rows == ["<b>", "\ud800", "a\nb", "\u202e", "x" * 999]
    assert len(WORDS) == len(rows)
