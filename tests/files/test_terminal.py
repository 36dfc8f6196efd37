"""Text for a terminal: shown as it is, and steering nothing."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from show.hostile import PAYLOADS

from transom.files.terminal import escape_all_but_colours, escape_controls, to_safe_json
from transom.show.colours import bold, dim, paint_background, paint_text

ANY_TEXT = st.text(st.characters()) | st.text("\x00\x07\x1b\x7f\x85\x9b\u200d\u202e\u2028\ufeff[]m;a \n\t")


def steering(text: str, keep: str = "\n\t") -> list[str]:
    """Signs that a terminal, or the order of the text, would obey."""
    found = {sign for sign in text if unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    return sorted(found - {*keep, "\u200c", "\u200d"})


def test_controls_are_shown_by_their_code():
    assert escape_controls("a\x1b[2Jb\tc\n\u202ed\x9b\r") == "a‹U+001B›[2Jb\tc\n‹U+202E›d‹U+009B›‹U+000D›"
    assert escape_controls("a\tb\n", keep="") == "a‹U+0009›b‹U+000A›"
    for plain in ("", "the cat", "déjà vu — “№ 5” 猫 👩‍🚀 نمی‌خواهم", "[bold]x[/]"):
        assert escape_controls(plain) == plain


@given(ANY_TEXT)
def test_whatever_comes_steers_nothing(text):
    assert steering(escape_controls(text)) == []
    assert steering(escape_controls(text, keep=""), keep="") == []
    assert json.loads(to_safe_json([text, {text: 1}])) == [text, {text: 1}]
    assert steering(to_safe_json([text]), keep="\n") == []


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_steers(payload):
    assert steering(escape_controls(payload)) == []
    assert steering(to_safe_json(payload)) == []


@pytest.mark.slow
def test_every_sign_of_unicode_is_shown_or_escaped():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert steering(escape_controls(everything)) == []


def test_transoms_own_colours_stay_and_no_others():
    own = bold("a") + dim("b") + paint_text("c", "#010203") + paint_background("d", (200, 100, 0))
    assert escape_all_but_colours(own) == own
    for other in ("\x1b[8mhidden", "\x1b[2J", "\x1b]0;title\x07", "\x1b[38;2;1;2;3mx", "\x1b[0", "\x1b[1;8m"):
        assert escape_all_but_colours(other) == escape_controls(other) != other


def test_json_on_one_line():
    assert to_safe_json({"a": "\x9b"}, indent=None) == '{"a": "\\u009b"}'
