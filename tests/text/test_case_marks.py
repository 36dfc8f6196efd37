"""Capitals as marks: every text comes back, a word is the same token in every case, and the file says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text.outside_files import raises_misfit

from transom.text import Tokenizer
from transom.text.case_marks import LABELS, mark_case, restore_case

TEXTS = ["The cat sat on the mat.", "Where is Tom? HELP!", "Le chat était là 😀"]
LETTERS = st.sampled_from(list("aAbBßİıŉﬁÉéΣς '.1中\x0e\x0f\x10\x11"))


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train("bpe", TEXTS, 330, case=True, digits=True)


def visible(text: str) -> str:
    return text.translate({ord(mark): label for mark, label in LABELS.items()})


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("Where is Tom? HELP!", " where is↑ tom?⇈ help!"),
        ("WHERE DO YOU LIVE?", "⇈ where⇈ do⇈ you⇈ live?"),
        ("yes", "↓ yes"),
        ("Yes", " yes"),
        ("I am", " I am"),
        ("A man and I", " A man and I"),
        ("my iPhone", "↓ my iPhone"),
        ("iPhone", "↓ iPhone"),
        ("McDonald", " McDonald"),
        ("3 cats", " 3 cats"),
        ("1 Tom", " 1↑ tom"),
        ("«Où ?» J'ai Paris.", " «où ?» J'ai↑ paris."),
        ("中文", " 中文"),
        ("", ""),
    ],
)
def test_a_text_is_marked(text, marked):
    assert visible(mark_case(text)) == marked
    assert restore_case(mark_case(text)) == text


@given(st.text(st.one_of(LETTERS, st.characters(exclude_categories=["Cs"]))))
def test_every_text_comes_back(text):
    assert restore_case(mark_case(text)) == text


def test_marks_without_a_word_are_left_out():
    assert restore_case(" go\x0e\x0e !\x11") == "Go !"
    assert restore_case("\x0f\x0f") == ""


def test_a_word_is_the_same_token_in_every_case(tokenizer):
    lower, first, capitals = (tokenizer.encode(f"the {word}")[2:] for word in ("cat", "Cat", "CAT"))
    assert first[1:] == capitals[1:] == lower
    assert tokenizer.pieces([first[0], capitals[0]]) == ["↑", "⇈"]
    assert tokenizer.encode("Cat") == lower


def test_every_digit_is_a_token(tokenizer):
    assert tokenizer.pieces(tokenizer.encode("on 1,250"))[-5:] == ["1", ",", "2", "5", "0"]


@pytest.mark.parametrize("text", [*TEXTS, "WHERE", "tom\x0e\x10", "  two  Spaces \n", "e\u0301É"])
def test_the_file_says_that_there_are_marks(tokenizer, tmp_path, text):
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.case
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == text
    assert loaded.decode([loaded.start, *loaded.encode(text), loaded.end]) == text


def test_other_tokenizers_have_no_marks(tmp_path):
    plain, digits = Tokenizer.train("bpe", TEXTS, 300), Tokenizer.train("bpe", TEXTS, 300, digits=True)
    for tokenizer in (plain, digits):
        tokenizer.save(tmp_path / "tokenizer.json")
        assert not tokenizer.case
        assert not Tokenizer.load(tmp_path / "tokenizer.json").case
        assert tokenizer.decode(tokenizer.encode("Tom\x0e 12")) == "Tom\x0e 12"
    assert digits.pieces(digits.encode("12")) == ["1", "2"]


def test_marks_are_for_bytes_and_for_capitals():
    expected = "{}=True is for tokens of kind 'bpe', but the kind is 'words'; leave it out"
    for name in ("case", "digits"):
        raises_misfit(expected.format(name), Tokenizer.train, "words", TEXTS, 90, **{name: True})
    expected = "case=True marks capitals, but lowercase=True removes them; choose one"
    raises_misfit(expected, Tokenizer.train, "bpe", TEXTS, 300, lowercase=True, case=True)
