"""Augmentation: each row changes what it says and nothing else, draws come from the seed."""

import random

import pytest

from transom.text.augmentation import (
    AUGMENTATIONS,
    Material,
    augment_pairs,
    exclude_sources,
    find_frame_values,
    find_proper_words,
    lower_first,
    swap_name,
)
from transom.text.corpora import Pair

PAIRS = [
    Pair("Tom lives in Boston.", "Tom vit à Boston."),
    Pair("I don't know what Mary wants.", "Je ne sais pas ce que veut Marie."),
    Pair("The house has 12 rooms.", "La maison a 12 pièces."),
    Pair("Where are you going?", "Où allez-vous ?"),
    Pair("He was born in 1962.", "Il est né en 1962."),
    Pair("Yesterday I saw Tom.", "Hier j'ai vu Tom."),
]
SLOTS = {
    "name": [Pair("Tom", "Tom"), Pair("Mary", "Marie"), Pair("{made_up}", "{made_up}")],
    "joint": [Pair(", and ", " et ")],
}
FRAMES = [
    Pair('"{pair}"', "« {pair} »"),
    Pair("I know that {clause}.", "Je sais que {clause}."),
    Pair("If {clause}, {clause2}.", "Si {clause}, {clause2}."),
]
SLOTS |= {"frame": FRAMES, **find_frame_values(PAIRS, find_proper_words(PAIRS))}
MATERIAL = Material(PAIRS, SLOTS, ("name",), find_proper_words(PAIRS))


def augment(name: str, count: int = 60) -> list[tuple[Pair, Pair]]:
    """Pairs and what one augmentation makes of them."""
    rng = random.Random(4)
    tried = [(pair, AUGMENTATIONS[name](pair, MATERIAL, rng)) for pair in PAIRS * (count // len(PAIRS))]
    made = [(old, new) for old, new in tried if new is not None]
    assert made
    return made


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_the_seed_decides(name):
    first, again, other = (augment_pairs(MATERIAL, {name: 5.0}, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 5 * len(PAIRS)
    assert not set(first) <= set(PAIRS)


def test_a_share_adds_so_many_pairs():
    assert len(augment_pairs(MATERIAL, {"case": 0.5, "joined": 1.0}, 1)) == 3 + 6
    assert augment_pairs(Material(PAIRS[3:4], SLOTS, (), frozenset()), {"numbers": 1.0}, 1) == []


def test_case_leaves_the_letters():
    kinds = set()
    for old, new in augment("case"):
        assert new.source.casefold() == old.source.casefold()[: len(new.source)]
        assert new.target in (old.target, old.target.upper())
        assert (new.target == old.target.upper()) == (new.source == old.source.upper())
        kinds.add((new.source.isupper(), new.source.islower()))
    assert len(kinds) == 3


def test_typos_are_on_the_source_side():
    for old, new in augment("typos"):
        assert new.target == old.target
        assert new.source != old.source
        assert abs(len(new.source) - len(old.source)) <= 4


def test_punctuation_and_emoji_leave_the_words():
    for old, new in augment("punctuation"):
        assert new.source.rstrip(".!? ") == old.source.rstrip(".!?")
        assert new.target.rstrip(".!? ") == old.target.rstrip(".!? ")
    for old, new in augment("emoji"):
        emoji = new.target.replace(old.target, "").strip()
        assert new.source.replace(emoji, "").strip().rstrip(".") == old.source.rstrip(".")
        assert new.source.startswith(emoji) == new.target.startswith(emoji)
        assert not emoji.isascii()


def test_names_and_numbers_are_the_same_on_both_sides():
    for old, new in augment("names"):
        assert old != new
        assert ("Mary" in new.source) == ("Marie" in new.target)
    for old, new in augment("numbers"):
        digits = ["".join(filter(str.isdigit, side)) for side in (new.source, new.target, old.source)]
        assert digits[0] == digits[1]
        assert len(digits[0]) == len(digits[2])


def test_a_name_is_not_swapped_where_french_would_change_the_word_before_it():
    pair, tom = Pair("Tom's car", "la voiture de Tom"), Pair("Tom", "Tom")
    assert swap_name(pair, tom, Pair("Anna", "Anna")) == pair
    assert swap_name(pair, tom, Pair("Paul", "Paul")) == Pair("Paul's car", "la voiture de Paul")
    elided = Pair("Anna's car", "la voiture d'Anna")
    assert swap_name(elided, Pair("Anna", "Anna"), Pair("Paul", "Paul")) == elided
    other = Pair("Tommy is here", "Tommy est là")
    assert swap_name(other, tom, Pair("Paul", "Paul")) == other


def test_joined_pairs_are_whole_or_have_a_joint():
    sources = {pair.source for pair in PAIRS}
    joints = 0
    for _, new in augment("joined"):
        if ", and " in new.source:
            first, second = new.source.split(", and ")
            assert f"{first}." in sources
            assert any(second in (source, source[0].lower() + source[1:]) for source in sources)
            joints += 1
        else:
            assert sum(source in new.source for source in sources) >= 1
    assert joints


def test_frames_hold_whole_pairs_or_clauses_and_french_is_elided():
    whole = {pair.source: pair.target for pair in PAIRS}
    clauses = {pair.source: pair.target for pair in SLOTS["clause"]}
    assert (
        clauses.items()
        >= {"the house has 12 rooms": "la maison a 12 pièces", "Tom lives in Boston": "Tom vit à Boston"}.items()
    )
    assert "where are you going" not in clauses
    seen = set()
    for _, new in augment("framed"):
        first = new.source[0]
        seen.add(first)
        if first == '"':
            assert new.target == f"« {whole[new.source[1:-1]]} »"
        elif first == "I" and new.source.startswith("I know that "):
            clause = clauses[new.source.removeprefix("I know that ")[:-1]]
            que = "qu'" if clause[0] in "aeiou" else "que "
            assert new.target == f"Je sais {que}{clause}."
        else:
            assert "Si il" not in new.target
    assert len(seen) == 2
    assert AUGMENTATIONS["framed"](PAIRS[0], Material(PAIRS, {}, (), frozenset()), random.Random(1)) is None


def test_only_ordinary_words_lose_their_capital():
    assert find_proper_words(PAIRS) >= {"tom", "mary", "marie", "boston", "i"}
    assert lower_first("The house.", MATERIAL.proper) == "the house."
    assert lower_first("Tom left.", MATERIAL.proper) == "Tom left."
    assert lower_first("I'm here.", MATERIAL.proper) == "I'm here."


def test_excluded_sentences_are_found_in_any_case_and_punctuation():
    pairs = [Pair("Yes.", "Oui."), Pair("YES !", "OUI !"), Pair("Yes, sir", "Oui"), Pair("😀", "😀")]
    assert exclude_sources(pairs, ["yes"]) == pairs[2:]
    assert exclude_sources(pairs, ["😀"]) == pairs[:3]
