"""Files of word vectors: GloVe and word2vec text, fastText .vec, word2vec binary. Only the rows asked for are kept.

A header is a promise, so nothing of its size is made: it is held against the size of the file, and then against the
rows that come.
"""

import re
from collections.abc import Callable, Iterator, Set
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from transom.files.outside import CHUNK, GZIP, LIMITS, Limits, opened, raw_lines
from transom.names import Misfit
from transom.text.broken_rows import COPY, LONGEST_WORD, Broken
from transom.text.fasttext_bin import MAGIC, fasttext_rows

ROW = Limits(line=2**20)  # bytes of a row in text: room for 80,000 numbers
HEADER = re.compile(rb"(\d{1,18})[ \t](\d{1,18})[ \t\r]*\n?")
SIGNS_OF_NUMBERS = frozenset(b"0123456789+-.eE \t\rnaifNAIF")

Rows = Iterator[tuple[str, Float[np.ndarray, " d_model"]]]


class Header(NamedTuple):
    """What the first line of a file promises."""

    rows: int
    width: int


def header_of(line: bytes) -> Header | None:
    found = HEADER.fullmatch(line)
    return Header(int(found[1]), int(found[2])) if found else None


def check_header(path: Path, header: Header, per_row: int, per_number: int) -> None:
    """The rows that a header promises fit into the file, even if each is as short as can be."""
    if header.rows < 1 or header.width < 1:
        raise Misfit(
            f"{path}, line 1: expected rows and numbers, but it promises {header.rows} × {header.width}; {COPY}"
        )
    size = path.stat().st_size
    with path.open("rb") as file:
        room = max(LIMITS.unpacked, LIMITS.ratio * size) if file.read(len(GZIP)) == GZIP else size
    least = header.rows * (per_row + per_number * header.width)
    if least > room:
        raise Misfit(
            f"{path}, line 1: it promises {header.rows} rows of {header.width} numbers, at least {least} bytes,"
            f" but the file can hold {room}; {COPY}"
        )


def text_rows(path: Path, wanted: Set[str], broken: Broken) -> Rows:
    """Rows of a word and its numbers, divided by spaces; a first line of two whole numbers is a header."""
    header, width, number = None, 0, 0
    for number, line in raw_lines(path, ROW):
        if number == 1 and (header := header_of(line)):
            check_header(path, header, per_row=1, per_number=2)
            continue
        cut_off, line = not line.endswith(b"\n"), line.rstrip(b" \r\n")
        if not width:
            width = checked_width(path, number, line, header)
        word = word_of(f"{path}, line {number}", line, width, broken)
        if word is not None and word in wanted:
            numbers = numbers_of(f"{path}, line {number}", line, broken, cut_off)
            if numbers is not None:
                yield word, numbers
    rows = number - (header is not None)
    if header and rows != header.rows:
        raise Misfit(f"{path}, line 1: it promises {header.rows} rows, but there are {rows}; {COPY}")
    if not rows:
        raise Misfit(f"{path} should hold word vectors, but it is empty; {COPY}")


def checked_width(path: Path, number: int, line: bytes, header: Header | None) -> int:
    """How many numbers a row has, by the first one, which must be good."""
    width = line.count(b" ")
    if header and width != header.width:
        raise Misfit(
            f"{path}, line {number}: expected a word and {header.width} numbers, as line 1 promises, but there are"
            f" {width + 1} columns; {COPY}"
        )
    if not width or numbers_of("", line, Broken(skip=True)) is None:
        raise Misfit(
            f"{path}, line {number}: expected a word and its numbers, divided by spaces, but there is something else;"
            " name a file of word vectors"
        )
    return width


def word_of(where: str, line: bytes, width: int, broken: Broken) -> str | None:
    """The word of a row, if the row is whole."""
    columns = line.count(b" ") + 1
    if columns != width + 1:
        hint = " (a word with a space in it?)" if columns > width + 1 else ""
        return broken.found(f"{where}: expected a word and {width} numbers, but there are {columns} columns{hint}")
    return decoded_word(where, line.partition(b" ")[0], broken)


def decoded_word(where: str, word: bytes, broken: Broken) -> str | None:
    if not word:
        return broken.found(f"{where}: expected a word, but there is none")
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        return broken.found(f"{where}: a word must be UTF-8, but byte 0x{word[error.start]:02x} fits nowhere")


def numbers_of(where: str, line: bytes, broken: Broken, cut_off: bool = False) -> Float[np.ndarray, " d_model"] | None:
    """The numbers of a row in text."""
    if cut_off:
        return broken.found(f"{where}: expected a line end after the numbers, but the file ends (is it cut off?)")
    parts = line.split(b" ")[1:]
    try:
        if b"_" in line.partition(b" ")[2]:  # Python would read 1_0 as 10
            raise ValueError
        with np.errstate(over="ignore"):
            numbers = np.array([float(part) for part in parts]).astype(np.float32)
    except ValueError:
        return broken.found(f"{where}: expected numbers, but one of them is none")
    return finite(where, numbers, broken)


def finite(where: str, numbers: np.ndarray, broken: Broken) -> Float[np.ndarray, " d_model"] | None:
    if not np.isfinite(numbers).all():
        return broken.found(f"{where}: expected finite numbers, but one is NaN, infinite or too large")
    return numbers


def binary_rows(path: Path, wanted: Set[str], broken: Broken) -> Rows:
    """word2vec's binary form: a header line, then word, space, and the numbers in four bytes each, little end first."""
    with opened(path) as file:
        line = file.readline(64)
        header = header_of(line)
        if header is None:
            raise Misfit(f"{path}, line 1: expected the number of rows and their width, but it is not there; {COPY}")
        check_header(path, header, per_row=1, per_number=4)
        offset = len(line)
        for row in range(header.rows):
            where = f"{path}, byte {offset}"
            word = exact_word(file, where, row, header)
            content = exactly(file, 4 * header.width)
            if len(content) < 4 * header.width:
                raise Misfit(f"{where}: row {row + 1} of {header.rows} begins here, but the file ends in it; {COPY}")
            offset += len(word) + 1 + len(content)
            known = decoded_word(where, word.lstrip(b"\n"), broken)
            if known is not None and known in wanted:
                numbers = finite(where, np.frombuffer(content, "<f4").astype(np.float32), broken)
                if numbers is not None:
                    yield known, numbers
        if file.read(CHUNK).strip(b"\n"):
            raise Misfit(f"{path}, byte {offset}: the {header.rows} rows end here, but the file goes on; {COPY}")


def exact_word(file: BufferedReader, where: str, row: int, header: Header) -> bytes:
    """The bytes up to the next space, which is read too."""
    word = b""
    while seen := file.peek():
        end = seen.find(b" ")
        word += file.read(len(seen) if end < 0 else end + 1)
        if end >= 0 and len(word) <= LONGEST_WORD:
            return word[:-1]
        if len(word) > LONGEST_WORD:
            raise Misfit(f"{where}: a word may have {LONGEST_WORD} bytes, but this one goes on; {COPY}")
    raise Misfit(f"{where}: expected row {row + 1} of {header.rows}, but the file ends; {COPY}")


def exactly(file: BufferedReader, count: int) -> bytes:
    """The next `count` bytes, or all that are left; a piece at a time, so that a lie costs no memory."""
    content = bytearray()
    while len(content) < count and (piece := file.read(min(count - len(content), CHUNK))):
        content += piece
    return bytes(content)


VECTOR_FORMATS: dict[str, Callable[[Path, Set[str], Broken], Rows]] = {
    "text": text_rows,
    "binary": binary_rows,
    "fasttext": fasttext_rows,
}


def detected(path: Path) -> str:
    """Which format a file has, by its first bytes."""
    with opened(path) as file:
        start = file.read(CHUNK)
    if start.startswith(MAGIC):
        return "fasttext"
    line, _, rest = start.partition(b"\n")
    header = header_of(line)
    if header is None:
        return "text"
    row = rest.partition(b"\n")[0].rstrip(b" \r")
    return "text" if not rest or like_text(row, header.width) else "binary"


def like_text(row: bytes, width: int) -> bool:
    """Whether what follows a header is a row of text, be it a broken one.

    Four bytes of a number may be any, a line end too; so one sign of text is not enough.
    """
    numbers = row.partition(b" ")[2]
    if row.count(b" ") >= min(width, 2) and numbers_of("", row, Broken(skip=True)) is not None:
        return True
    return len(numbers) >= 8 and set(numbers) <= SIGNS_OF_NUMBERS
