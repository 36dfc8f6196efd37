"""Recipes: the shipped ones damaged, with changes by --set on top."""

import random
from pathlib import Path

from fuzz.mutations import WILD_STRINGS, WILD_TEXT, damage_bytes, damage_text
from transom.training.recipe import load_recipe

SETS = ["train.updates=5", "model.heads=2", "data.train='x'", "seed=1", "optimizer.rate=0.1", "tokens.size=300"]


class State:
    def __init__(self, folder: Path) -> None:
        recipes = Path(__file__).resolve().parents[2] / "recipes"
        self.texts = [path.read_text("utf-8") for path in sorted(recipes.glob("*.toml"))]
        self.path = folder / "recipe.toml"


def prepare(folder: Path) -> State:
    return State(folder)


def try_input(state: State, rng: random.Random) -> str:
    content = damage_text(rng.choice(state.texts), rng).encode("utf-8", "replace")
    state.path.write_bytes(content if rng.random() < 0.8 else damage_bytes(content, rng))
    load_recipe(state.path, wild_sets(rng) if rng.random() < 0.3 else [])
    return "read"


def wild_sets(rng: random.Random) -> list[str]:
    found = []
    for _ in range(rng.randrange(1, 3)):
        name, _, value = rng.choice(SETS).partition("=")
        name = rng.choice([name, name, name, f"{name}.a", "a." * 30 + "b", rng.choice(WILD_STRINGS)])
        found.append(f"{name}={rng.choice([value, rng.choice(WILD_TEXT), rng.choice(WILD_STRINGS)])}")
    return found
