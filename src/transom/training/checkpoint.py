"""Checkpoints of a run: saved atomically, pruned, and the newest intact one found."""

import fcntl
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple

from safetensors.torch import save as to_safetensors
from torch import Tensor

from transom.files.atomic_files import (
    atomic_folder,
    recover_folder,
    remove_folder,
    write_errors_as_misfit,
    write_file,
)
from transom.files.model_paths import path_exists
from transom.names import Misfit
from transom.training.checkpoint_files import (
    STATE,
    TENSORS,
    Checkpoint,
    checkpoint_path,
    is_best,
    is_group,
    load_checkpoint,
)

LOCK = ".lock"
MODEL, STEPS = "model", "checkpoints"  # in the folder of a run
Groups = Mapping[str, Mapping[str, Tensor]]


class FoundCheckpoint(NamedTuple):
    """A checkpoint, or None if there is none yet, and a line for each thing a person should know."""

    checkpoint: Checkpoint | None
    notes: list[str]


class Checkpoints(AbstractContextManager):
    """The checkpoints of one run; no other run may write to the folder while this is open.

    keep   how many of the newest to keep; the best one and the one the run resumed from are kept as well
    """

    def __init__(self, folder: Path | str, keep: int = 3) -> None:
        if keep < 1:
            raise Misfit(f"keep must be at least 1, but got {keep}; the last good checkpoint is always kept")
        self.folder, self.keep = Path(folder), keep
        self.lock = lock_folder(self.folder)
        try:
            self.notes = recover_folder(self.folder)
        except Misfit:
            self.close()
            raise
        self.resumed_from: int | None = None
        self.damaged: set[int] = set()

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another run use the folder."""
        self.lock.close()

    def path(self, step: int) -> Path:
        return checkpoint_path(self.folder, step)

    def save(self, step: int, tensors: Groups, state: Mapping[str, Any], best: bool = False) -> Path:
        """Save a step, which is on disk when this returns; then remove old ones."""
        path = self.path(step)
        for group in tensors:
            if not is_group(group):
                raise Misfit(f"a group of tensors needs a plain name like 'model', but got {group!r}; use letters")
        content = encode_state(path, {"step": step, "best": best, "state": dict(state)})
        with atomic_folder(path) as partial:
            for group, named_tensors in tensors.items():
                write_file(partial / f"{group}{TENSORS}", to_safetensors(unshare_tensors(named_tensors)))
            write_file(partial / STATE, content)
        self.damaged.discard(step)
        self.remove_old(step)
        return path

    def remove_old(self, saved: int) -> None:
        """Remove checkpoints older than a step that was just saved, except those to keep.

        Later steps are damaged ones that this run has yet to reach again; they do not count.
        """
        good = [step for step in list_steps(self.folder) if step <= saved and step not in self.damaged]
        best = max((step for step in good if is_best(self.path(step))), default=None)
        keep = {*good[-self.keep :], best, self.resumed_from}
        for step in list_steps(self.folder):
            if step < saved and step not in keep:
                remove_folder(self.path(step))

    def newest(self) -> FoundCheckpoint:
        """The newest intact checkpoint, to resume from."""
        found = find_newest(self.folder, self.notes, self.damaged)
        if found.checkpoint is not None:
            self.resumed_from = found.checkpoint.step
        return found

    def best(self) -> FoundCheckpoint:
        """The newest of those that were the best when they were saved."""
        return find_newest(self.folder, self.notes, self.damaged, only_best=True)


def find_newest(
    folder: Path, notes: Iterable[str] = (), damaged: set[int] | None = None, only_best: bool = False
) -> FoundCheckpoint:
    """The newest intact checkpoint in a folder that a run may be writing to; nothing there is changed.

    Damaged checkpoints are skipped with a note, and their steps added to `damaged`.
    """
    notes, reasons = [*notes], []
    for step in reversed(list_steps(folder)):
        path = checkpoint_path(folder, step)
        if only_best and not is_best(path):
            continue
        try:
            return FoundCheckpoint(load_checkpoint(path), notes)
        except Misfit as error:
            if damaged is not None:
                damaged.add(step)
            reasons.append(str(error))
            notes.append(f"skipped {path}: {error}")
    if reasons:
        raise Misfit(
            f"{folder} should hold an intact checkpoint, but all {len(reasons)} are damaged; the newest: {reasons[0]};"
            " or start again in a new folder"
        )
    return FoundCheckpoint(None, notes)


def lock_folder(folder: Path) -> IO[str]:
    """The open lock of a folder; the system releases it when this process ends in any way."""
    with write_errors_as_misfit(folder):
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


def list_steps(folder: Path) -> list[int]:
    """The saved steps in a folder, oldest first."""
    matches = (re.fullmatch(r"step-(\d{8}|[1-9]\d{8,})", path.name) for path in folder.iterdir() if path.is_dir())
    return sorted(int(match[1]) for match in matches if match)


def encode_state(path: Path, content: dict[str, Any]) -> bytes:
    """A state as JSON, which must decode to the same state."""
    try:
        text = json.dumps(content, indent=2, allow_nan=False)
    except TypeError as error:
        raise Misfit(f"{path} must save a state that fits JSON, but {error}; use numbers, text and lists") from error
    except ValueError as error:
        raise Misfit(f"{path} must save a state of finite numbers, but one is not; use None for no number") from error
    if json.loads(text) != content:
        raise Misfit(f"{path} must save a state that JSON returns unchanged; use lists, and text as keys")
    return text.encode() + b"\n"


def unshare_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors on the CPU that share no memory, as safetensors needs them."""
    unshared: dict[str, Tensor] = {}
    addresses = set()
    for name, tensor in tensors.items():
        contiguous = tensor.detach().cpu().contiguous()
        address = contiguous.untyped_storage().data_ptr()
        unshared[name] = contiguous.clone() if address in addresses else contiguous
        addresses.add(address)
    return unshared


def find_unfinished(folder: Path) -> Path | None:
    """The folder of a run that has checkpoints but no model yet, from that folder or the one its model will get."""
    run = folder.parent if folder.name == MODEL else folder
    if path_exists(run / MODEL) or not path_exists(run / STEPS):
        return None
    if not (run / STEPS).is_dir() or not list_steps(run / STEPS):
        return None
    return run
