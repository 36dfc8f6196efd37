"""Tensors and a JSON header in one safetensors file with checksums: what traces and replays share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from transom.files.atomic_files import write_file
from transom.files.documents import decode_json
from transom.files.safetensors_header import Checksums, add_checksums, read_header
from transom.names import Misfit

Header = TypeVar("Header", bound=msgspec.Struct)


class TensorReader:
    """The tensors of an open file, each loaded once and compared with its checksum."""

    def __init__(self, file: Any, sums: Checksums) -> None:
        self.file, self.names, self.sums = file, set(file.keys()), sums
        self.loaded: dict[str, Tensor] = {}

    def __call__(self, name: object) -> Tensor:
        if not isinstance(name, str) or name not in self.names:
            raise Misfit(f"it names a tensor {name!r:.60} that it does not hold")
        if name not in self.loaded:
            self.loaded[name] = self.sums.load(self.file, name)
        return self.loaded[name]


@dataclass(frozen=True)
class TensorFormat(Generic[Header]):
    """One kind of file: its name in the metadata, the type of its header, and how to get a new file."""

    name: str  # as in "transom trace 1": the header's key in the metadata is the second word
    header: type[Header]
    header_bytes: int  # the most that are read
    way_out: str

    @property
    def kind(self) -> str:
        return self.name.split()[1]

    def save(self, path: Path, header: Header, tensors: dict[str, Tensor]) -> None:
        """Write the file under a temporary name, then rename it."""
        arrays = {name: x.contiguous().numpy() for name, x in tensors.items()}
        text = {"format": self.name, self.kind: msgspec.json.encode(header).decode()}
        write_file(path, save(arrays, metadata=add_checksums(text, arrays)))

    @contextmanager
    def open_file(self, path: Path) -> Iterator[tuple[Header, TensorReader]]:
        """The header and the tensors of a file; whatever is wrong with it is an error that names the file."""
        try:
            header, sums = self.read_header(path)
            with safe_open(path, framework="pt") as file:
                yield header, TensorReader(file, sums)
        except OSError as error:
            raise Misfit(f"{path} cannot be read: {error.strerror or error}; is it the right path?") from error
        except (SafetensorError, msgspec.MsgspecError, Misfit) as error:
            raise Misfit(f"{path} is not a valid {self.kind}: {error}; {self.way_out}") from error

    def read_header(self, path: Path) -> tuple[Header, Checksums]:
        """The header, and the checksums of the tensors, before any tensor is loaded."""
        metadata = read_header(path, self.header_bytes).get("__metadata__")
        text = metadata if isinstance(metadata, dict) else {}
        if text.get("format") != self.name or not isinstance(text.get(self.kind), str):
            raise Misfit(f"its header does not say {self.name!r}")
        sums = Checksums.from_metadata(text)
        return decode_json(text[self.kind], self.header, max_bytes=self.header_bytes), sums


def check_dtype(x: Tensor, dtype: torch.dtype, axes: int) -> Tensor:
    """The tensor itself, if it has this dtype and this many axes."""
    if x.dtype != dtype or x.dim() != axes:
        raise Misfit(f"expected {dtype} with {axes} axes, but got {x.dtype} {tuple(x.shape)}")
    return x
