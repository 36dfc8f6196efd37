"""Text files from outside, read piece by piece: size limits, strict UTF-8, .gz; each error names the line."""

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from transom.names import Misfit

GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CHUNK = 2**16


@dataclass(frozen=True)
class Limits:
    """How large a file from outside may be, in bytes."""

    line: int = 2**24
    document: int = 2**30  # a file that is read at once
    ratio: int = 100  # how many times its packed size a .gz may unpack to …
    unpacked: int = 2**24  # … once it has unpacked to more than this


LIMITS = Limits()


class BoundedGzip(io.RawIOBase):
    """The content of a .gz, up to its limits."""

    def __init__(self, path: Path, packed: BinaryIO, limits: Limits) -> None:
        self.path, self.packed, self.limits = path, packed, limits
        self.stream = gzip.GzipFile(fileobj=packed, mode="rb")
        self.size = os.fstat(packed.fileno()).st_size
        self.unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            piece = self.stream.read1(min(len(buffer), CHUNK))
        except (OSError, EOFError, zlib.error) as error:
            raise Misfit(
                f"{self.path} starts like a .gz, but it cannot be unpacked ({error}); take another copy"
            ) from error
        self.unpacked += len(piece)
        if self.unpacked > self.limits.unpacked and self.unpacked > self.limits.ratio * self.size:
            raise Misfit(
                f"{self.path} may unpack to {self.limits.ratio} times its {self.size} bytes, but it has more than"
                f" {self.unpacked}; if this is intended, unpack it first"
            )
        buffer[: len(piece)] = piece
        return len(piece)


def require_file(path: Path | str) -> Path:
    """The path of a regular file."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte in it
        reason = getattr(error, "strerror", None) or error
        raise Misfit(f"{path} should be a file, but it cannot be opened: {reason}; check the path") from error
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "something else"
        raise Misfit(f"{path} should be a regular file, but it is {what}; name the file")
    return path


@contextmanager
def open_bounded(path: Path | str, limits: Limits = LIMITS) -> Iterator[io.BufferedReader]:
    """A file opened for reading bytes; one that starts like a .gz is unpacked, whatever its name."""
    path = require_file(path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise Misfit(f"{path} cannot be opened: {error.strerror}; let this user read it") from error
    with file:
        packed = file.peek(len(GZIP))[: len(GZIP)] == GZIP
        yield io.BufferedReader(BoundedGzip(path, file, limits), CHUNK) if packed else file


def read_raw_lines(path: Path | str, limits: Limits = LIMITS) -> Iterator[tuple[int, bytes]]:
    """Each line as bytes, with its number from 1 and its end; only \\n ends a line."""
    with open_bounded(path, limits) as file:
        number = 0
        while line := file.readline(limits.line + 1):
            number += 1
            if len(line) > limits.line:
                raise Misfit(
                    f"{path}, line {number}: a line may have {limits.line} bytes, but this one has more;"
                    " break it up, or check that the file is text"
                )
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            yield number, line


def decode_utf8(path: Path | str, content: bytes, line: int = 1) -> str:
    """The bytes decoded as UTF-8; `line` is the number of their first line."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line += content.count(b"\n", 0, error.start)
        raise Misfit(
            f"{path}, line {line}: text must be UTF-8, but byte 0x{content[error.start]:02x} is not;"
            " save the file as UTF-8"
        ) from error


def read_numbered_lines(path: Path | str, limits: Limits = LIMITS) -> Iterator[tuple[int, str]]:
    """Each line of a text, with its number from 1 and without its end; a byte-order mark at the start is left out."""
    for number, line in read_raw_lines(path, limits):
        yield number, decode_utf8(path, line.removesuffix(b"\n").removesuffix(b"\r"), number)


def read_bytes(path: Path | str, limits: Limits = LIMITS, way_out: str = "split it into parts") -> bytes:
    """The content of a file of at most `limits.document` bytes."""
    with open_bounded(path, limits) as file:
        content = file.read(limits.document + 1)
    if len(content) > limits.document:
        raise Misfit(f"{path} may have at most {limits.document} bytes, but it has more; {way_out}")
    return content
