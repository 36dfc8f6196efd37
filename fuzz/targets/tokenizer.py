"""tokenizer.json of every kind damaged; one that loads encodes and decodes."""

import random
from pathlib import Path

from fuzz.mutations import WILD_STRINGS, damage_json
from transom.text.tokenizer import KINDS, Tokenizer

TEXTS = ["the cat sat on the mat", "a dog saw the cat", "déjà vu"]


def prepare(folder: Path) -> tuple[Path, list[bytes]]:
    path, found = folder / "tokenizer.json", []
    for kind, room in zip(KINDS, (270, 20, 20), strict=True):
        Tokenizer.train(kind, TEXTS, room).save(path)
        found.append(path.read_bytes())
    return path, found


def try_input(state: tuple[Path, list[bytes]], rng: random.Random) -> str:
    path, samples = state
    path.write_bytes(damage_json(rng.choice(samples), rng))
    tokenizer = Tokenizer.load(path)
    for text in (rng.choice(TEXTS), rng.choice(WILD_STRINGS)):
        ids = tokenizer.encode(text)
        tokenizer.decode(ids)
        tokenizer.pieces(ids)
        tokenizer.unknown_words(text)
    return "loaded"
