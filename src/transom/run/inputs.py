"""What a run learns from besides its recipe: each file of data and the tokenizer, by their SHA-256."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from transom.files.durable import digest
from transom.files.outside import checked
from transom.names import Misfit
from transom.run.examples import TOKENIZER
from transom.run.recipe import Recipe

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Inputs(Struct, frozen=True, forbid_unknown_fields=True):
    """SHA-256 of the files of data and vectors, by their paths in the recipe, and of the run's tokenizer."""

    files: dict[str, Sha256]
    tokenizer: Sha256


def hash_files(recipe: Recipe) -> dict[str, str]:
    """SHA-256 of every file that a recipe names to learn from or to be judged on: of the bytes on the disk, packed
    ones as they are."""
    named: list[str] = []
    for given in (recipe.data.train, recipe.data.valid, recipe.vectors and recipe.vectors.file):
        named += [given] if isinstance(given, str) else given or []
    return {name: digest(checked(name)) for name in dict.fromkeys(named)}


def hash_tokenizer(folder: Path) -> str:
    """SHA-256 of the tokenizer that lies in the folder of a run."""
    return digest(checked(folder / TOKENIZER))


def check_files(saved: Inputs, files: dict[str, str], folder: Path) -> None:
    """A run goes on only with the data it began with."""
    for name, found in files.items():
        if found != saved.files.get(name):
            raise Misfit(changed(folder, name, saved.files.get(name, "not kept"), found))


def check_tokenizer(saved: Inputs, folder: Path) -> None:
    """A run goes on only with the tokenizer it began with: its parameters belong to the tokens of that one."""
    file = folder / TOKENIZER
    found = hash_tokenizer(folder) if file.exists() else "gone"
    if found != saved.tokenizer:
        raise Misfit(changed(folder, str(file), saved.tokenizer, found))


def changed(folder: Path, name: str, was: str, found: str) -> str:
    return (
        f"{folder} holds a run that began with another {name}: its SHA-256 was {was} and is {found} now;"
        " restore that file, or choose another folder"
    )
