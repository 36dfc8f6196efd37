"""The token store of a run: a corpus of any size, read twice and tokenised once, in constant memory.

The first pass checks every line, finds the split and draws a sample for the tokenizer; the second writes tokens.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from transom.files.atomic_files import sha256_of, write_file
from transom.files.untrusted_files import require_file
from transom.models.folder import TOKENIZER
from transom.names import Misfit
from transom.text.corpora import Example, Labelled, Line, Pair
from transom.text.holdout_split import HoldoutBorders
from transom.text.store_builder import StoreBuilder, building_path, remove_store
from transom.text.token_store import ABOUT, TokenStore, read_about, read_struct
from transom.text.tokenizer import Tokenizer
from transom.training.checkpoint import lock_folder
from transom.training.dataset import load_or_train_tokenizer, read_examples
from transom.training.recipe import Recipe, list_files

CHUNK = 2**12  # examples that are tokenised at once
COMMIT = 2**6  # chunks between two commits
SAMPLE = 100_000  # examples that the tokenizer is trained on, by default
MOST_LABELS = 10_000
SCAN = "scan.json"
COLUMNS: dict[type[Any], tuple[str, ...]] = {Pair: ("source", "target"), Labelled: ("text", "label"), Line: ("text",)}
Note = Callable[[str], None]


class CorpusScan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the first pass over a corpus found."""

    made_from: dict[str, Any]
    examples: int
    borders: tuple[float, float]
    labels: list[str]


class ScannedCorpus(NamedTuple):
    """A scan, and the sample of training examples that it drew."""

    scan: CorpusScan
    sample: list[Any]


def describe_source(recipe: Recipe) -> dict[str, Any]:
    """What a store is made from: the files by SHA-256, and the settings that decide what of them is in it."""
    data = recipe.data
    files = {path: sha256_of(require_file(path)) for path in list_files(data.train)}
    return {
        "task": recipe.task,
        "files": files,
        "format": data.format,
        "columns": list(data.columns or []),
        "skip_blank": data.skip_blank,
        "longest": 0 if recipe.task == "write" else data.longest,
        "held_out": 0 if recipe.task == "write" else data.held_out,
        "test": data.test,
        "seed": recipe.seed,
    }


def new_borders(recipe: Recipe) -> HoldoutBorders:
    held_out = 0 if recipe.task == "write" else recipe.data.held_out
    return HoldoutBorders(recipe.data.test, held_out, recipe.seed)


def scan_corpus(recipe: Recipe, kind: type[Example], made_from: dict[str, Any], note: Note) -> ScannedCorpus:
    """The first pass: every line checked, the borders of the split, the labels, and a sample of training examples."""
    finder, splits = new_borders(recipe), bool(recipe.data.test or made_from["held_out"])
    count, labels, sample = 0, set[str](), list[Any]()
    size = recipe.tokens.sample or SAMPLE
    rng = np.random.Philox(np.random.SeedSequence([recipe.seed, 0, 0]))
    for chunk in chunks(read_examples(recipe.data, recipe.data.train, kind), CHUNK):
        draws = rng.random_raw(len(chunk))
        for example, draw in zip(chunk, draws.tolist(), strict=True):
            if splits:
                finder.add(astuple(example)[0])
            if isinstance(example, Labelled):
                labels.add(example.label)
            count += 1
            keep_in_sample(sample, example, count, draw, size)
        if len(labels) > MOST_LABELS:
            raise Misfit(
                f"a classifier has up to {MOST_LABELS} labels, but the examples have more; is data.columns in order?"
            )
        if count % (CHUNK * COMMIT) == 0:
            note(f"read {count} examples, to check and split them")
    borders = finder.borders if splits else (0.0, 0.0)
    scan = CorpusScan(made_from, count, borders, sorted(labels))
    train = [example for example in sample if not splits or finder.side(astuple(example)[0], borders) == "train"]
    if not train:
        raise Misfit(
            f"both sides need examples, but data.held_out={recipe.data.held_out} and data.test={recipe.data.test} leave"
            f" none of {count} to train on; hold out fewer"
        )
    return ScannedCorpus(scan, train)


def chunks(examples: Iterable[Example], size: int) -> Iterator[tuple[Example, ...]]:
    """The examples in runs of `size`; the last may be shorter."""
    iterator = iter(examples)
    while chunk := tuple(islice(iterator, size)):
        yield chunk


def keep_in_sample(sample: list[Any], example: Any, count: int, draw: int, size: int) -> None:
    """Keep each of the first `count` examples with the same chance (Vitter 1985, algorithm R)."""
    if len(sample) < size:
        sample.append(example)
    elif (place := draw % count) < size:
        sample[place] = example


def open_stored_corpus(recipe: Recipe, kind: type[Example], folder: Path, note: Note) -> tuple[TokenStore, Tokenizer]:
    """The store of a recipe, built if it does not exist, and the tokenizer in the run's folder."""
    assert recipe.data.store is not None
    path, made_from = Path(recipe.data.store), describe_source(recipe)
    if (path / ABOUT).exists() and (folder / TOKENIZER).exists():
        if read_about(path).made_from == with_tokenizer(made_from, folder):
            store = TokenStore(path)
            note(f"{path}: {store.about.rows} rows, tokenised before; SHA-256 as it should be")
            return store, Tokenizer.load(folder / TOKENIZER)
        note(f"{path} was made from other data, settings or tokens, so it is built again")
        remove_store(path)
    lock = lock_folder(building_path(path))
    try:
        tokenizer = build_store(recipe, kind, folder, made_from, note)
    finally:
        lock.close()
    return TokenStore(path), tokenizer


def require_store(recipe: Recipe, kind: type[Example], folder: Path, note: Note) -> tuple[TokenStore, Tokenizer]:
    """The store of a recipe, as `open_stored_corpus` has it, but never built: for an evaluation."""
    path, made_from = Path(str(recipe.data.store)), describe_source(recipe)
    if not (path / ABOUT).exists() or read_about(path).made_from != with_tokenizer(made_from, folder):
        raise Misfit(
            f"{path} should be the token store of this data and of the tokenizer in {folder}, but it is not; start"
            " transom train once, which builds it, or name data.valid"
        )
    return TokenStore(path), Tokenizer.load(folder / TOKENIZER)


def with_tokenizer(made_from: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {**made_from, "tokenizer": sha256_of(folder / TOKENIZER)}


def build_store(recipe: Recipe, kind: type[Example], folder: Path, made_from: dict[str, Any], note: Note) -> Tokenizer:
    """Build the store, or go on with a build that was stopped; returns the tokenizer."""
    scan = find_scan(Path(str(recipe.data.store)), made_from) if (folder / TOKENIZER).exists() else None
    if scan is None:
        scan, sample = scan_corpus(recipe, kind, made_from, note)
        if recipe.tokens.file is None and not (folder / TOKENIZER).exists():
            note(f"the tokenizer is trained on {len(sample)} of {scan.examples} examples, drawn by the seed")
        texts = (text for example in sample for text in example_texts(example))
        tokenizer = load_or_train_tokenizer(recipe, texts, folder)
        write_file(building_path(Path(str(recipe.data.store))) / SCAN, msgspec.json.encode(scan))
    else:
        tokenizer = Tokenizer.load(folder / TOKENIZER)
    source = with_tokenizer(made_from, folder)
    builder = StoreBuilder(str(recipe.data.store), COLUMNS[kind], tokenizer.size, source)
    try:
        StoreWriting(recipe, tokenizer, scan, builder, note).run(kind)
    finally:
        builder.close()
    return tokenizer


def example_texts(example: Any) -> tuple[str, ...]:
    """What of an example is tokenised."""
    return (example.source, example.target) if isinstance(example, Pair) else (example.text,)


def find_scan(store: Path, made_from: dict[str, Any]) -> CorpusScan | None:
    """The scan of a build that was stopped, if it was of the same data."""
    path = building_path(store) / SCAN
    if not path.exists():
        return None
    scan: CorpusScan = read_struct(path, CorpusScan)
    return scan if scan.made_from == made_from else None


@dataclass
class StoreWriting:
    """The second pass: examples as tokens, chunk by chunk."""

    recipe: Recipe
    tokenizer: Tokenizer
    scan: CorpusScan
    builder: StoreBuilder
    note: Note

    def run(self, kind: type[Example]) -> None:
        recipe, progress = self.recipe, self.builder.progress
        self.finder = new_borders(recipe)
        self.splits = bool(recipe.data.test or self.scan.made_from["held_out"])
        self.numbers = {label: number for number, label in enumerate(self.scan.labels)}
        self.counts = {name: getattr(progress, name) for name in ("rows", "left_out", "longest_seen", "longer_sides")}
        done = progress.examples
        if done:
            self.note(f"going on after {done} of {self.scan.examples} examples")
        examples = islice(read_examples(recipe.data, recipe.data.train, kind), done, None)
        for number, chunk in enumerate(chunks(examples, CHUNK), 1):
            self.add_chunk(list(self.training_examples(chunk)))
            done += len(chunk)
            if number % COMMIT == 0 or done == self.scan.examples:
                self.builder.commit(examples=done, **self.counts)
                self.note(f"tokenised {done} of {self.scan.examples} examples ({done / self.scan.examples:.0%})")
        if done != self.scan.examples:
            raise Misfit(
                f"data.train should have {self.scan.examples} examples, but it has {done} now; leave it as it is while"
                " it is read, and start again"
            )
        if not self.counts["rows"]:
            raise Misfit(
                f"no side may have over {recipe.data.longest} tokens, but all {self.counts['left_out']} examples do;"
                " raise data.longest"
            )
        self.builder.finish(self.scan.labels)

    def training_examples(self, chunk: tuple[Any, ...]) -> Iterator[Any]:
        """Those of a chunk that are trained on; the others go into their files."""
        for example in chunk:
            side = self.finder.side(astuple(example)[0], self.scan.borders) if self.splits else "train"
            if side == "train":
                yield example
            else:
                self.builder.add_example(side, example)

    def add_chunk(self, examples: list[Any]) -> None:
        """Tokenise examples, leave out or truncate long ones, and append them."""
        encode, longest, task = self.tokenizer.encode_batch, self.recipe.data.longest, self.recipe.task
        if task == "translate":
            sides = [encode([pair.source for pair in examples]), encode([pair.target for pair in examples])]
            rows = list(zip(*sides, strict=True))
            around = [wrapping.room for wrapping in self.tokenizer.pair_wrappings()]
            lengths = [max(len(row[0]) + around[0], len(row[1]) + around[1]) for row in rows]
            rows = [row for row, length in zip(rows, lengths, strict=True) if length <= longest]
            self.count_rows(lengths, [length for length in lengths if length <= longest], len(lengths) - len(rows))
            self.builder.add_rows({"source": [row[0] for row in rows], "target": [row[1] for row in rows]})
        elif task == "classify":
            texts = encode([example.text for example in examples])
            wrapping = self.tokenizer.wrapping("encoder")
            short = [wrapping.wrap(row[: longest - wrapping.room]) for row in texts]
            lengths = [len(row) + wrapping.room for row in texts]
            self.count_rows(lengths, list(map(len, short)), sum(length > longest for length in lengths))
            self.builder.add_rows({"text": short, "label": [[self.numbers[example.label]] for example in examples]})
        else:
            ends = [] if self.scan.examples == 1 else [self.tokenizer.end]
            texts = [[*row, *ends] for row in encode([line.text for line in examples])]
            self.count_rows([], list(map(len, texts)), 0)
            self.builder.add_rows({"text": texts})

    def count_rows(self, lengths: list[int], written: list[int], long: int) -> None:
        self.counts["rows"] += len(written)
        self.counts["left_out"] += long
        self.counts["longest_seen"] = max(self.counts["longest_seen"], *lengths, 0)
        self.counts["longer_sides"] += sum(written)


def held_out_examples(recipe: Recipe, kind: type[Example], on_test_set: bool, note: Note) -> list[Any]:
    """The examples to evaluate on: the recipe's validation files, or those that are held out of a stored corpus.

    on_test_set   the examples of `data.test` instead, if there are any
    """
    side = "test" if on_test_set and recipe.data.test else "held_out"
    if side == "held_out" and recipe.data.valid is not None:
        return list(read_examples(recipe.data, recipe.data.valid, kind))
    made_from = describe_source(recipe)
    store = find_store(recipe, made_from)
    if store is not None:
        return list(store.examples(side, kind))
    scan, finder = scan_corpus(recipe, kind, made_from, note).scan, new_borders(recipe)
    examples = read_examples(recipe.data, recipe.data.train, kind)
    return [example for example in examples if finder.side(astuple(example)[0], scan.borders) == side]


def find_store(recipe: Recipe, made_from: dict[str, Any]) -> TokenStore | None:
    """The store of a recipe, if it was made from the same examples; it may have other tokens or another `longest`."""
    path, free = Path(str(recipe.data.store)), {"tokenizer", "longest"}
    if not (path / ABOUT).exists():
        return None
    saved = read_about(path).made_from
    same = all(saved.get(name) == value for name, value in made_from.items() if name not in free)
    return TokenStore(path) if same else None


def stored_labels(recipe: Recipe, note: Note) -> list[str]:
    """The labels of the training examples."""
    made_from = describe_source(recipe)
    store = find_store(recipe, made_from)
    return store.about.labels if store is not None else scan_corpus(recipe, Labelled, made_from, note).scan.labels
