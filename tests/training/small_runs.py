"""Recipes small enough for a test, and the outcome of a run."""

import hashlib
import json
import random
from pathlib import Path

import msgspec

from transom.training.recipe import Recipe, parse_recipe
from transom.training.train import LOG, MODEL


def pairs_file(folder: Path, order: str = "reverse", count: int = 300, longest: int = 5) -> Path:
    """Pairs to learn: a few letters, and the same copied, reversed or sorted."""
    rng = random.Random(f"{order} {count}")
    reorder = {"copy": lambda x: x, "reverse": lambda x: x[::-1], "sort": lambda x: sorted(x)}[order]
    lines = []
    while len(lines) < count:
        source = [rng.choice("abcdefgh") for _ in range(rng.randint(1, longest))]
        lines.append(f"{' '.join(source)}\t{' '.join(reorder(source))}\n")
    path = folder / f"{order}.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def labelled_file(folder: Path, count: int = 200) -> Path:
    """Texts to classify: "many" if most of the letters are a."""
    rng = random.Random(count)
    lines: set[str] = set()
    while len(lines) < count:
        letters = [rng.choice("aab" if rng.random() < 0.5 else "abb") for _ in range(rng.choice((5, 7, 11)))]
        lines.add(f"{'many' if letters.count('a') * 2 > len(letters) else 'few'} {' '.join(letters)}\n")
    path = folder / "labelled.txt"
    path.write_text("".join(sorted(lines)), encoding="utf-8")
    return path


def small_recipe(folder: Path, file: Path, **sections: dict) -> Recipe:
    """A translator of a few thousand parameters; `sections` are changed on top."""
    table = {
        "task": "translate",
        "folder": str(folder),
        "data": {"train": str(file), "format": "tsv", "held_out": 20, "longest": 16},
        "tokens": {"kind": "words", "vocabulary": 40},
        "model": {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_hidden": 32, "heads": 2, "dropout": 0.1},
        "train": {
            "tokens": 64,
            "updates": 40,
            "judge_every": 10,
            "checkpoint_every": 3,
            "threads": 1,
            "smoothing": 0.1,
        },
        "judge": {"write": False},
    }
    for name, changes in sections.items():
        table[name] = {**table.get(name, {}), **changes} if isinstance(changes, dict) else changes
    return parse_recipe(table, "the test")


def recipe_to_dict(recipe: Recipe) -> dict:
    return msgspec.json.decode(msgspec.json.encode(recipe))


def outcome(recipe: Recipe) -> tuple[str, list[dict]]:
    """The SHA-256 of the parameters a run ended with, and its log."""
    folder = Path(recipe.folder)
    parameters = (folder / MODEL / "model.safetensors").read_bytes()
    lines = [json.loads(line) for line in (folder / LOG).read_text(encoding="utf-8").splitlines()]
    return hashlib.sha256(parameters).hexdigest(), lines
