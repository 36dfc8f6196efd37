"""Word vectors for a vocabulary: rows of a file where it has the word, like numbers where it has not."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.files.outside import checked
from transom.files.strict import chosen
from transom.names import Misfit
from transom.text.broken_rows import Broken
from transom.text.checks import check_numbers
from transom.text.vector_files import VECTOR_FORMATS, detected


@dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary a file of word vectors knows."""

    words: int
    found: int
    lowered: int  # found only when written in small letters
    share_of_tokens: float | None  # of the corpus, if it was counted
    missing: tuple[str, ...]  # the first few, the most frequent first if they were counted
    broken: int  # rows of the file that were left out
    first_broken: str

    def __str__(self) -> str:
        told = [f"{self.found} of {self.words} words found ({self.found / self.words:.1%})"]
        if self.lowered:
            told.append(f"{self.lowered} of them in small letters only")
        if self.share_of_tokens is not None:
            told.append(f"{self.share_of_tokens:.1%} of the tokens")
        if self.missing:
            told.append(f"missing such as {' '.join(map(repr, self.missing))}")
        if self.broken:
            told.append(f"{self.broken} broken rows left out, the first: {self.first_broken}")
        return ", ".join(told)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A row per word, which of them the file had, and how much that is."""

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
    seed          of the rows that the file has not: normal numbers with the mean and deviation of the found rows,
                  column by column
    skip_broken   leave out rows that cannot be read, and count them
    format        one of `VECTOR_FORMATS`; the file's first bytes tell it too

    A word is looked up as it is written, and if it is not there, in small letters. Of two rows of one word the first
    counts. Rows of other words are not kept, and their numbers not looked at.
    """
    path = checked(path)
    check_numbers(seed=seed)
    check_words(words, counts)
    format = detected(path) if format is None else format
    chosen("format", format, VECTOR_FORMATS)
    wanted = {*words, *(word.lower() for word in words)}
    broken, rows = Broken(skip_broken), {}
    for word, numbers in VECTOR_FORMATS[format](path, wanted, broken):
        rows.setdefault(word, numbers)
    exact = [word in rows for word in words]
    known = [word if word in rows else word.lower() for word in words]
    found = torch.tensor([word in rows for word in known])
    if not found.any():
        raise Misfit(
            f"{path} should have some of the {len(words)} words, but it has none; check that it is the right file"
        )
    coverage = covered(words, counts, found, sum(exact), broken)
    return WordVectors(filled(rows, known, found, seed), found, coverage)


def filled(
    rows: dict[str, np.ndarray], known: Sequence[str], found: Bool[Tensor, " vocabulary"], seed: int
) -> Float[Tensor, "vocabulary d_model"]:
    """The found rows, and normal numbers of the same mean and deviation in the others."""
    given = torch.from_numpy(np.stack([rows[word] for word in known if word in rows]))
    draws = torch.randn(len(known), given.shape[1], generator=torch.Generator().manual_seed(seed))
    deviation, mean = torch.std_mean(given, dim=0, correction=0)
    vectors = mean + deviation * draws
    vectors[found] = given
    return vectors


def covered(
    words: Sequence[str], counts: Sequence[int] | None, found: Bool[Tensor, " vocabulary"], exact: int, broken: Broken
) -> Coverage:
    places = [place for place, there in enumerate(found.tolist()) if not there]
    share = None
    if counts is not None:
        places.sort(key=lambda place: -counts[place])
        missed, whole = sum(counts[place] for place in places), sum(counts)
        share = 1 - missed / whole if whole else None
    total = int(found.sum())
    missing = tuple(words[place] for place in places[:5])
    return Coverage(len(words), total, total - exact, share, missing, broken.rows, broken.first)


def check_words(words: Sequence[str], counts: Sequence[int] | None) -> None:
    if isinstance(words, str) or not len(words):
        raise Misfit("words must be a list with something in it, but it is not; give the vocabulary, one row a word")
    if counts is not None and len(counts) != len(words):
        raise Misfit(f"there must be a count for each of the {len(words)} words, but there are {len(counts)}; give all")
