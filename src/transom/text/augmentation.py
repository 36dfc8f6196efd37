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
from transom.text.typos import mistype

ATTEMPTS = 40  # pairs that are tried for each one that is wanted
EMOJI = (  # noqa: SIM905
    "😀 😃 😄 😅 😆 😉 😊 😎 😍 😘 😢 😭 😡 😱 😴 🤔 🙄 👍 👎 👋 "
    "👏 🙏 💪 🤝 ❤️ 💔 💯 🔥 ✨ ⭐ 🎉 🎂 🎁 🎄 🌍 🌞 🌧️ ❄️ 🌹 🐱 "
    "🐶 🍕 🍰 ☕ 🍷 🚗 ✈️ 🚀 🏠 ⚽ 🎵 📷 📚 💻 📱 ✅ ❌ 😂 🍀 🥳"
).split()
EMOJI_BLOCKS = ((0x1F300, 0x1F320), (0x1F330, 0x1F37F), (0x1F380, 0x1F3C4), (0x1F400, 0x1F4FC), (0x1F500, 0x1F53D))
EMOJI_BLOCKS += ((0x1F600, 0x1F64F), (0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F90D, 0x1F93A), (0x1F947, 0x1F9FF))
FRENCH_END = ".!? \u00a0\u202f"
SHORT = {
    "you": "u",
    "are": "r",
    "please": "pls",
    "thanks": "thx",
    "because": "cuz",
    "tomorrow": "tmrw",
    "people": "ppl",
}
LONG_WORD = re.compile(r"[A-Za-z]{3,}")
NOT_ELIDED = re.compile(r"(?i)\b(que|quoique|lorsque|puisque) (?=[aeiouàâéèêîôœ])")
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


def add_typos(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """One to three typos in the source; the target is right. Sometimes an apostrophe is lost, or a word shortened."""
    text = pair.source
    matches = LONG_WORD.finditer(text)
    words = [match for match in matches if match.start() == 0 or match[0].lower() not in material.proper]
    count = min(pick(rng, [1, 1, 2, 2, 3]), len(words))
    if "'" in text and rng.random() < 0.3:
        return Pair(text.replace("'", ""), pair.target)
    if rng.random() < 0.05:
        text = re.sub(r"\w+", lambda word: SHORT.get(word[0].lower(), word[0]), text)
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


def draw_emoji(rng: random.Random) -> str:
    """An emoji that people often use, or any one of a block of Unicode."""
    return pick(rng, EMOJI) if rng.random() < 0.5 else chr(draw_number(rng, *pick(rng, EMOJI_BLOCKS)))


def add_emoji(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """One to three emoji after the sentence or before it, on both sides."""
    emoji = "".join(draw_emoji(rng) for _ in range(pick(rng, [1, 1, 1, 2, 2, 3])))
    if rng.random() < 0.15:
        return Pair(f"{emoji} {pair.source}", f"{emoji} {pair.target}")
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


def frame_pair(pair: Pair, material: Material, rng: random.Random) -> Pair | None:
    """A frame of the slot `frame` around training pairs: quotation marks, a name before them, another sentence."""
    if "frame" not in material.slots:
        return None
    made = fill_template(pick(rng, material.slots["frame"]), material.slots, rng)
    target = NOT_ELIDED.sub(lambda match: match[1][:-1] + "'", made.target)
    return Pair(made.source, re.sub(r"\b([Ss])i (ils?\b)", r"\1'\2", target))


def find_frame_values(pairs: Iterable[Pair], proper: frozenset[str]) -> Slots:
    """What frames are filled with: `pair`, any pair, and `clause`, a statement as it stands inside another sentence."""
    pairs = [pair for pair in pairs if not set("{}") & {*pair.source, *pair.target}]
    ends = [pair for pair in pairs if pair.source.endswith(".") and pair.target.endswith(".")]
    whole = [pair for pair in ends if "." not in pair.source[:-1] + pair.target[:-1]]
    clauses = [Pair(lower_first(pair.source[:-1], proper), lower_first(pair.target[:-1], proper)) for pair in whole]
    return {"pair": pairs, "clause": clauses}


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
    "framed": frame_pair,
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
