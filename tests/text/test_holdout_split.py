"""Holding out by sentence: nothing leaks, and the side of a sentence depends only on it and the seed."""

import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text.outside_files import raises_misfit, require_data

from transom.text import Labelled, Line, Pair, read_tsv, split_examples
from transom.text.holdout_split import sentence_key

PAIRS = [Pair(f"sentence {i % 101}", f"phrase {i}") for i in range(503)]


def sources(examples):
    return {sentence_key(example.source) for example in examples}


@pytest.mark.parametrize("held_out", [0.13, 17, 1, 100])
def test_no_sentence_is_in_both_parts(held_out):
    train, test = split_examples(PAIRS, held_out, seed=3)
    assert not sources(train) & sources(test)
    assert sorted([*train, *test], key=str) == sorted(PAIRS, key=str)
    if isinstance(held_out, int):
        assert len(sources(test)) == held_out


def test_a_share_is_about_the_share():
    _, test = split_examples([Line(str(number)) for number in range(10_007)], 0.05, seed=11)
    assert 400 < len(test) < 600  # 500 ± 22


def test_the_same_seed_splits_the_same_and_another_seed_does_not():
    assert split_examples(PAIRS, 17, seed=3) == split_examples(iter(PAIRS), 17, seed=3)
    assert sources(split_examples(PAIRS, 17, seed=3)[1]) != sources(split_examples(PAIRS, 17, seed=4)[1])


@given(st.randoms(use_true_random=False), st.sampled_from([0.2, 23]))
def test_the_position_in_the_file_does_not_matter(rng: random.Random, held_out):
    mixed = PAIRS[:]
    rng.shuffle(mixed)
    assert sources(split_examples(mixed, held_out, seed=5)[1]) == sources(split_examples(PAIRS, held_out, seed=5)[1])


def test_more_data_moves_no_sentence_of_a_share():
    few, many = split_examples(PAIRS[:211], 0.2, seed=5)[1], split_examples(PAIRS, 0.2, seed=5)[1]
    assert sources(few) == sources(PAIRS[:211]) & sources(many)


@pytest.mark.parametrize("other", ["Café  NOIR ", "cafe\u0301 noir", "CAFÉ\tnoir", "ｃａｆé noir"])
def test_case_white_space_and_unicode_form_make_no_other_sentence(other):
    examples = [*PAIRS, Pair("café noir", "a"), Pair(other, "b")]
    for seed in range(13):
        sides = split_examples(examples, 0.5, seed)
        assert len({side for side, part in enumerate(sides) for example in part if example.target in "ab"}) == 1


def test_lines_and_labelled_texts_are_held_out_by_their_text():
    examples = [Labelled(f"text {i % 19}", str(i % 3)) for i in range(101)]
    train, test = split_examples(examples, 5, seed=0)
    assert not {example.text for example in train} & {example.text for example in test}
    assert len({example.text for example in test}) == 5


def test_the_side_of_a_sentence_is_fixed_forever():
    """Written down once: what was held out yesterday is held out tomorrow."""
    _, test = split_examples([Line(str(number)) for number in range(23)], 0.2, seed=1)
    assert [line.text for line in test] == FIXED


FIXED = ["5", "9", "10"]


@pytest.mark.parametrize(
    ("held_out", "left", "right"), [(0, 503, 0), (0.0, 503, 0), (101, 0, 503), (1.5, 0, 503), (-3, 503, 0)]
)
def test_something_is_left_on_both_sides(own_errors, held_out, left, right):
    raises_misfit(
        f"both sides need examples, but held_out={held_out} of 101 different sentences leaves {left} to"
        f" train on and {right} to test with; choose another share, or a whole number",
        split_examples,
        PAIRS,
        held_out,
        3,
    )


def test_a_seed_is_not_negative(own_errors):
    raises_misfit("seed must be 0 or more, but got -1; give a larger whole number", split_examples, PAIRS, 5, -1)


def test_tatoeba_does_not_leak():
    pairs = list(islice(read_tsv(require_data("tatoeba-en-fr", "en-fr.tsv.gz"), [0, 1], Pair), 10_007))
    train, test = split_examples(pairs, 499, seed=1)
    assert len(sources(test)) == 499
    assert len(test) > 600  # several French lines for one English sentence
    assert not sources(train) & sources(test)
