"""A training run's folder: checkpoints that no kill can break, and damaged ones are told and passed over.

Each is a folder `step-00000123` of safetensors files, one per group of tensors, with state.json and a manifest. It
appears under its name only when all of it is on the disk.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from safetensors.torch import save as as_bytes
from torch import Tensor

from transom.files.durable import appearing, checked, complaining, remove, tidied, write_file
from transom.models.tensors import header, loaded
from transom.names import Misfit

STATE, LOCK, TENSORS = "state.json", ".lock", ".safetensors"
Groups = Mapping[str, Mapping[str, Tensor]]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was kept of one step: tensors by group and name, and the numbers beside them."""

    path: Path
    step: int
    best: bool
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


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
        notes, reasons = [*self.notes], []
        for step in candidates:
            try:
                return Found(read(self.path(step)), notes)
            except Misfit as error:
                self.damaged.add(step)
                reasons.append(str(error))
                notes.append(f"skipped {self.path(step)}: {error}")
        if reasons:
            raise Misfit(
                f"{self.folder} should hold a whole checkpoint, but all {len(reasons)} are damaged, the newest so:"
                f" {reasons[0]}; or start again in a new folder"
            )
        return Found(None, notes)


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


def path_of(folder: Path, step: int) -> Path:
    """Where a step is kept."""
    return folder / f"step-{step:08d}"


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
    if not re.fullmatch(r"[a-z][a-z0-9_]*", group):
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


def read(path: Path) -> Checkpoint:
    """A checkpoint, once each of its files is found to be what its manifest says."""
    files = checked(path).files
    state = read_state(path)
    groups = [name.removesuffix(TENSORS) for name in files if name.endswith(TENSORS)]
    tensors = {group: read_group(path, group) for group in groups}
    return Checkpoint(path, state["step"], state["best"], tensors, state["state"])


def read_state(path: Path) -> dict[str, Any]:
    """state.json of a checkpoint, with the step that its folder is named after."""
    way_out = "take another copy of the folder"
    try:
        found = json.loads((path / STATE).read_bytes())
    except (OSError, ValueError) as error:
        raise Misfit(f"{path / STATE} must be there as JSON, but it cannot be read ({error}); {way_out}") from error
    kinds = {"step": int, "best": bool, "state": dict}
    if not isinstance(found, dict) or {name: type(value) for name, value in found.items()} != kinds:
        raise Misfit(f"{path / STATE} must hold step, best and state alone, but it does not; {way_out}")
    if path.name != path_of(path.parent, found["step"]).name:
        raise Misfit(f"{path} must hold the step of its name, but it holds step {found['step']}; {way_out}")
    return found


def says_best(path: Path) -> bool:
    """Whether a checkpoint was the best when it was kept; one that cannot be read was not."""
    try:
        return read_state(path)["best"]
    except Misfit:
        return False


def read_group(path: Path, group: str) -> dict[str, Tensor]:
    """The tensors of one group, in memory of their own."""
    file = path / f"{group}{TENSORS}"
    return {name: tensor.clone() for name, tensor in loaded(file, list(header(file)))}


def averaged(paths: Sequence[Path], group: str = "model") -> dict[str, Tensor]:
    """The mean of a group over some checkpoints, added up in float64; whole numbers are those of the last."""
    if not paths:
        raise Misfit("an average needs at least one checkpoint, but none came; give the paths of some")
    total: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        if f"{group}{TENSORS}" not in checked(path).files:
            raise Misfit(f"{path} must hold {group}{TENSORS}, but it does not; choose a group it has")
        last = read_group(path, group)
        check_alike(path, last, total)
        total = {name: tensor.double() + total.get(name, 0.0) for name, tensor in last.items()}
    return {
        name: (total[name] / len(paths)).to(tensor.dtype) if tensor.is_floating_point() else tensor
        for name, tensor in last.items()
    }


def check_alike(path: Path, tensors: dict[str, Tensor], others: dict[str, Tensor]) -> None:
    """Checkpoints of one run hold the same tensors."""
    if not others:
        return
    for name in sorted({*tensors} ^ {*others}):
        where = "lacks" if name in others else "alone has"
        raise Misfit(f"checkpoints of one run hold the same tensors, but {path} {where} {name!r}; average one run's")
    for name, tensor in tensors.items():
        if tensor.shape != others[name].shape:
            raise Misfit(
                f"checkpoints of one run hold the same tensors, but {name!r} is {tuple(tensor.shape)} in {path} and"
                f" {tuple(others[name].shape)} before; average one run's"
            )
