"""Word-vector files in text and binary form: GloVe, word2vec, fastText .vec. Only the wanted rows are kept.

The sizes in a header are not trusted: they are checked against the size of the file, then against the rows that follow.
"""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from transom.files.untrusted_files import CHUNK, GZIP, LIMITS, Limits, open_bounded, read_raw_lines
from transom.names import Misfit

COPY = "take another copy of the file"
LONGEST_WORD = 2**12  # bytes
ROW = Limits(line=2**20)  # bytes of a row in text: room for 80,000 numbers
HEADER = re.compile(rb"(\d{1,18})[ \t](\d{1,18})[ \t\r]*\n?")
NUMBER_BYTES = frozenset(b"0123456789+-.eE \t\rnaifNAIF")

Vector = Float[np.ndarray, " d_model"]
Rows = Iterator[tuple[str, Vector]]


@dataclass
class BadRows:
    """What happens to a malformed row: it raises an error, or with `skip` it is counted and left out."""

    skip: bool = False
    count: int = 0
    first: str = ""

    def report(self, complaint: str) -> None:
        if not self.skip:
            raise Misfit(f"{complaint}; correct the file, or leave such rows out with skip_broken=True")
        self.count, self.first = self.count + 1, self.first or complaint


class VectorHeader(NamedTuple):
    """The sizes in the first line of a file."""

    rows: int
    width: int


def parse_header(line: bytes) -> VectorHeader | None:
    match = HEADER.fullmatch(line)
    return VectorHeader(int(match[1]), int(match[2])) if match else None


def check_header(path: Path, header: VectorHeader, per_row: int, per_number: int) -> None:
    """The file is large enough for the rows of its header, even if each is as short as possible."""
    if header.rows < 1 or header.width < 1:
        raise Misfit(f"{path}, line 1: expected sizes above 0, but it promises {header.rows} × {header.width}; {COPY}")
    size = path.stat().st_size
    with path.open("rb") as file:
        room = max(LIMITS.unpacked, LIMITS.ratio * size) if file.read(len(GZIP)) == GZIP else size
    least = header.rows * (per_row + per_number * header.width)
    if least > room:
        raise Misfit(
            f"{path}, line 1: it promises {header.rows} rows of {header.width} numbers, at least {least} bytes,"
            f" but the file can hold {room}; {COPY}"
        )


def read_text_rows(path: Path, wanted: Set[str], bad_rows: BadRows) -> Rows:
    """Rows of a word and its numbers, separated by spaces; a first line of two whole numbers is a header."""
    header, width, number = None, 0, 0
    for number, line in read_raw_lines(path, ROW):
        if number == 1 and (header := parse_header(line)):
            check_header(path, header, per_row=1, per_number=2)
            continue
        cut_off, line = not line.endswith(b"\n"), line.rstrip(b" \r\n")
        if not width:
            width = check_width(path, number, line, header)
        where = f"{path}, line {number}"
        word = parse_word(where, line, width, bad_rows)
        if word is not None and word in wanted:
            vector = parse_numbers(where, line, bad_rows, cut_off)
            if vector is not None:
                yield word, vector
    rows = number - (header is not None)
    if header and rows != header.rows:
        raise Misfit(f"{path}, line 1: it promises {header.rows} rows, but there are {rows}; {COPY}")
    if not rows:
        raise Misfit(f"{path} should hold word vectors, but it is empty; {COPY}")


def check_width(path: Path, number: int, line: bytes, header: VectorHeader | None) -> int:
    """How many numbers a row has, from the first row, which must be well-formed."""
    width = line.count(b" ")
    if header and width != header.width:
        raise Misfit(
            f"{path}, line {number}: expected a word and {header.width} numbers, as line 1 promises, but there are"
            f" {width + 1} columns; {COPY}"
        )
    if not width or parse_numbers("", line, BadRows(skip=True)) is None:
        raise Misfit(
            f"{path}, line {number}: expected a word and its numbers, separated by spaces, but there is something else;"
            " name a file of word vectors"
        )
    return width


def parse_word(where: str, line: bytes, width: int, bad_rows: BadRows) -> str | None:
    """The word of a row, if the row has the right number of columns."""
    columns = line.count(b" ") + 1
    if columns != width + 1:
        hint = " (a word with a space in it?)" if columns > width + 1 else ""
        return bad_rows.report(f"{where}: expected a word and {width} numbers, but there are {columns} columns{hint}")
    return decode_word(where, line.partition(b" ")[0], bad_rows)


def decode_word(where: str, word: bytes, bad_rows: BadRows) -> str | None:
    if not word:
        return bad_rows.report(f"{where}: expected a word, but there is none")
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        return bad_rows.report(f"{where}: a word must be UTF-8, but it has the byte 0x{word[error.start]:02x}")


def parse_numbers(where: str, line: bytes, bad_rows: BadRows, cut_off: bool = False) -> Vector | None:
    """The numbers of a row in text."""
    if cut_off:
        return bad_rows.report(f"{where}: expected a line end after the numbers, but the file ends (is it cut off?)")
    columns = line.split(b" ")[1:]
    try:
        if any(b"_" in column for column in columns):  # Python would read 1_0 as 10
            raise ValueError
        with np.errstate(over="ignore"):
            vector = np.array([float(column) for column in columns]).astype(np.float32)
    except ValueError:
        return bad_rows.report(f"{where}: expected numbers, but one of them is not a number")
    return require_finite(where, vector, bad_rows)


def require_finite(where: str, vector: Vector, bad_rows: BadRows) -> Vector | None:
    if not np.isfinite(vector).all():
        return bad_rows.report(f"{where}: expected finite numbers, but one is NaN, infinite or too large")
    return vector


def read_binary_rows(path: Path, wanted: Set[str], bad_rows: BadRows) -> Rows:
    """word2vec's binary form: a header line, then each word, a space, and its numbers in little-endian float32."""
    with open_bounded(path) as file:
        line = file.readline(64)
        header = parse_header(line)
        if header is None:
            raise Misfit(f"{path}, line 1: expected the number of rows and their width; {COPY}")
        check_header(path, header, per_row=1, per_number=4)
        offset = len(line)
        for row in range(1, header.rows + 1):
            where = f"{path}, byte {offset}"
            word = read_word(file, b" ")
            if len(word) > LONGEST_WORD:
                raise Misfit(f"{where}: a word may have {LONGEST_WORD} bytes, but this one is longer; {COPY}")
            if not word.endswith(b" "):
                raise Misfit(f"{where}: expected row {row} of {header.rows}, but the file ends; {COPY}")
            content = read_exactly(file, 4 * header.width)
            if len(content) < 4 * header.width:
                raise Misfit(f"{where}: row {row} of {header.rows} starts here, but the file ends in it; {COPY}")
            offset += len(word) + len(content)
            known = decode_word(where, word[:-1].lstrip(b"\n"), bad_rows)
            if known is not None and known in wanted:
                vector = require_finite(where, np.frombuffer(content, "<f4").astype(np.float32), bad_rows)
                if vector is not None:
                    yield known, vector
        if file.read(CHUNK).strip(b"\n"):
            raise Misfit(f"{path}, byte {offset}: the {header.rows} rows end here, but the file does not; {COPY}")


def read_word(file: BufferedReader, end: bytes) -> bytes:
    """The bytes up to and including the next `end`; fewer if the file stops, and few more than LONGEST_WORD at most."""
    word = b""
    while not word.endswith(end) and len(word) <= LONGEST_WORD and (piece := file.peek()):
        stop = piece.find(end)
        word += file.read(len(piece) if stop < 0 else stop + 1)
    return word


def read_exactly(file: BufferedReader, count: int) -> bytes:
    """The next `count` bytes, or all that are left; read in chunks, so that a false size costs no memory."""
    content = bytearray()
    while len(content) < count and (piece := file.read(min(count - len(content), CHUNK))):
        content += piece
    return bytes(content)


def looks_like_text(row: bytes, width: int) -> bool:
    """Whether the bytes after a header are a row of text, possibly a malformed one.

    The four bytes of a binary number may be anything, even a line end, so a single text character proves nothing.
    """
    numbers = row.partition(b" ")[2]
    if row.count(b" ") >= min(width, 2) and parse_numbers("", row, BadRows(skip=True)) is not None:
        return True
    return len(numbers) >= 8 and set(numbers) <= NUMBER_BYTES
