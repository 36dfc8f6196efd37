"""The data of a run: examples read and split, the tokenizer, and SHA-256 of the files, which a resumed run checks."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from transom.files.atomic_files import sha256_of
from transom.files.model_paths import is_gguf
from transom.files.untrusted_files import require_file
from transom.models.folder import CONFIG, TOKENIZER
from transom.models.gguf.header import read_header
from transom.models.safetensors_files import find_shards
from transom.names import Misfit
from transom.text.batches import Ragged
from transom.text.corpora import FORMATS, Example
from transom.text.gguf_tokenizer import load_gguf_tokenizer
from transom.text.holdout_split import split_examples
from transom.text.tokenizer import Tokenizer
from transom.training.recipe import DataSettings, Files, Recipe, adopts_model, list_files

WITH_COLUMNS = {"tsv", "csv", "parquet", "jsonl"}
SKIPS_BLANK = {"lines", "document"}  # formats that leave out blank lines anyway
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


def read_examples(data: DataSettings, files: str | list[str], kind: type[Example]) -> Iterator[Example]:
    """The examples of one or more files, in the recipe's format."""
    reader, paths = FORMATS[data.format], [files] if isinstance(files, str) else files
    args: tuple[Any, ...] = (data.columns or [0, 1], kind) if data.format in WITH_COLUMNS else ()
    kwargs: dict[str, Any] = {} if data.format in SKIPS_BLANK else {"skip_blank": data.skip_blank}
    if data.format != "parallel":
        examples = chain.from_iterable(reader(path, *args, **kwargs) for path in paths)
    elif len(paths) == 2:
        examples = reader(*paths, **kwargs)
    else:
        raise Misfit(f"data.format = 'parallel' takes two files, but there are {len(paths)}; give source and target")
    for example in examples:
        if not isinstance(example, kind):
            raise Misfit(
                f"this task trains on a {kind.__name__}, but data.format = {data.format!r} gives a"
                f" {type(example).__name__}; see recipes/reference.toml for the formats of each task"
            )
        yield example


def train_and_validation(recipe: Recipe, kind: type[Example], on_test_set: bool) -> tuple[list[Example], list[Example]]:
    """The training examples, and those to evaluate on: the recipe's validation files, or sentences held out.

    on_test_set   evaluate on the sentences of `data.test` instead, if there are any
    """
    data = recipe.data
    train = list(read_examples(data, data.train, kind))
    if data.test:
        train, test = split_examples(train, data.test, recipe.seed)
        if on_test_set:
            return train, test
    if data.valid is not None:
        return train, list(read_examples(data, data.valid, kind))
    return split_examples(train, data.held_out, recipe.seed + 1)


def load_or_train_tokenizer(recipe: Recipe, texts: Iterable[str], folder: Path) -> Tokenizer:
    """The tokenizer in the run's folder, the one the recipe names, or a new one trained on the texts."""
    settings, path = recipe.tokens, folder / TOKENIZER
    if path.exists():
        return Tokenizer.load(path)
    if recipe.start is not None and adopts_model(recipe):
        tokenizer = load_model_tokenizer(Path(recipe.start.model))
    elif settings.file is not None:
        tokenizer = Tokenizer.load(settings.file)
    else:
        choices = {"lowercase": settings.lowercase, "case": settings.case, "digits": settings.digits}
        tokenizer = Tokenizer.train(settings.kind, texts, settings.vocabulary, **choices)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(path)
    return tokenizer


def load_model_tokenizer(model: Path) -> Tokenizer:
    """The tokenizer of a model, in a folder or a GGUF file."""
    if is_gguf(model):
        return load_gguf_tokenizer(read_header(model).metadata, model)
    return Tokenizer.load(model / TOKENIZER)


def tokenize_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> Ragged:
    return Ragged.from_lists(tokenizer.encode_batch(list(texts)))


class InputHashes(Struct, frozen=True, forbid_unknown_fields=True):
    """SHA-256 of the files of data and vectors, by their paths in the recipe, and of the run's tokenizer."""

    files: dict[str, Sha256]
    tokenizer: Sha256


def hash_files(recipe: Recipe) -> dict[str, str]:
    """SHA-256 of every file of data and vectors that a recipe names, as it is on disk (a .gz stays packed)."""
    named: list[Files | None] = [recipe.data.train, recipe.data.valid, recipe.vectors and recipe.vectors.file]
    if recipe.start is not None:
        named.append(list_model_files(Path(recipe.start.model), adopts_model(recipe)))
    if recipe.augment is not None:
        named += [recipe.augment.pairs, recipe.augment.slots, recipe.augment.templates]
    paths = [path for files in [*named, recipe.data.everyday] for path in list_files(files)]
    return {path: sha256_of(require_file(path)) for path in dict.fromkeys(paths)}


def list_model_files(model: Path, with_config: bool) -> list[str]:
    """The files of a model that a run starts from."""
    if is_gguf(model):
        return [str(model)]
    return [str(model / name) for name in (TOKENIZER, *([CONFIG] if with_config else []), *find_shards(model))]


def check_tokenizer(saved: InputHashes, folder: Path) -> None:
    """A run resumes only with the tokenizer it started with, because its parameters belong to those tokens."""
    path = folder / TOKENIZER
    check_hash(folder, str(path), saved.tokenizer, sha256_of(require_file(path)) if path.exists() else "gone")


def check_hash(folder: Path, path: str, saved: str, now: str) -> None:
    """A run resumes only with the files it started with."""
    if now != saved:
        raise Misfit(
            f"{folder} holds a run that started with another {path}: its SHA-256 was {saved} and is {now} now;"
            " restore that file, or choose another folder"
        )
