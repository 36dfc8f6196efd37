"""fastText's .bin format, read by gensim (the extra `vectors`) after the file's sizes are checked.

gensim trusts the sizes in the file, and never stops looking for the end of a word that is cut off.
"""

import struct
from collections.abc import Set
from io import BufferedReader
from pathlib import Path

import numpy as np

from transom.names import Misfit
from transom.text.word_vector_files import COPY, LONGEST_WORD, BadRows, Rows, read_word, require_finite

MAGIC = struct.pack("<i", 793712314)
VERSIONS = (11, 12)
LONGEST_PIECE = 16  # letters; 6 is usual, and gensim keeps a number for each piece of each word


def read_fasttext_rows(path: Path, wanted: Set[str], bad_rows: BadRows) -> Rows:
    """The vectors of the wanted words that were in fastText's own corpus."""
    check_file_sizes(path)
    try:
        from gensim.models.fasttext import load_facebook_vectors
    except ImportError as error:
        raise Misfit(
            f"{path} is fastText's .bin, which needs gensim, but it is not installed; pip install 'transom[vectors]',"
            " or use the .vec"
        ) from error
    try:
        vectors = load_facebook_vectors(str(path.resolve()))  # an absolute path cannot look like a URL
        words = [str(word) for word in vectors.key_to_index if word in wanted]
        rows = [(word, np.array(vectors[word], dtype=np.float32)) for word in words]
    except Exception as error:  # gensim raises all kinds of errors at a damaged file
        raise Misfit(f"{path} should be fastText's .bin, but gensim cannot read it ({error!r}); {COPY}") from error
    for word, vector in rows:
        if require_finite(f"{path}, word {word!r}", vector, bad_rows) is not None:
            yield word, vector


def check_file_sizes(path: Path) -> None:
    """Walk through the file as gensim will, and check that the bytes for each size are there."""
    size = path.stat().st_size
    with path.open("rb") as file:
        magic, version, width, *settings = read_struct(file, path, "<4sii11id")
        bucket, _, longest_piece = settings[7:10]
        if magic != MAGIC or version not in VERSIONS:
            raise Misfit(f"{path} should be fastText's .bin, version 11 or 12, but is not; unpack it, or use the .vec")
        if longest_piece > LONGEST_PIECE:
            raise Misfit(f"{path} may have pieces of {LONGEST_PIECE} letters, but it has {longest_piece}; use the .vec")
        entries, words, labels, _, pruned = read_struct(file, path, "<iiiqq")
        if labels or pruned > 0 or entries != words or min(entries, width, bucket) < 0:
            raise Misfit(f"{path} should hold word vectors, but it is a classifier or pruned; use the .vec")
        for _ in range(entries):
            check_entry(file, path)
        quantised, rows, columns = read_struct(file, path, "<?qq")
        if quantised or rows != words + bucket or columns != width or 4 * rows * columns > size - file.tell():
            raise Misfit(
                f"{path}, byte {file.tell()}: expected {words + bucket} rows of {width} numbers, but it promises"
                f" {rows} × {columns} with {size - file.tell()} bytes left; {COPY}"
            )


def read_struct(file: BufferedReader, path: Path, layout: str) -> tuple:
    size = struct.calcsize(layout)
    offset, content = file.tell(), file.read(size)
    if len(content) < size:
        raise Misfit(f"{path}, byte {offset}: expected {size} bytes, but the file ends; {COPY}")
    return struct.unpack(layout, content)


def check_entry(file: BufferedReader, path: Path) -> None:
    """An entry of the dictionary: a word that ends with a zero byte, then a count and a kind."""
    offset, word = file.tell(), read_word(file, b"\0")
    if not word.endswith(b"\0") or len(word) > LONGEST_WORD:
        raise Misfit(f"{path}, byte {offset}: a word must end within {LONGEST_WORD} bytes, but it does not; {COPY}")
    read_struct(file, path, "<qb")
