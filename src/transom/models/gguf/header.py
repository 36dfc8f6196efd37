"""The header of a GGUF file, read under limits: sizes, counts and offsets are checked before anything is believed."""

import math
import struct
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from transom.files.untrusted_files import require_file
from transom.names import Misfit

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_KEYS, MOST_TENSORS = 2**12, 2**16
LONGEST_NAME, LONGEST_TEXT = 2**8, 2**22  # bytes
MOST_ITEMS = 2**22  # of an array: more than any vocabulary has
MOST_BYTES = 2**28  # of all metadata together
MOST_NUMBERS = 2**40  # of a tensor
ALIGNMENT = 32
TEXT, ARRAY, FLAG = 8, 9, 7
# Types of values in the metadata: the letter of `struct` and of numpy.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", FLAG: "?", 10: "Q", 11: "q", 12: "d"}


class TensorType(NamedTuple):
    """A type of tensors: its name, and how many bytes a block of so many numbers takes."""

    name: str
    block: int
    size: int


TENSOR_TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    8: TensorType("Q8_0", 32, 34),
    12: TensorType("Q4_K", 256, 144),
    14: TensorType("Q6_K", 256, 210),
    30: TensorType("BF16", 1, 2),
}


class GgufTensor(NamedTuple):
    """Where a tensor lies; its shape is in PyTorch's order."""

    type: TensorType
    shape: tuple[int, ...]
    offset: int
    size: int


class GgufHeader(NamedTuple):
    """What a file says about itself, and its tensors by name."""

    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]


class HeaderReader:
    """Reads values one after another, and never more bytes than the file and the limits have."""

    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self.file, self.path, self.size, self.place = file, path, size, 0

    def error(self, reason: str) -> Misfit:
        return Misfit(f"{self.path} should be a GGUF file, but {reason}; take another copy")

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count > min(self.size, MOST_BYTES) - self.place:
            raise self.error(f"its header goes beyond {min(self.size, MOST_BYTES)} bytes")
        self.place += count
        content = self.file.read(count)
        if len(content) < count:
            raise self.error("it ends in its header")
        return content

    def number(self, letter: str) -> Any:
        return struct.unpack(f"<{letter}", self.take(struct.calcsize(f"<{letter}")))[0]

    def count(self, most: int, what: str) -> int:
        """A number of 64 bits that is a count."""
        count = self.number("Q")
        if count > most:
            raise self.error(f"it says {count} {what}, and at most {most} are read")
        return count

    def text(self, longest: int = LONGEST_TEXT) -> str:
        content = self.take(self.count(longest, "bytes of text"))
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"a text in it is not UTF-8 (byte {error.start})") from error

    def value(self) -> Any:
        """A value of the metadata: a number, a text, or a list of either."""
        kind = self.number("I")
        if kind == ARRAY:
            kind, items = self.number("I"), self.count(MOST_ITEMS, "items in a list")
            if kind == TEXT:
                return [self.text() for _ in range(items)]
            letter = self.letter(kind)
            return np.frombuffer(self.take(items * struct.calcsize(f"<{letter}")), dtype=f"<{letter}").tolist()
        return self.text() if kind == TEXT else self.number(self.letter(kind))

    def letter(self, kind: int) -> str:
        if kind not in NUMBERS:
            raise self.error(f"it has a value of type {kind}, which GGUF does not have, or a list of lists")
        return NUMBERS[kind]


def read_header(path: Path) -> GgufHeader:
    """The header of a file; every tensor in it lies inside the file, and no two overlap."""
    size = require_file(path).stat().st_size
    with path.open("rb") as file:
        reader = HeaderReader(file, path, size)
        if reader.take(4) != MAGIC:
            raise reader.error("it does not begin with GGUF")
        version = reader.number("I")
        if version not in VERSIONS:
            raise reader.error(f"it has version {version}, and Transom reads {' and '.join(map(str, VERSIONS))}")
        tensor_count = reader.count(MOST_TENSORS, "tensors")
        metadata = read_metadata(reader, reader.count(MOST_KEYS, "keys"))
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if type(alignment) is not int or not 8 <= alignment <= 2**16 or alignment % 8:
            raise reader.error(f"its alignment is {alignment!r:.40}")
        infos = [read_tensor_info(reader) for _ in range(tensor_count)]
        start = -(-reader.place // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    for name, tensor in infos:
        if name in tensors:
            raise reader.error(f"it has {name!r} twice")
        if tensor.offset % alignment or start + tensor.offset + tensor.size > size:
            raise reader.error(f"{name!r} does not lie in the file")
        tensors[name] = tensor._replace(offset=start + tensor.offset)
    check_apart(reader, tensors)
    return GgufHeader(metadata, tensors)


def read_metadata(reader: HeaderReader, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        name = reader.text(LONGEST_NAME)
        if name in metadata:
            raise reader.error(f"it has {name!r} twice")
        metadata[name] = reader.value()
    return metadata


def read_tensor_info(reader: HeaderReader) -> tuple[str, GgufTensor]:
    """A tensor's name, and where it lies after the end of the header."""
    name, axes = reader.text(LONGEST_NAME), reader.number("I")
    if not 1 <= axes <= 4:
        raise reader.error(f"{name!r} has {axes} axes")
    shape = tuple(reader.number("Q") for _ in range(axes))[::-1]
    kind, offset = reader.number("I"), reader.number("Q")
    if kind not in TENSOR_TYPES:
        known = ", ".join(known.name for known in TENSOR_TYPES.values())
        raise Misfit(f"{reader.path} holds {name!r} in type {kind}, but Transom reads {known}; convert it")
    found = TENSOR_TYPES[kind]
    numbers = math.prod(shape)
    if not 1 <= numbers <= MOST_NUMBERS or shape[-1] % found.block:
        raise reader.error(f"{name!r} cannot be {shape} in {found.name}")
    return name, GgufTensor(found, shape, offset, numbers // found.block * found.size)


def check_apart(reader: HeaderReader, tensors: dict[str, GgufTensor]) -> None:
    """Raise an error if two tensors overlap: then a small file could claim to hold very much."""
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].offset):
        if tensor.offset < end:
            raise reader.error(f"{name!r} begins inside another tensor")
        end = tensor.offset + tensor.size
