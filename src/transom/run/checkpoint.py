"""A training run's folder: checkpoints that no kill can break, and damaged ones are told and passed over.

Each is a folder `step-00000123` of safetensors files, one per group of tensors, with state.json and a manifest. It
appears under its name only when all of it is on the disk.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from safetensors.torch import save as as_bytes
from torch import Tensor

from transom.files.durable import appearing, complaining, remove, tidied, write_file
from transom.names import Misfit
from transom.run.checkpoint_files import STATE, TENSORS, Checkpoint, averaged, is_group, path_of, read, says_best

__all__ = ["Checkpoint", "Checkpoints", "Found", "averaged", "find_newest", "path_of", "read", "steps"]
LOCK = ".lock"
Groups = Mapping[str, Mapping[str, Tensor]]


class Found(NamedTuple):
    """A checkpoint, or None where there is none yet, and a line for each thing a person should know."""

    checkpoint: Checkpoint | None
    notes: list[str]


class Checkpoints:
    """The checkpoints of one run, which no other run may write to as long as this is open.

    keep   how many of the newest stay; the best one, and the one the run went on from, stay besides
    """

    def __init__(self, folder: Path | str, keep: int = 3) -> None:
        if keep < 1:
            raise Misfit(f"keep must be at least 1, but got {keep}; the last good checkpoint always stays")
        self.folder, self.keep = Path(folder), keep
        self.lock = locked(self.folder)
        try:
            self.notes = tidied(self.folder)
        except Misfit:
            self.close()
            raise
        self.resumed_from: int | None = None
        self.damaged: set[int] = set()

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another run have the folder."""
        self.lock.close()

    def path(self, step: int) -> Path:
        return path_of(self.folder, step)

    def save(self, step: int, tensors: Groups, state: Mapping[str, Any], best: bool = False) -> Path:
        """Keep a step: it is there, on the disk, when this returns; then the oldest ones may go."""
        path = self.path(step)
        for group in tensors:
            check_group(group)
        content = as_json(path, {"step": step, "best": best, "state": dict(state)})
        with appearing(path) as partial:
            for group, named in tensors.items():
                write_file(partial / f"{group}{TENSORS}", as_bytes(apart(named)))
            write_file(partial / STATE, content)
        self.damaged.discard(step)
        self.rotate(step)
        return path

    def rotate(self, saved: int) -> None:
        """Remove what is older than a step that was just kept, but for those that must stay.

        Steps beyond it are damaged ones that this run has yet to reach again: they count for nothing.
        """
        good = [step for step in steps(self.folder) if step <= saved and step not in self.damaged]
        best = max((step for step in good if says_best(self.path(step))), default=None)
        stay = {*good[-self.keep :], best, self.resumed_from}
        for step in steps(self.folder):
            if step < saved and step not in stay:
                remove(self.path(step))

    def newest(self) -> Found:
        """The newest checkpoint that is whole, to go on from."""
        found = self.first_good(reversed(steps(self.folder)))
        if found.checkpoint is not None:
            self.resumed_from = found.checkpoint.step
        return found

    def best(self) -> Found:
        """The newest of those that were the best when they were kept."""
        return self.first_good(step for step in reversed(steps(self.folder)) if says_best(self.path(step)))

    def first_good(self, candidates: Iterable[int]) -> Found:
        return first_whole(self.folder, candidates, self.notes, self.damaged)


def first_whole(
    folder: Path, candidates: Iterable[int], notes: Iterable[str] = (), damaged: set[int] | None = None
) -> Found:
    """The first of some steps that is whole; what is damaged before it is told, and put into `damaged`."""
    told, reasons = [*notes], []
    for step in candidates:
        path = path_of(folder, step)
        try:
            return Found(read(path), told)
        except Misfit as error:
            if damaged is not None:
                damaged.add(step)
            reasons.append(str(error))
            told.append(f"skipped {path}: {error}")
    if reasons:
        raise Misfit(
            f"{folder} should hold a whole checkpoint, but all {len(reasons)} are damaged, the newest so:"
            f" {reasons[0]}; or start again in a new folder"
        )
    return Found(None, told)


def find_newest(folder: Path) -> Found:
    """The newest whole checkpoint in a folder that a run may be writing to: nothing there is changed."""
    return first_whole(folder, reversed(steps(folder)))


def locked(folder: Path) -> IO[str]:
    """The open lock of a folder; the system takes it back when this process ends, in whatever way."""
    with complaining(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read(20)
            lock.close()
            raise Misfit(
                f"{folder} must belong to one run, but process {holder or 'unknown'} is writing to it;"
                " wait until it ends, or choose another folder"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    return lock


def steps(folder: Path) -> list[int]:
    """The steps that were kept in a folder, oldest first."""
    named = (re.fullmatch(r"step-(\d{8}|[1-9]\d{8,})", path.name) for path in folder.iterdir() if path.is_dir())
    return sorted(int(match[1]) for match in named if match)


def as_json(path: Path, content: dict[str, Any]) -> bytes:
    """State as JSON, once it is sure to come back from it as it is."""
    try:
        text = json.dumps(content, indent=2, allow_nan=False)
    except TypeError as error:
        raise Misfit(
            f"{path} must keep a state that JSON can hold, but {error}; use numbers, text and lists"
        ) from error
    except ValueError as error:
        raise Misfit(
            f"{path} must keep a state that JSON can hold, but a number in it is not finite; use None for no number"
        ) from error
    if json.loads(text) != content:
        raise Misfit(f"{path} must keep a state that JSON gives back as it was; use lists and names that are text")
    return text.encode() + b"\n"


def check_group(group: str) -> None:
    if not is_group(group):
        raise Misfit(f"a group of tensors must have a plain name like 'model', but got {group!r}; use letters and _")


def apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as a file takes them: none lies in the memory of another, or with gaps."""
    found: dict[str, Tensor] = {}
    memories = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        memory = own.untyped_storage().data_ptr()
        found[name] = own.clone() if memory in memories else own
        memories.add(memory)
    return found
