"""Typos: one slip in a word, of every kind, and the first letter stays."""

import random

import pytest

from transom.text import typos
from transom.text.typos import KEYBOARD, SOUNDS, mistype

WORDS = ["house", "where", "Quiz", "the", "friend", "weather"]


def slips(monkeypatch, kind: str) -> list[tuple[str, str]]:
    monkeypatch.setattr(typos, "SLIPS", [kind])
    rng = random.Random(2)
    return [(word, mistype(word, rng)) for word in WORDS * 40]


@pytest.mark.parametrize("kind", sorted(set(typos.SLIPS)))
def test_a_word_has_one_slip_and_its_first_letter(kind, monkeypatch):
    made = slips(monkeypatch, kind)
    assert all(wrong[0] == word[0] for word, wrong in made)
    assert len({wrong for _, wrong in made}) > len(WORDS)
    assert all(wrong != word for word, wrong in made)


def test_letters_are_swapped_left_out_or_doubled(monkeypatch):
    # Two equal letters cannot be swapped: one is left out then.
    assert all(sorted(wrong) == sorted(word) for word, wrong in slips(monkeypatch, "swap"))
    for word, wrong in slips(monkeypatch, "drop"):
        assert wrong in [word[:at] + word[at + 1 :] for at in range(1, len(word))]
    for word, wrong in slips(monkeypatch, "double"):
        assert wrong in [word[:at] + word[at] + word[at:] for at in range(1, len(word))]


def test_a_letter_beside_is_a_neighbour_on_the_keyboard(monkeypatch):
    for word, wrong in slips(monkeypatch, "beside"):
        ((old, new),) = [(a, b) for a, b in zip(word, wrong, strict=True) if a != b]
        assert any(abs(row.find(old) - row.find(new)) == 1 for row in KEYBOARD if old in row and new in row)


def test_a_word_is_written_as_it_sounds(monkeypatch):
    sounds = [sound.split(">") for sound in SOUNDS]
    made = slips(monkeypatch, "sound")
    assert ("friend", "freind") in made
    for word, wrong in made:
        forms = [word[0] + word[1:].replace(old, new, 1) for old, new in sounds if old in word[1:]]
        assert wrong in (forms or [word[:at] + word[at + 1 :] for at in range(1, len(word))])
