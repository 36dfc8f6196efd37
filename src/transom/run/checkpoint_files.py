"""One checkpoint on the disk: the place where it is believed, once every file of it is what its manifest says."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from torch import Tensor

from transom.files.documents import Malformed, decode_distinct_json
from transom.files.durable import MANIFEST, checked, read_plain
from transom.models.tensors import header, loaded
from transom.names import Misfit

STATE, TENSORS = "state.json", ".safetensors"
LONGEST_STATE = 2**26  # bytes; a run's own has some thousand
ANOTHER_COPY = "take another copy of the folder"


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What state.json holds; what is in `state` is for the one that saved it to check."""

    step: Annotated[int, msgspec.Meta(ge=0)]
    best: bool
    state: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was kept of one step: tensors by group and name, and the numbers beside them."""

    path: Path
    step: int
    best: bool
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def path_of(folder: Path, step: int) -> Path:
    """Where a step is kept."""
    return folder / f"step-{step:08d}"


def is_group(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None


def read(path: Path) -> Checkpoint:
    """A checkpoint, once each of its files is found to be what its manifest says."""
    with reading(path):
        files = checked(path).files
        check_listed(path, files)
        state = read_state(path)
        groups = [name.removesuffix(TENSORS) for name in files if name.endswith(TENSORS)]
        tensors = {group: read_group(path, group) for group in groups}
    return Checkpoint(path, state.step, state.best, tensors, state.state)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Trouble with the disk as a Misfit that names the checkpoint."""
    try:
        yield
    except OSError as error:
        raise Misfit(
            f"{path} must be a checkpoint that can be read, but {error.strerror or error}; {ANOTHER_COPY}"
        ) from error


def check_listed(path: Path, files: Collection[str]) -> None:
    """Whatever is believed of a checkpoint is in its manifest, and what is in it has the name of such a file."""
    for name in files:
        if name.endswith(TENSORS) and not is_group(name.removesuffix(TENSORS)):
            raise Misfit(f"{path} must hold groups with plain names, but it holds {name!r}; {ANOTHER_COPY}")
    held = {STATE, *(file.name for file in path.iterdir() if file.name.endswith(TENSORS))}
    for name in sorted(held - set(files)):
        raise Misfit(f"{path / MANIFEST} must list {name!r}, but it does not; {ANOTHER_COPY}")


def read_state(path: Path) -> State:
    """state.json of a checkpoint, with the step that its folder is named after."""
    file = path / STATE
    try:
        found = decode_distinct_json(read_plain(file, LONGEST_STATE), most=LONGEST_STATE)
    except (OSError, Malformed) as error:
        raise Misfit(f"{file} must be there as JSON, but it cannot be read ({error}); {ANOTHER_COPY}") from error
    try:
        state = msgspec.convert(found, State)
    except msgspec.ValidationError as error:
        raise Misfit(f"{file} must hold step, best and state alone, but it does not; {ANOTHER_COPY}") from error
    if path.name != path_of(path.parent, state.step).name:
        raise Misfit(f"{path} must hold the step of its name, but it holds step {state.step}; {ANOTHER_COPY}")
    return state


def says_best(path: Path) -> bool:
    """Whether a checkpoint was the best when it was kept; one that cannot be read was not."""
    try:
        return read_state(path).best
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
        with reading(path):
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
