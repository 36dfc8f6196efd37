"""A token store while it is built: under another name, and after a kill it goes on from the last commit.

`progress.json` says how much has reached the disk, with the SHA-256 of each file so far.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from msgspec import Struct

from transom.files.atomic_files import (
    MANIFEST,
    ManifestEntry,
    fsync,
    save_manifest,
    write_errors_as_misfit,
    write_file,
)
from transom.names import Misfit
from transom.text.token_store import (
    ABOUT,
    FORMAT,
    OFFSETS,
    TEXTS,
    TOKENS,
    Count,
    StoreAbout,
    read_struct,
    store_files,
    token_dtype,
)

PROGRESS, BUILDING = "progress.json", ".building"


class StoreProgress(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How far a build has come: examples read, rows written, and size and SHA-256 of each file so far."""

    made_from: dict[str, Any]
    examples: Count
    rows: Count
    left_out: Count
    longest_seen: Count
    longer_sides: Count
    files: dict[str, ManifestEntry]


class StoreFile:
    """A file that grows, with the SHA-256 of its content so far."""

    def __init__(self, path: Path, entry: ManifestEntry | None) -> None:
        size = 0 if entry is None else entry.size
        self.path, self.sha256 = path, hashlib.sha256()
        self.file: IO[bytes] = path.open("r+b" if path.exists() else "w+b")
        while left := size - self.file.tell():
            piece = self.file.read(min(2**20, left))
            if not piece:
                break
            self.sha256.update(piece)
        if entry is not None and self.sha256.hexdigest() != entry.sha256:
            self.file.close()
            raise Misfit(f"{path} should have SHA-256 {entry.sha256}, but it was changed since; remove its folder")
        self.file.truncate()  # what came after the last commit

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.sha256.update(data)

    def commit(self) -> ManifestEntry:
        self.file.flush()
        os.fsync(self.file.fileno())
        return ManifestEntry(self.file.tell(), self.sha256.hexdigest())


class StoreBuilder:
    """A store that is being built. What `commit` has returned for is safe from a kill."""

    def __init__(self, folder: Path | str, columns: Sequence[str], vocabulary: int, made_from: dict[str, Any]) -> None:
        self.folder, self.vocabulary, self.dtype = Path(folder), vocabulary, token_dtype(vocabulary)
        self.columns = list(columns)
        self.building = building_path(self.folder)
        with write_errors_as_misfit(self.building):
            self.building.mkdir(parents=True, exist_ok=True)
            self.progress = self.read_progress(made_from)
            self.files: dict[str, StoreFile] = {}
            try:
                for name in store_files(columns):
                    self.files[name] = StoreFile(self.building / name, self.progress.files.get(name))
            except Misfit:
                self.close()
                raise
        if not self.progress.files:
            for name in columns:  # the first row starts at 0
                self.files[f"{name}{OFFSETS}"].write(np.zeros(1, "<i8").tobytes())
        self.ends = {name: self.last_offset(name) for name in columns}

    def read_progress(self, made_from: dict[str, Any]) -> StoreProgress:
        """How far an earlier build from the same data came; one from other data is started over."""
        path = self.building / PROGRESS
        if path.exists():
            progress: StoreProgress = read_struct(path, StoreProgress)
            if progress.made_from == made_from:
                return progress
        zero = {"examples": 0, "rows": 0, "left_out": 0, "longest_seen": 0, "longer_sides": 0}
        return StoreProgress(made_from=made_from, files={}, **zero)

    def last_offset(self, name: str) -> int:
        itemsize = self.dtype.itemsize
        entry = self.progress.files.get(f"{name}{TOKENS}")
        return 0 if entry is None else entry.size // itemsize

    def add_rows(self, rows: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Append rows: for each column, the tokens of each."""
        with write_errors_as_misfit(self.building):
            for name, column in rows.items():
                lengths = np.fromiter(map(len, column), np.int64, len(column))
                ends = self.ends[name] + np.cumsum(lengths)
                flat = np.fromiter((token for row in column for token in row), np.int64, int(lengths.sum()))
                self.files[f"{name}{TOKENS}"].write(flat.astype(self.dtype).tobytes())
                self.files[f"{name}{OFFSETS}"].write(ends.astype("<i8").tobytes())
                self.ends[name] = int(ends[-1]) if len(ends) else self.ends[name]

    def add_example(self, side: str, example: Any) -> None:
        """Append an example that is not trained on."""
        with write_errors_as_misfit(self.building):
            self.files[f"{side}{TEXTS}"].write(msgspec.json.encode(asdict(example)) + b"\n")

    def commit(self, **counts: int) -> None:
        """Bring all that was added to the disk; `counts` are the new values of examples, rows, left_out, …"""
        with write_errors_as_misfit(self.building):
            entries = {name: file.commit() for name, file in self.files.items()}
            self.progress = msgspec.structs.replace(self.progress, files=entries, **counts)
            write_file(self.building / PROGRESS, msgspec.json.encode(self.progress))

    def finish(self, labels: Sequence[str]) -> None:
        """Write description and manifest after the last commit, and give the folder its name."""
        progress = self.progress
        about = StoreAbout(
            format=FORMAT,
            made_from=progress.made_from,
            columns=self.columns,
            vocabulary=self.vocabulary,
            rows=progress.rows,
            left_out=progress.left_out,
            longest_seen=progress.longest_seen,
            longer_sides=progress.longer_sides,
            labels=list(labels),
        )
        data = msgspec.json.format(msgspec.json.encode(about), indent=2)
        self.close()
        with write_errors_as_misfit(self.folder):
            write_file(self.building / ABOUT, data)
            entry = ManifestEntry(len(data), hashlib.sha256(data).hexdigest())
            save_manifest(self.building, progress.files | {ABOUT: entry})
            for path in self.building.iterdir():
                if path.name not in {*progress.files, ABOUT, MANIFEST}:
                    path.unlink()
            self.building.rename(self.folder)
            fsync(self.folder.parent)

    def close(self) -> None:
        for file in self.files.values():
            file.file.close()


def building_path(folder: Path) -> Path:
    return folder.with_name(folder.name + BUILDING)


def remove_store(folder: Path) -> None:
    """Remove a store, and what a build of it left."""
    for path in (folder, building_path(folder)):
        if path.exists():
            with write_errors_as_misfit(path):
                shutil.rmtree(path)
