"""The examples a recipe names, read, split, and turned into tokens."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from transom.names import Misfit
from transom.run.recipe import Data, Recipe
from transom.text.corpora import FORMATS
from transom.text.examples import Labelled, Line, Pair
from transom.text.held_out import split
from transom.text.ragged import Ragged
from transom.text.tokenizer import Tokenizer

Some = TypeVar("Some", Line, Pair, Labelled)
TOKENIZER = "tokenizer.json"
WHOLE_TEXTS = {"lines", "document"}  # a blank line means nothing there


def read(data: Data, files: str | list[str], kind: type[Some]) -> Iterator[Some]:
    """The examples of one or more files, in the recipe's format."""
    reader, named = FORMATS[data.format], [files] if isinstance(files, str) else files
    options: dict[str, Any] = {} if data.format in WHOLE_TEXTS else {"skip_blank": data.skip_blank}
    if data.format == "parallel":
        if len(named) != 2:
            raise Misfit(
                f"data.format = 'parallel' takes two files, but there are {len(named)}; give source and target"
            )
        yield from fitting(reader(*named, **options), kind, data)
        return
    parts = (data.columns or [0, 1], kind) if data.format in ("tsv", "jsonl") else ()
    for name in named:
        yield from fitting(reader(name, *parts, **options), kind, data)


def fitting(examples: Iterable[object], kind: type[Some], data: Data) -> Iterator[Some]:
    """The examples, once they are seen to be of the kind that the task learns from."""
    for example in examples:
        if not isinstance(example, kind):
            raise Misfit(
                f"this task learns from a {kind.__name__}, but data.format = {data.format!r} gives a"
                f" {type(example).__name__}; see recipes/reference.toml for the formats of each task"
            )
        yield example


def learned_and_held_out(recipe: Recipe, kind: type[Some], tested: bool) -> tuple[list[Some], list[Some]]:
    """What to learn from, and what to be judged on: files of their own, or sentences held out.

    tested   judged on the sentences that `data.test` keeps even from judging while learning, if there are any
    """
    data = recipe.data
    learned = list(read(data, data.train, kind))
    if data.test:
        learned, test = split(learned, data.test, recipe.seed)
        if tested:
            return learned, test
    if data.valid is not None:
        return learned, list(read(data, data.valid, kind))
    return split(learned, data.held_out, recipe.seed + 1)


def tokenizer(recipe: Recipe, texts: Iterable[str], folder: Path) -> Tokenizer:
    """The run's tokenizer: the one it began with, the one the recipe names, or a new one learned from the texts."""
    asked, kept = recipe.tokens, folder / TOKENIZER
    if kept.exists():
        return Tokenizer.load(kept)
    if asked.file is not None:
        found = Tokenizer.load(Path(asked.file))
    else:
        found = Tokenizer.train(asked.kind, texts, asked.vocabulary, asked.lowercase)
    folder.mkdir(parents=True, exist_ok=True)
    found.save(kept)
    return found


def encoded(tokenizer: Tokenizer, texts: Iterable[str]) -> Ragged:
    """Texts as tokens."""
    return Ragged.from_lists(tokenizer.encode_batch(list(texts)))
