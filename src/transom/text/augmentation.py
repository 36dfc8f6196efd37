"""More training pairs from those there are: other case, typos, other punctuation, emoji, names, numbers, joined pairs.

Each row of `AUGMENTATIONS` turns a pair into another one, or returns None if that pair is not suited. All draws come
from a seed, so the same pairs give the same additions.
"""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from transom.text.corpora import Pair
from transom.text.holdout_split import sentence_key
from transom.text.templates import SLOT, Slots, draw_number, fill_template, pick

ATTEMPTS = 40  # pairs that are tried for each one that is wanted
EMOJI = (  # noqa: SIM905
    "😀 😃 😄 😅 😆 😉 😊 😎 😍 😘 😢 😭 😡 😱 😴 🤔 🙄 👍 👎 👋 "
    "👏 🙏 💪 🤝 ❤️ 💔 💯 🔥 ✨ ⭐ 🎉 🎂 🎁 🎄 🌍 🌞 🌧️ ❄️ 🌹 🐱 "
    "🐶 🍕 🍰 ☕ 🍷 🚗 ✈️ 🚀 🏠 ⚽ 🎵 📷 📚 💻 📱 ✅ ❌ 😂 🍀 🥳"
).split()
FRENCH_END = ".!? \u00a0\u202f"
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
SHORT = {
    "you": "u",
    "are": "r",
    "please": "pls",
    "thanks": "thx",
    "because": "cuz",
    "tomorrow": "tmrw",
    "people": "ppl",
}
LONG_WORD = re.compile(r"[a-z]{4,}")
NUMBER = re.compile(r"(?<![\d.,:/-])\d{1,4}(?![\d.,:/-]\d|\d|[a-z])")
ELISION = re.compile(r"(?i)\b(?:de|que|lorsque|puisque|jusque|ne|le|la|se|me|te)\s$")
WORDS = re.compile(r"[\w']+")


@dataclass(frozen=True)
class Material:
    """What augmentations draw from: all pairs, lists of names, and words that have a capital anywhere in a sentence."""

    pairs: Sequence[Pair]
    slots: Slots
    swapped: tuple[str, ...]  # the slots whose values may take each other's place
    proper: frozenset[str]


def find_proper_words(pairs: Iterable[Pair]) -> frozenset[str]:
    """Words that are capitalised inside a sentence more often than not, such as names, months and I."""
    counts: dict[str, int] = {}
    for pair in pairs:
        for text in (pair.source, pair.target):
            for word in WORDS.findall(text)[1:]:
                counts[word.lower()] = counts.get(word.lower(), 0) + (1 if word[0].isupper() else -1)
    return frozenset(word for word, count in counts.items() if count > 0)


def change_case(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """All capitals on both sides; or a source without capitals, or With Them Everywhere, and the target as it is."""
    kind = draw_number(rng, 0, 3)
    if kind < 2:
        return Pair(pair.source.upper(), pair.target.upper())
    if kind == 2:
        return Pair(pair.source.lower().rstrip(pick(rng, ["", ".", ".?!"])), pair.target)
    return Pair(re.sub(r"(?<![\w'])[a-z]", lambda letter: letter[0].upper(), pair.source), pair.target)


def mistype(word: str, rng: random.Random) -> str:
    """A word with two letters swapped, one left out, one doubled, or one replaced by its neighbour on the keyboard."""
    kind, at = draw_number(rng, 0, 3), draw_number(rng, 1, len(word) - 2)
    if kind == 0:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == 1:
        return word[:at] + word[at + 1 :]
    if kind == 2:
        return word[:at] + word[at] + word[at:]
    row = next(row for row in KEYBOARD if word[at] in row)
    index = row.index(word[at])
    return word[:at] + pick(rng, row[max(0, index - 1) : index] + row[index + 1 : index + 2]) + word[at + 1 :]


def add_typos(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """One or two typos in the source; the target is right. Sometimes an apostrophe is lost, or a word is shortened."""
    words = [match for match in LONG_WORD.finditer(pair.source)]
    text, count = pair.source, draw_number(rng, 1, 2)
    if "'" in text and rng.random() < 0.3:
        return Pair(text.replace("'", ""), pair.target)
    if rng.random() < 0.1:
        text = re.sub(r"\w+", lambda word: SHORT.get(word[0].lower(), word[0]), text)
    elif not words:
        return None
    else:
        for match in sorted({pick(rng, words) for _ in range(count)}, key=lambda match: -match.start()):
            text = text[: match.start()] + mistype(match[0], rng) + text[match.end() :]
    if rng.random() < 0.25:
        text = text.lower().rstrip(".?!")
    return Pair(text, pair.target) if text != pair.source else None


def change_punctuation(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """Another mark at the end, on both sides; or none in the source."""
    source, target = pair.source.rstrip(".!? "), pair.target.rstrip(FRENCH_END)
    if source == pair.source or not source or not target:
        return None
    if rng.random() < 0.5:
        return Pair(source, pair.target)
    if pair.source.endswith("?"):
        mark = pick(rng, ["??", "?!", "???", " ?"])
        return Pair(source + mark, f"{target} {mark.strip()}")
    mark = pick(rng, ["!", "!!", "!!!", "..."])
    return Pair(source + mark, target + mark if mark == "..." else f"{target} {mark}")


def add_emoji(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """One to three emoji after the sentence, on both sides."""
    emoji = "".join(pick(rng, EMOJI) for _ in range(pick(rng, [1, 1, 1, 2, 3])))
    source = pair.source if rng.random() < 0.6 else pair.source.rstrip(".")
    return Pair(f"{source} {emoji}", f"{pair.target} {emoji}")


def swap_names(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """Another name of the same list wherever one stands on both sides."""
    changed = pair
    for slot in material.swapped:
        for name in material.slots[slot]:
            if name.source in changed.source and name.target in changed.target and not SLOT.search(name.source):
                changed = swap_name(
                    changed, name, fill_template(Pair(f"{{{slot}}}", f"{{{slot}}}"), material.slots, rng)
                )
    return changed if changed != pair else None


def swap_name(pair: Pair, name: Pair, other: Pair) -> Pair:
    """A pair with another name, unless French would write the word before it differently (de Tom, d'Anna)."""
    source, target = (re.compile(rf"(?<!\w){re.escape(side)}(?!\w)") for side in (name.source, name.target))
    vowels = other.target[0] in "AEIOUYÀÂÉÈÊÎÔŒHaeiouyéh"
    elided = any(ELISION.search(pair.target[: match.start()]) for match in target.finditer(pair.target))
    if (vowels and elided) or not source.search(pair.source) or not target.search(pair.target):
        return pair
    if re.search(rf"['’]{re.escape(name.target)}", pair.target):
        return pair
    return Pair(source.sub(lambda _: other.source, pair.source), target.sub(lambda _: other.target, pair.target))


def swap_numbers(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """Other numbers of as many digits, wherever the same number stands on both sides."""
    sides = NUMBER.findall(pair.source), NUMBER.findall(pair.target)
    if not sides[0] or sorted(sides[0]) != sorted(sides[1]) or "1" in sides[0]:
        return None
    ranges = {1: (2, 9), 2: (11, 99), 3: (101, 999), 4: (1700, 2060)}
    others = {number: str(draw_number(rng, *ranges[len(number)])) for number in sides[0]}
    source, target = (NUMBER.sub(lambda number: others[number[0]], side) for side in (pair.source, pair.target))
    return Pair(source, target)


def join_pairs(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """Two or three pairs one after another; or two with a word between them, such as and."""
    others = [pick(rng, material.pairs) for _ in range(pick(rng, [1, 1, 2]))]
    joints = material.slots.get("joint", [])
    if rng.random() < 0.5 or not joints:
        joined = [pair, *others]
        return Pair(" ".join(each.source for each in joined), " ".join(each.target for each in joined))
    if not all(text.endswith(".") for each in (pair, others[0]) for text in (each.source, each.target)):
        return None
    joint, proper = pick(rng, joints), material.proper
    return Pair(
        pair.source[:-1] + joint.source + lower_first(others[0].source, proper),
        pair.target[:-1] + joint.target + lower_first(others[0].target, proper),
    )


def lower_first(text: str, proper: frozenset[str]) -> str:
    """A sentence as it stands inside another: its first word in lower case, unless it is a proper one."""
    word = WORDS.match(text)
    first = word[0] if word else ""
    if first.lower() in proper or first.split("'")[0] == "I":
        return text
    return text[:1].lower() + text[1:]


Augmentation = Callable[[Pair, Material, random.Random], Pair | None]
AUGMENTATIONS: dict[str, Augmentation] = {
    "case": change_case,
    "typos": add_typos,
    "punctuation": change_punctuation,
    "emoji": add_emoji,
    "names": swap_names,
    "numbers": swap_numbers,
    "joined": join_pairs,
}


def augment_pairs(material: Material, shares: dict[str, float], seed: int) -> list[Pair]:
    """New pairs by each augmentation, as many as its share of the pairs there are, or as many as can be made."""
    added: list[Pair] = []
    for name, share in shares.items():
        rng, made = random.Random(f"{seed} {name}"), 0
        wanted = round(share * len(material.pairs))
        for _ in range(wanted * ATTEMPTS):
            if made == wanted:
                break
            new = AUGMENTATIONS[name](pick(rng, material.pairs), material, rng)
            if new is not None:
                added.append(new)
                made += 1
    return added


def loose_key(sentence: str) -> str:
    """A sentence by its letters and digits alone, so that case and punctuation do not make it another one."""
    return " ".join(re.findall(r"\w+", sentence_key(sentence))) or sentence_key(sentence)


def exclude_sources(pairs: Iterable[Pair], sentences: Iterable[str]) -> list[Pair]:
    """The pairs whose source is not one of the sentences, whatever its case and punctuation."""
    keys = {loose_key(sentence) for sentence in sentences}
    return [pair for pair in pairs if loose_key(pair.source) not in keys]
