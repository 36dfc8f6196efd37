"""fastText's .bin, read by gensim (the extra `vectors`), once the file is seen to hold what it says.

gensim believes the sizes in the file, and waits for ever for the end of a word that is cut off.
"""

import struct
from collections.abc import Iterator, Set
from io import BufferedReader
from pathlib import Path

import numpy as np
from jaxtyping import Float

from transom.names import Misfit
from transom.text.broken_rows import COPY, LONGEST_WORD, Broken

MAGIC = struct.pack("<i", 793712314)
VERSIONS = (11, 12)
LONGEST_PIECE = 16  # letters; 6 is usual, and gensim keeps a number for each piece of each word


def fasttext_rows(path: Path, wanted: Set[str], broken: Broken) -> Iterator[tuple[str, Float[np.ndarray, " d_model"]]]:
    """The vectors of the wanted words that were in fastText's own corpus."""
    check_sizes(path)
    try:
        from gensim.models.fasttext import load_facebook_vectors
    except ImportError as error:
        raise Misfit(
            f"{path} is fastText's .bin, which needs gensim, but it is not installed; pip install 'transom[vectors]',"
            " or use the .vec"
        ) from error
    try:
        vectors = load_facebook_vectors(str(path.resolve()))  # no path may look like an address
        known = [str(word) for word in vectors.key_to_index if word in wanted]
        found = [(word, np.array(vectors[word], dtype=np.float32)) for word in known]
    except Exception as error:  # whatever a reader of someone else's meets in a file of someone else's
        raise Misfit(f"{path} should be fastText's .bin, but gensim cannot read it ({error!r}); {COPY}") from error
    for word, numbers in found:
        if np.isfinite(numbers).all():
            yield word, numbers
        else:
            broken.found(f"{path}: expected finite numbers for {word!r}, but one is NaN or infinite")


def check_sizes(path: Path) -> None:
    """Walk through the file as its reader will, without believing a size before the bytes are there."""
    size = path.stat().st_size
    with path.open("rb") as file:
        magic, version, width, *others = taken(file, path, "<4sii11id")
        bucket, _, longest_piece = others[7:10]
        if magic != MAGIC or version not in VERSIONS:
            raise Misfit(
                f"{path} should be fastText's .bin of version 11 or 12, but it is not; unpack it if it is a .gz,"
                " or use the .vec"
            )
        if longest_piece > LONGEST_PIECE:
            raise Misfit(
                f"{path} may use pieces of words of {LONGEST_PIECE} letters, but it has {longest_piece}; use the .vec"
            )
        entries, words, labels, _, pruned = taken(file, path, "<iiiqq")
        if labels or pruned > 0 or entries != words or min(entries, width, bucket) < 0:
            raise Misfit(f"{path} should hold word vectors, but it is a classifier or pruned; use the .vec")
        for _ in range(entries):
            check_word(file, path)
        quantised, rows, columns = taken(file, path, "<?qq")
        if quantised or rows != words + bucket or columns != width or 4 * rows * columns > size - file.tell():
            raise Misfit(
                f"{path}, byte {file.tell()}: expected {words + bucket} rows of {width} numbers, but it promises"
                f" {rows} × {columns} with {size - file.tell()} bytes left; {COPY}"
            )


def taken(file: BufferedReader, path: Path, layout: str) -> tuple:
    size = struct.calcsize(layout)
    at, content = file.tell(), file.read(size)
    if len(content) < size:
        raise Misfit(f"{path}, byte {at}: expected {size} bytes, but the file ends; {COPY}")
    return struct.unpack(layout, content)


def check_word(file: BufferedReader, path: Path) -> None:
    """A word ends with a zero byte, and has a count and a kind after it."""
    at, length = file.tell(), 0
    while seen := file.peek():
        end = seen.find(b"\0")
        length += len(file.read(len(seen) if end < 0 else end + 1))
        if end >= 0 or length > LONGEST_WORD:
            break
    if not seen or length > LONGEST_WORD:
        raise Misfit(f"{path}, byte {at}: expected a word of at most {LONGEST_WORD} bytes, but it does not end; {COPY}")
    taken(file, path, "<qb")
