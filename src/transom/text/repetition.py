"""Repetition loops: text that a model writes when it cannot stop."""

import re
from collections.abc import Sequence

LONGEST_RUN = 3  # how often a group of words may follow itself
STUTTER = re.compile(r"([^\W\d]{1,4}?)\1{4,}")  # up to four letters, five times or more


def has_repetition_loop(text: str) -> bool:
    """Whether one to four words follow themselves more than three times, or up to four letters five times or more."""
    words = text.casefold().split()
    loop = any(count_repeats(words, size) > LONGEST_RUN for size in (1, 2, 3, 4))
    return loop or STUTTER.search(text.casefold()) is not None


def count_repeats(words: Sequence[str], size: int) -> int:
    """How often at most a group of `size` words stands one after another."""
    most, run = 1, 0
    for index in range(size, len(words)):
        run = run + 1 if words[index] == words[index - size] else 0
        most = max(most, 1 + run // size)
    return most


def count_loops(sources: Sequence[str], translations: Sequence[str]) -> int:
    """How many translations have a loop that their source does not have."""
    pairs = zip(sources, translations, strict=True)
    return sum(has_repetition_loop(translation) and not has_repetition_loop(source) for source, translation in pairs)
