"""Word vectors for a vocabulary: a word in the file gets its row, any other random numbers of the same scale."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.files.strict_settings import check_at_least, check_choice
from transom.files.untrusted_files import CHUNK, open_bounded, require_file
from transom.names import Misfit
from transom.text.fasttext_bin import MAGIC, read_fasttext_rows
from transom.text.word_vector_files import (
    BadRows,
    Rows,
    looks_like_text,
    parse_header,
    read_binary_rows,
    read_text_rows,
)

VECTOR_FORMATS: dict[str, Callable[[Path, Set[str], BadRows], Rows]] = {
    "text": read_text_rows,
    "binary": read_binary_rows,
    "fasttext": read_fasttext_rows,
}


def detect_format(path: Path) -> str:
    """The format of a file, from its first bytes."""
    with open_bounded(path) as file:
        start = file.read(CHUNK)
    if start.startswith(MAGIC):
        return "fasttext"
    line, _, content = start.partition(b"\n")
    header = parse_header(line)
    if header is None:
        return "text"
    row = content.partition(b"\n")[0].rstrip(b" \r")
    return "text" if not content or looks_like_text(row, header.width) else "binary"


@dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary a file of word vectors has."""

    words: int
    found: int
    lowered: int  # found in lower case only
    share_of_tokens: float | None  # of the corpus, if counts were given
    missing: tuple[str, ...]  # the first few; the most frequent if counts were given
    broken: int  # rows of the file that were left out
    first_broken: str

    def __str__(self) -> str:
        parts = [f"{self.found} of {self.words} words found ({self.found / self.words:.1%})"]
        if self.lowered:
            parts.append(f"{self.lowered} of them in lower case only")
        if self.share_of_tokens is not None:
            parts.append(f"{self.share_of_tokens:.1%} of the tokens")
        if self.missing:
            parts.append(f"missing for example {' '.join(map(repr, self.missing))}")
        if self.broken:
            parts.append(f"{self.broken} broken rows left out, the first: {self.first_broken}")
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A row for each word, which of them were in the file, and the coverage."""

    vectors: Float[Tensor, "vocabulary d_model"]
    found: Bool[Tensor, " vocabulary"]
    coverage: Coverage


def word_vectors(
    path: Path | str,
    words: Sequence[str],
    counts: Sequence[int] | None = None,
    seed: int = 0,
    skip_broken: bool = False,
    format: str | None = None,
) -> WordVectors:
    """The vectors of these words from a file, or a .gz of one.

    counts        how often each word is in a corpus, for the coverage
    seed          for the missing rows: normal numbers with the mean and deviation of the found rows, column by column
    skip_broken   leave out rows that cannot be read, and count them
    format        one of `VECTOR_FORMATS`; by default the file's first bytes decide

    A word is looked up as written, then in lower case. If a word has two rows, the first counts. Rows of other words
    are not kept, and their numbers are not parsed.
    """
    path = require_file(path)
    check_at_least(0, seed=seed)
    check_words(words, counts)
    format = detect_format(path) if format is None else format
    check_choice("format", format, VECTOR_FORMATS)
    wanted = {*words, *(word.lower() for word in words)}
    bad_rows, rows = BadRows(skip_broken), {}
    for word, vector in VECTOR_FORMATS[format](path, wanted, bad_rows):
        rows.setdefault(word, vector)
    exact = sum(word in rows for word in words)
    keys = [word if word in rows else word.lower() for word in words]
    found = torch.tensor([key in rows for key in keys])
    if not found.any():
        raise Misfit(f"{path} should have some of the {len(words)} words, but it has none; is it the right file?")
    coverage = measure_coverage(words, counts, found, exact, bad_rows)
    return WordVectors(fill_missing(rows, keys, found, seed), found, coverage)


def fill_missing(
    rows: dict[str, np.ndarray], keys: Sequence[str], found: Bool[Tensor, " vocabulary"], seed: int
) -> Float[Tensor, "vocabulary d_model"]:
    """The found rows, and normal numbers with their mean and deviation for the others."""
    known = torch.from_numpy(np.stack([rows[key] for key in keys if key in rows]))
    draws = torch.randn(len(keys), known.shape[1], generator=torch.Generator().manual_seed(seed))
    deviation, mean = torch.std_mean(known, dim=0, correction=0)
    vectors = mean + deviation * draws
    vectors[found] = known
    return vectors


def measure_coverage(
    words: Sequence[str],
    counts: Sequence[int] | None,
    found: Bool[Tensor, " vocabulary"],
    exact: int,
    bad_rows: BadRows,
) -> Coverage:
    missing: list[int] = torch.nonzero(~found).flatten().tolist()
    share = None
    if counts is not None:
        missing.sort(key=lambda i: -counts[i])
        total = sum(counts)
        share = 1 - sum(counts[i] for i in missing) / total if total else None
    known = int(found.sum())
    first_missing = tuple(words[i] for i in missing[:5])
    return Coverage(len(words), known, known - exact, share, first_missing, bad_rows.count, bad_rows.first)


def check_words(words: Sequence[str], counts: Sequence[int] | None) -> None:
    if isinstance(words, str) or not len(words):
        raise Misfit(f"words must be a list of at least one word, but got {words!r}; give the vocabulary")
    if counts is not None and len(counts) != len(words):
        raise Misfit(f"there must be a count for each of the {len(words)} words, but there are {len(counts)}; give all")
