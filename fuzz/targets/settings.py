"""`--set key=value` alone, against one good recipe."""

import random
from pathlib import Path

from fuzz.mutations import WILD_TEXT, damage_text
from fuzz.targets.recipe import SETS, wild_sets
from transom.training.recipe import load_recipe

RECIPE = 'task = "write"\nfolder = "a"\ndata = {train = "x", format = "lines", held_out = 3}\ntrain.updates = 5\n'


def prepare(folder: Path) -> Path:
    path = folder / "recipe.toml"
    path.write_text(RECIPE)
    return path


def try_input(path: Path, rng: random.Random) -> str:
    sets = wild_sets(rng) if rng.random() < 0.5 else [damage_text(rng.choice(SETS), rng)]
    if rng.random() < 0.05:
        sets.append(f"model.a={rng.choice(WILD_TEXT) * 400}")
    load_recipe(path, sets)
    return "read"
