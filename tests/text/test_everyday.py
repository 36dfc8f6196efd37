"""Everyday sentences: what a check accepts, what it refuses, and the lists of the repository."""

from collections import Counter
from pathlib import Path

import pytest
from text.outside_files import raises_misfit, require_data, write_file

from transom.text.augmentation import loose_key
from transom.text.corpora import Pair, read_tsv
from transom.text.everyday import list_failures, rates_by_kind, read_everyday
from transom.text.repetition import count_loops, has_repetition_loop
from transom.text.templates import read_slots, read_templates

LISTS = Path(__file__).parents[2] / "recipes" / "en-fr"
HALVES = ("dev", "test")
HEADER = "kind\tenglish\tcheck\n"


def read(half: str):
    return read_everyday(LISTS / f"everyday-{half}.tsv")


@pytest.mark.parametrize(
    ("check", "translation", "accepted"),
    [
        ("= demain | à demain", "Demain.", True),
        ("= demain | à demain", "À DEMAIN !", True),
        ("= demain", "Demain soir.", False),
        ("= sœur", "Sœur", True),
        ("~ où; gare|station", "Où se trouve la gare ?", True),
        ("~ où; gare|station", "Où est l'hôtel ?", False),
        ("~ six|6; œufs", "Il a acheté 6 œufs.", True),
        ("~ six|6; œufs", "Il a acheté 60 œufs.", False),
        ("~ 1 250|1250; élève", "L'école a 1 250 élèves.", True),
        ("~ 1 250|1250; élève", "L'école a 1.250 élèves.", True),
        ("~ 1 250|1250; élève", "L'école a 150 élèves.", False),
        ("~ n; pas; aime", "Je n'aime pas ça.", True),
        ("~ aujourd hui", "Il pleut aujourd’hui.", True),
        ("~ merci; 😀", "Merci 😀", True),
        ("~ merci; 😀", "Merci", False),
        ("~ a@b.org", "Écris à A@B.org.", True),
        ("~ 12,50|12.50", "Il coûte 12,50 £.", True),
        ("~ Lyon", "Un billet pour Lyon Lyon Lyon Lyon Lyon", False),
        ("~ un", "un " + "deux trois " * 9, False),
    ],
)
def test_a_check(tmp_path, check, translation, accepted):
    (sentence,) = read_everyday(write_file(tmp_path, f"{HEADER}travel\tA few words here.\t{check}\n"))
    assert sentence.accepts(translation) == accepted


def test_rates_and_failures(tmp_path):
    rows = "b\tYes\t= oui\na\tNo\t= non\nb\tOne\t= un\n"
    sentences = read_everyday(write_file(tmp_path, HEADER + rows))
    translations = ["Oui.", "Peut-être", "deux"]
    assert rates_by_kind(sentences, translations) == {"b": (1, 2), "a": (0, 1)}
    assert [(sentence.source, text) for sentence, text in list_failures(sentences, translations)] == [
        ("No", "Peut-être"),
        ("One", "deux"),
    ]


@pytest.mark.parametrize("content", ["travel\tYes\t= oui\n", f"{HEADER}travel\tYes\n", f"{HEADER}a\tYes\toui\n"])
def test_another_file_is_refused(tmp_path, content):
    path = write_file(tmp_path, content)
    number = 1 if not content.startswith(HEADER) else 2
    raises_misfit(
        f"{path}, line {number}: expected kind, english, check with tabs between them, and a check that starts with ="
        " or ~, but the line is another; see docs/training.md",
        read_everyday,
        path,
    )


def test_there_are_ten_kinds_of_twenty_and_two_halves_that_share_nothing():
    dev, test = map(read, HALVES)
    for half in (dev, test):
        assert set(Counter(sentence.kind for sentence in half).values()) == {10}
        assert len({sentence.kind for sentence in half}) == 10
    sources = [loose_key(sentence.source) for sentence in dev + test]
    assert len(set(sources)) == 200
    assert all(len(sentence.source.split()) > 20 for sentence in dev + test if sentence.kind == "long")


def test_no_added_pair_is_an_everyday_sentence():
    everyday = {loose_key(sentence.source) for half in HALVES for sentence in read(half)}
    words = read_tsv(LISTS / "words.tsv", [0, 1], Pair)
    templates = read_templates(LISTS / "templates.tsv", read_slots(LISTS / "slots.tsv"))
    assert not {loose_key(pair.source) for pair in [*words, *templates]} & everyday


@pytest.mark.slow
def test_no_pair_of_the_corpus_is_an_everyday_sentence():
    corpus = require_data("tatoeba-en-fr", "en-fr.tsv.gz")
    everyday = {loose_key(sentence.source) for half in HALVES for sentence in read(half)}
    assert not [pair.source for pair in read_tsv(corpus, [0, 1], Pair) if loose_key(pair.source) in everyday]


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("Il est très, très, très grand.", False),
        ("non non non non", True),
        ("il est là il est là il est là il est là", True),
        ("il est là, il est là", False),
        ("BABABABABABA", True),
        ("HHHHH", True),
        ("1000000000", False),
        ("", False),
    ],
)
def test_a_repetition_loop(text, loop):
    assert has_repetition_loop(text) == loop


def test_a_loop_of_the_source_is_not_the_models():
    assert count_loops(["ha ha ha ha", "yes", "no"], ["ha ha ha ha", "oui oui oui oui", "non"]) == 1
