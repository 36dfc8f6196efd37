"""Holding out by sentence: nothing leaks, and a sentence's way hangs on itself and the seed alone."""

import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text.outside_files import complains, given_data

from transom.text import Labelled, Line, Pair, read_tsv, split
from transom.text.held_out import sentence_key

PAIRS = [Pair(f"sentence {place % 101}", f"phrase {place}") for place in range(503)]


def sources(examples):
    return {sentence_key(example.source) for example in examples}


@pytest.mark.parametrize("held_out", [0.13, 17, 1, 100])
def test_no_sentence_is_in_both_parts(held_out):
    learn, test = split(PAIRS, held_out, seed=3)
    assert not sources(learn) & sources(test)
    assert sorted([*learn, *test], key=str) == sorted(PAIRS, key=str)
    if isinstance(held_out, int):
        assert len(sources(test)) == held_out


def test_a_share_is_about_the_share():
    _, test = split([Line(str(number)) for number in range(10_007)], 0.05, seed=11)
    assert 400 < len(test) < 600  # 500 ± 22


def test_the_same_seed_parts_the_same_and_another_seed_does_not():
    assert split(PAIRS, 17, seed=3) == split(iter(PAIRS), 17, seed=3)
    assert sources(split(PAIRS, 17, seed=3)[1]) != sources(split(PAIRS, 17, seed=4)[1])


@given(st.randoms(use_true_random=False), st.sampled_from([0.2, 23]))
def test_the_place_in_the_file_does_not_matter(chance: random.Random, held_out):
    mixed = PAIRS[:]
    chance.shuffle(mixed)
    assert sources(split(mixed, held_out, seed=5)[1]) == sources(split(PAIRS, held_out, seed=5)[1])


def test_more_data_moves_no_sentence_of_a_share():
    few, many = split(PAIRS[:211], 0.2, seed=5)[1], split(PAIRS, 0.2, seed=5)[1]
    assert sources(few) == sources(PAIRS[:211]) & sources(many)


@pytest.mark.parametrize("other", ["Café  NOIR ", "cafe\u0301 noir", "CAFÉ\tnoir", "ｃａｆé noir"])
def test_case_white_space_and_unicode_form_make_no_other_sentence(other):
    examples = [*PAIRS, Pair("café noir", "a"), Pair(other, "b")]
    for seed in range(13):
        ways = split(examples, 0.5, seed)
        assert len({way for way, part in enumerate(ways) for example in part if example.target in "ab"}) == 1


def test_lines_and_labelled_texts_are_held_out_by_their_text():
    examples = [Labelled(f"text {place % 19}", str(place % 3)) for place in range(101)]
    learn, test = split(examples, 5, seed=0)
    assert not {example.text for example in learn} & {example.text for example in test}
    assert len({example.text for example in test}) == 5


def test_the_way_of_a_sentence_is_fixed_for_ever():
    """Written down once: what was held out yesterday is held out tomorrow."""
    _, test = split([Line(str(number)) for number in range(23)], 0.2, seed=1)
    assert [line.text for line in test] == FIXED


FIXED = ["5", "9", "10"]


@pytest.mark.parametrize(
    ("held_out", "left", "right"), [(0, 503, 0), (0.0, 503, 0), (101, 0, 503), (1.5, 0, 503), (-3, 503, 0)]
)
def test_something_is_left_on_both_sides(own_errors, held_out, left, right):
    complains(
        f"there must be examples of both kinds, but held_out={held_out} of 101 different sentences leaves {left} to"
        f" learn from and {right} to test with; choose another share, or a whole number",
        split,
        PAIRS,
        held_out,
        3,
    )


def test_a_seed_is_not_negative(own_errors):
    complains("seed must be 0 or more, but got -1; give a larger whole number", split, PAIRS, 5, -1)


def test_tatoeba_does_not_leak():
    pairs = list(islice(read_tsv(given_data("tatoeba-en-fr", "en-fr.tsv.gz"), [0, 1], Pair), 10_007))
    learn, test = split(pairs, 499, seed=1)
    assert len(sources(test)) == 499
    assert len(test) > 600  # several French lines for one English sentence
    assert not sources(learn) & sources(test)
