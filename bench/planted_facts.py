"""Texts of plain sentences with a fact planted in them, the question for it, and the place of its passage."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from transom.lens import Influence
from transom.lens.attribution.influence_table import InfluenceTable, SourceInfluence

WHO = [
    "A fisherman", "The baker", "An old teacher", "The postman", "A young painter", "The miller's daughter", "A nurse",
    "The clerk", "Two students", "A musician", "The gardener", "A carpenter", "The captain's brother", "An engineer",
]  # fmt: skip
DID = [
    "walked slowly past", "looked for a while at", "told a long story about", "carried two boxes to", "waited near",
    "drew a small picture of", "talked quietly about", "cleaned the windows of", "came back late from", "asked about",
]  # fmt: skip
WHAT = [
    "the old bridge", "the market hall", "the new station", "the red barn", "the stone church", "the wooden pier",
    "the town hall", "the empty theatre", "the apple orchard", "the school yard", "the water mill", "the long canal",
]  # fmt: skip
WHEN = [
    "in the early morning", "after the rain", "on Sunday", "before supper", "while the bells rang", "late at night",
    "during the summer fair", "at the end of the week", "when the fog had gone", "as the snow began to fall",
]  # fmt: skip
PLACES = ["harbour office", "north tower", "glass house", "boat club", "clock shop", "city archive"]
WORDS = ["lantern", "walnut", "violin", "compass", "thunder", "blanket", "marble", "pepper"]


class PlantedText(NamedTuple):
    """Passages by name, the one with the fact, the word that answers the question, and the place it belongs to."""

    passages: dict[str, str]
    planted: str
    word: str
    place: str

    @property
    def question(self) -> str:
        return f"What is the password of the {self.place}?"

    @property
    def begin(self) -> str:
        """The answer up to the word itself."""
        return f"The password of the {self.place} is"


def make_sentence(rng: random.Random) -> str:
    return f"{rng.choice(WHO)} {rng.choice(DID)} {rng.choice(WHAT)} {rng.choice(WHEN)}."


def plant_fact(rng: random.Random, length: int, count_tokens: Callable[[str], int], sentences: int = 5) -> PlantedText:
    """Paragraphs of so many sentences, together no more tokens than `length`, one of them with a fact at any place."""
    place, word = rng.choice(PLACES), rng.choice(WORDS)
    fact = f"The password of the {place} is {word}."
    paragraphs, room = [], length - count_tokens(fact)
    while True:
        paragraph = [make_sentence(rng) for _ in range(sentences)]
        room -= count_tokens(" ".join(paragraph) + "\n\n")
        if room < 0 and len(paragraphs) > 1:
            break
        paragraphs.append(paragraph)
    chosen = rng.randrange(len(paragraphs))
    paragraphs[chosen].insert(rng.randrange(sentences + 1), fact)
    passages = {f"passage {number}": " ".join(paragraph) for number, paragraph in enumerate(paragraphs)}
    return PlantedText(passages, f"passage {chosen}", word, place)


def place_of(table: InfluenceTable[SourceInfluence], name: str) -> dict[str, Any]:
    """The place of a passage among all by its estimate, and among those that were knocked out by its true change."""
    row = next(row for row in table.rows if row.name == name)
    larger = sum(abs(other.estimate) > abs(row.estimate) for other in table.rows)
    true = [abs(other.change) for other in table.rows if other.change is not None]
    by_change = None if row.change is None else sum(change > abs(row.change) for change in true)
    return {"by_estimate": larger, "by_change": by_change, "estimate": row.estimate, "change": row.change}


def place_by_points(found: Influence, spans: dict[str, tuple[int, int]], name: str) -> dict[str, Any]:
    """The same by another estimate, whose gradient is the mean of several runs."""
    place = place_of(found.sources(spans, refine=0), name)
    return {"by_points": place["by_estimate"], "estimate_of_points": place["estimate"]}
