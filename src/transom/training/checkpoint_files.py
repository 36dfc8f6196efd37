"""The files of one checkpoint: loaded only if every file matches the manifest."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from torch import Tensor

from transom.files.atomic_files import MANIFEST, read_regular_file, verify_manifest
from transom.files.documents import MalformedDocument, decode_distinct_json
from transom.models.safetensors_files import load_tensors, read_tensor_info
from transom.names import Misfit

STATE, TENSORS = "state.json", ".safetensors"
LONGEST_STATE = 2**26  # bytes; a run's own has a few thousand
ANOTHER_COPY = "take another copy of the folder"


class StateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What state.json holds; whoever saved `state` checks its content."""

    step: Annotated[int, msgspec.Meta(ge=0)]
    best: bool
    state: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A saved step: tensors by group and name, and the other numbers."""

    path: Path
    step: int
    best: bool
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]

    def group(self, name: str) -> dict[str, Tensor]:
        """A group of tensors that every checkpoint of a run has."""
        if name not in self.tensors:
            raise Misfit(f"{self.path} must hold {name}{TENSORS}, but it does not; choose another folder")
        return self.tensors[name]


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def is_group(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None


def load_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint, after each of its files is checked against the manifest."""
    with disk_errors_as_misfit(path):
        files = verify_manifest(path).files
        check_listed(path, files)
        content = read_state(path)
        groups = [name.removesuffix(TENSORS) for name in files if name.endswith(TENSORS)]
        tensors = {group: read_group(path, group) for group in groups}
    return Checkpoint(path, content.step, content.best, tensors, content.state)


@contextmanager
def disk_errors_as_misfit(path: Path) -> Iterator[None]:
    """An error of the disk as a Misfit that names the checkpoint."""
    try:
        yield
    except OSError as error:
        raise Misfit(f"{path} must be a readable checkpoint, but {error.strerror or error}; {ANOTHER_COPY}") from error


def check_listed(path: Path, files: Collection[str]) -> None:
    """The manifest lists every file that is read, and its tensor files have plain names."""
    for name in files:
        if name.endswith(TENSORS) and not is_group(name.removesuffix(TENSORS)):
            raise Misfit(f"{path} must hold groups with plain names, but it holds {name!r}; {ANOTHER_COPY}")
    expected = {STATE, *(file.name for file in path.iterdir() if file.name.endswith(TENSORS))}
    for name in sorted(expected - set(files)):
        raise Misfit(f"{path / MANIFEST} must list {name!r}, but it does not; {ANOTHER_COPY}")


def read_state(path: Path) -> StateFile:
    """state.json of a checkpoint; its step must be the one in the folder's name."""
    file = path / STATE
    try:
        document = decode_distinct_json(read_regular_file(file, LONGEST_STATE), max_bytes=LONGEST_STATE)
    except (OSError, MalformedDocument) as error:
        raise Misfit(f"{file} must be JSON, but it cannot be read ({error}); {ANOTHER_COPY}") from error
    try:
        content = msgspec.convert(document, StateFile)
    except msgspec.ValidationError as error:
        raise Misfit(f"{file} must hold step, best and state only, but it does not; {ANOTHER_COPY}") from error
    if path.name != checkpoint_path(path.parent, content.step).name:
        raise Misfit(f"{path} must hold the step in its name, but it holds step {content.step}; {ANOTHER_COPY}")
    return content


def is_best(path: Path) -> bool:
    """Whether a checkpoint was the best when it was saved; False if it cannot be read."""
    try:
        return read_state(path).best
    except Misfit:
        return False


def read_group(path: Path, group: str) -> dict[str, Tensor]:
    """The tensors of one group, copied out of the file."""
    file = path / f"{group}{TENSORS}"
    return {name: tensor.clone() for name, tensor in load_tensors(file, list(read_tensor_info(file)))}


def average_checkpoints(paths: Sequence[Path], group: str = "model") -> dict[str, Tensor]:
    """The mean of a group over several checkpoints, summed in float64; integers are those of the last."""
    if not paths:
        raise Misfit("an average needs at least one checkpoint, but there are none; give the paths of some")
    total: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        with disk_errors_as_misfit(path):
            if f"{group}{TENSORS}" not in verify_manifest(path).files:
                raise Misfit(f"{path} must hold {group}{TENSORS}, but it does not; choose a group it has")
            last = read_group(path, group)
        if total:
            check_same_tensors(path, last, total)
        total = {name: tensor.double() + total.get(name, 0.0) for name, tensor in last.items()}
    return {
        name: (total[name] / len(paths)).to(tensor.dtype) if tensor.is_floating_point() else tensor
        for name, tensor in last.items()
    }


def check_same_tensors(path: Path, tensors: dict[str, Tensor], earlier: dict[str, Tensor]) -> None:
    """A checkpoint has the same tensors as earlier ones of its run."""
    for name in sorted({*tensors, *earlier}):
        now, before = (tuple(group[name].shape) if name in group else "missing" for group in (tensors, earlier))
        if now != before:
            raise Misfit(
                f"checkpoints of one run hold the same tensors, but {name!r} is {now} in {path} and {before} before;"
                " average one run's"
            )
