"""Corpora in every format, plain and as .gz, damaged."""

import gzip
import random
from pathlib import Path
from typing import Any

from fuzz.mutations import damage_bytes, damage_text
from transom.files.untrusted_files import Limits
from transom.text.corpora import FORMATS, Labelled, Line, Pair

SMALL = Limits(line=2**12, document=2**14, ratio=20, unpacked=2**12)
CONTENTS = {
    "lines": "the cat sat\na dog\n\nthe old dog\n",
    "document": "To be, or not to be.\nThat is the question.\n",
    "labelled": "yes\tthe cat sat\nno\ta dog\n",
    "tsv": "source\ttarget\nthe cat\tle chat\na dog\tun chien\n",
    "csv": 'source,target\nthe cat,"le, chat"\na dog,"un ""chien"""\n',
    "jsonl": '{"translation": {"en": "cat", "fr": "chat"}, "label": 3}\n{"translation": {"en": "a", "fr": "b"}}\n',
    "parallel": "the cat\na dog\n",
}
CHOICES: dict[str, list[dict[str, Any]]] = {
    "tsv": [{"columns": ("source", "target"), "example": Pair}, {"columns": (0, 1), "example": Pair}],
    "csv": [{"columns": ("source", "target"), "example": Pair}, {"columns": (0, 1), "example": Pair}],
    "jsonl": [
        {"keys": ("translation.en", "translation.fr"), "example": Pair},
        {"keys": ("label",), "example": Line},
        {"keys": ("label", "translation.en"), "example": Labelled},
    ],
}


def prepare(folder: Path) -> Path:
    return folder


def try_input(folder: Path, rng: random.Random) -> str:
    name = rng.choice(list(CONTENTS))  # all but Parquet, which pyarrow reads
    paths = [write(folder / f"{number}", CONTENTS[name], rng) for number in range(2 if name == "parallel" else 1)]
    more = rng.choice(CHOICES.get(name, [{}]))
    for _ in FORMATS[name](*paths, limits=SMALL, **more):
        pass
    return name


def write(path: Path, text: str, rng: random.Random) -> Path:
    content = damage_text(text * rng.choice([1, 1, 3, 300]), rng).encode("utf-8", "replace")
    content = content if rng.random() < 0.6 else damage_bytes(content, rng)
    if rng.random() < 0.25:
        content = damage_bytes(gzip.compress(content, mtime=0), rng)
    path.write_bytes(content)
    return path
