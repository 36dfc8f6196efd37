"""A corpus as tokens on disk, read through memory maps: it may be larger than memory.

A store is a folder. Each column of its examples (`source` and `target`, or `text` and `label`) has two files: all
tokens row after row, and the offset of each row. `store.json` says what it was made from, `manifest.json` has size and
SHA-256 of every file. `text/store_builder.py` writes it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from transom.files.atomic_files import MANIFEST, verify_manifest
from transom.files.documents import MalformedDocument, decode_distinct_json
from transom.files.strict_settings import parse_json_object
from transom.files.untrusted_files import LIMITS
from transom.names import Misfit
from transom.text.batches import LengthFilter, Ragged
from transom.text.examples import Example

FORMAT = 1
ABOUT = "store.json"
SIDES = ("held_out", "test")  # examples that are not trained on, kept as texts
TOKENS, OFFSETS, TEXTS = ".tokens", ".offsets", ".jsonl"
LARGEST_ABOUT = 2**24
SMALL_VOCABULARY = 2**16  # up to this, a token takes two bytes
Count = Annotated[int, Meta(ge=0, lt=2**53)]
BUILD_AGAIN = "remove the folder, and it is built again"


class StoreAbout(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a store holds, and what it was made from."""

    format: int
    made_from: dict[str, Any]
    columns: list[str]
    vocabulary: Count
    rows: Count
    left_out: Count  # because they are too long
    longest_seen: Count
    longer_sides: Count  # sum over the rows of the length of the longer side
    labels: list[str]


def token_dtype(vocabulary: int) -> np.dtype:
    return np.dtype("<u2" if vocabulary <= SMALL_VOCABULARY else "<i4")


class TokenStore:
    """A finished store, opened; every file is checked against its SHA-256 first."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        files = verify_manifest(self.folder).files
        self.about = read_about(self.folder)
        expected = {ABOUT, *store_files(self.about.columns)}
        if missing := sorted(expected - set(files)):
            raise Misfit(f"{self.folder / MANIFEST} should list {missing[0]!r}, but it does not; {BUILD_AGAIN}")
        self.columns = {name: self.open_column(name) for name in self.about.columns}

    def open_column(self, name: str) -> Ragged:
        """The rows of a column, on disk until they are read."""
        offsets = open_array(self.folder / f"{name}{OFFSETS}", np.dtype("<i8"))
        if len(offsets) != self.about.rows + 1:
            raise Misfit(
                f"{self.folder} should have {self.about.rows} rows of {name}, but it has {len(offsets) - 1};"
                f" {BUILD_AGAIN}"
            )
        return Ragged(open_array(self.folder / f"{name}{TOKENS}", token_dtype(self.about.vocabulary)), offsets)

    @property
    def mean(self) -> float:
        """The mean length of a row's longer side."""
        return self.about.longer_sides / max(1, self.about.rows)

    def length_filter(self, longest: int) -> LengthFilter:
        """Which rows were short enough, and how many were not."""
        return LengthFilter(range(self.about.rows), self.about.left_out, longest, self.about.longest_seen)

    def examples(self, side: str, kind: type[Example]) -> Iterator[Example]:
        """The examples that are held out, or the test examples."""
        path = self.folder / f"{side}{TEXTS}"
        with path.open("rb") as file:
            for line in file:
                yield kind(**parse_json_object(line, str(path), 2 * LIMITS.line))  # pyright: ignore[reportArgumentType]


def store_files(columns: Sequence[str]) -> list[str]:
    arrays = [f"{name}{ending}" for name in columns for ending in (TOKENS, OFFSETS)]
    return [*arrays, *(f"{side}{TEXTS}" for side in SIDES)]


def open_array(path: Path, dtype: np.dtype) -> np.ndarray:
    """A file as a read-only array in memory maps."""
    if path.stat().st_size % dtype.itemsize:
        raise Misfit(f"{path} should hold numbers of {dtype.itemsize} bytes, but its size does not fit; {BUILD_AGAIN}")
    if not path.stat().st_size:  # nothing can be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="r")


def read_about(folder: Path) -> StoreAbout:
    return read_struct(folder / ABOUT, StoreAbout)


def read_struct(path: Path, kind: type[Any]) -> Any:
    """A JSON file of a store."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_ABOUT + 1)
        about = msgspec.convert(decode_distinct_json(content, max_bytes=LARGEST_ABOUT), kind)
    except (OSError, MalformedDocument, msgspec.ValidationError) as error:
        raise Misfit(f"{path} should describe a token store, but it cannot be read: {error}; {BUILD_AGAIN}") from error
    if getattr(about, "format", FORMAT) != FORMAT:
        raise Misfit(f"{path} should have format {FORMAT}, but it has {about.format}; {BUILD_AGAIN}")
    return about
