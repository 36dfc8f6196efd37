"""Word vectors in every format, fastText's .bin among them where gensim is, plain and as .gz, damaged."""

import gzip
import random
import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fuzz.mutations import damage_bytes, damage_text
from transom.text.word_vectors import word_vectors

WORDS = ["the", "cat", "déjà", "😀", ",", "10", "new-york"]
NUMBERS = np.random.default_rng(3).normal(size=(len(WORDS), 5)).astype(np.float32)


def prepare(folder: Path) -> tuple[Path, list[tuple[str, bytes]]]:
    rows = [(word, " ".join(f"{number:.4f}" for number in row)) for word, row in zip(WORDS, NUMBERS, strict=True)]
    text = "".join(f"{word} {numbers}\n" for word, numbers in rows)
    binary = b"".join(
        word.encode() + b" " + struct.pack("<5f", *row) + b"\n" for word, row in zip(WORDS, NUMBERS, strict=True)
    )
    found = [("text", text.encode()), ("text", f"7 5\n{text}".encode()), ("binary", b"7 5\n" + binary)]
    if find_spec("gensim") is not None:
        found.append(("fastText", save_fasttext(folder / "model.bin")))
    return folder / "vectors", found


def save_fasttext(path: Path) -> bytes:
    from gensim.models.fasttext import FastText, save_facebook_model

    sentences = [["the", "cat", "sat"], ["a", "dog", "saw", "the", "cat"]] * 3
    model = FastText(sentences, vector_size=5, min_count=1, bucket=11, epochs=1, seed=1, workers=1)
    save_facebook_model(model, str(path))
    return path.read_bytes()


def try_input(state: tuple[Path, list[tuple[str, bytes]]], rng: random.Random) -> str:
    path, samples = state
    kind, content = rng.choice(samples)
    if kind == "text" and rng.random() < 0.6:
        content = damage_text(content.decode(), rng).encode("utf-8", "replace")
    else:
        content = damage_bytes(content, rng)
    path.write_bytes(damage_bytes(gzip.compress(content, mtime=0), rng) if rng.random() < 0.15 else content)
    found = word_vectors(path, WORDS, skip_broken=rng.random() < 0.5)
    str(found.coverage)
    return kind
