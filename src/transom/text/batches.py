"""Batches: packed rows of tokens, and which rows go together in which order.

The order is a pure function of seed, epoch and position, so three integers hold the state of the data, and a resumed
run gets the same batches as an uninterrupted one.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import SupportsIndex

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from transom.files.strict_settings import check_at_least
from transom.names import Misfit

WINDOW = 64  # batches that are sorted by length together
PIECE = 2**16  # offsets that are checked at once


class Ragged:
    """Rows of tokens of different lengths, packed: `rows[i]` is a view into one array.

    flat      all tokens, row after row; four bytes each, unless they come from a token store
    offsets   where each row starts, and at the end where the last one stops
    """

    def __init__(self, flat: Integer[np.ndarray, " any"], offsets: Int[np.ndarray, " any2"]) -> None:
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(flat) or not is_rising(offsets):
            raise Misfit(f"offsets must rise from 0 to {len(flat)}, but they do not; use Ragged.from_lists")
        self.flat, self.offsets = flat, offsets

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> "Ragged":
        """Pack rows one by one; an iterator is enough."""
        flat, offsets = array("i"), array("q", [0])
        for row in rows:
            try:
                flat.extend(row)
            except (OverflowError, TypeError) as error:
                number = len(offsets) - 1
                raise Misfit(f"row {number} must hold integers below 2³¹, but it does not; encode the text") from error
            offsets.append(len(flat))
        return cls(np.frombuffer(flat, np.int32) if flat else np.zeros(0, np.int32), np.frombuffer(offsets, np.int64))

    @property
    def lengths(self) -> Int[np.ndarray, " any"]:
        return np.diff(self.offsets)

    def lengths_of(self, rows: Int[np.ndarray, " any"]) -> Int[np.ndarray, " any"]:
        """The lengths of some rows, without those of the others."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def select(self, rows: Iterable[SupportsIndex]) -> "Ragged":
        """Only these rows, in this order."""
        return Ragged.from_lists(self[row] for row in rows)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: SupportsIndex) -> Integer[np.ndarray, " token"]:
        row = index(row)
        if not -len(self) <= row < len(self):
            raise IndexError(f"there are {len(self)} rows, so there is no row {row}")
        row %= len(self)
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[Integer[np.ndarray, " token"]]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, {len(self.flat)} tokens)"


def is_rising(offsets: Int[np.ndarray, " any"]) -> bool:
    """Whether no number is below the one before; looked at piece by piece, because the array may be on disk."""
    pieces = (offsets[first : first + PIECE + 1] for first in range(0, len(offsets), PIECE))
    return all(bool((np.diff(piece) >= 0).all()) for piece in pieces)


def batches(
    lengths: Int[np.ndarray, " any"] | Int[np.ndarray, "any any2"], tokens: int, seed: int, epoch: int
) -> list[Int[np.ndarray, " batch"]]:
    """Every row once, in batches of rows of similar length: rows × longest row is at most `tokens`, padding included.

    lengths   of each row; for pairs (rows, 2), and the budget applies to each side
    tokens    a row that is longer than this is a batch by itself; see `filter_by_length`

    The rows are shuffled, a window of about 64 batches is sorted by length and cut up, and the batches are shuffled.
    """
    check_at_least(0, seed=seed, epoch=epoch)
    check_at_least(1, tokens=tokens)
    sides, longest = longest_side(lengths)
    longest = np.maximum(longest, 1)
    rng = np.random.Philox(np.random.SeedSequence([seed, epoch]))
    order = shuffle(rng, len(longest))
    window_rows = max(1, int(WINDOW * tokens / max(1.0, longest.mean()))) if len(longest) else 1
    cut: list[np.ndarray] = []
    for first in range(0, len(order), window_rows):
        window = order[first : first + window_rows]
        # By the longer side first, then by each side, so that the shorter side is padded little too.
        window = window[np.lexsort((*sides[window].T, longest[window]))]
        cut.extend(cut_by_budget(window, longest[window], tokens))
    return [cut[i] for i in shuffle(rng, len(cut))]


def longest_side(lengths: np.ndarray) -> tuple[Int[np.ndarray, "any any2"], Int[np.ndarray, " any"]]:
    """The lengths as (rows, sides), and the length of the longest side of each row."""
    sides = lengths if lengths.ndim == 2 else lengths[:, None]
    return sides, sides.max(axis=1, initial=0)


def shuffle(rng: np.random.Philox, count: int) -> Int[np.ndarray, " any"]:
    """The numbers below `count` in random order, from raw draws, which are the same in every version of NumPy."""
    return np.argsort(rng.random_raw(count), kind="stable")


def cut_by_budget(rows: np.ndarray, lengths: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Rows sorted by length, cut into runs that are as large as the budget allows."""
    first = 0
    while first < len(rows):
        most = max(1, tokens // int(lengths[first]))
        padded_size = np.arange(1, most + 1)[: len(rows) - first] * lengths[first : first + most]
        count = max(1, int(np.searchsorted(padded_size, tokens, side="right")))
        yield rows[first : first + count]
        first += count


@dataclass(frozen=True)
class LengthFilter:
    """Which rows are short enough, and how many are not."""

    rows: Int[np.ndarray, " any"] | range
    left_out: int
    longest: int  # allowed
    longest_seen: int

    def __str__(self) -> str:
        return (
            f"{self.left_out} of {len(self.rows) + self.left_out} rows have more than {self.longest} tokens and are"
            f" left out (the longest has {self.longest_seen})"
        )


def filter_by_length(lengths: Int[np.ndarray, " any"] | Int[np.ndarray, "any any2"], longest: int) -> LengthFilter:
    """The rows with no side longer than `longest`; the others are counted."""
    check_at_least(1, longest=longest)
    _, row_lengths = longest_side(lengths)
    rows = np.flatnonzero(row_lengths <= longest)
    return LengthFilter(rows, len(row_lengths) - len(rows), longest, int(row_lengths.max(initial=0)))


def pad_rows(
    rows: Sequence[Sequence[int] | np.ndarray], padding: int, left: bool = False
) -> Int[Tensor, "batch token"]:
    """The rows as one tensor, padded to the longest at the end, or on the left."""
    padded = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
    for target, row in zip(padded, rows, strict=True):
        target[len(target) - len(row) if left else 0 :][: len(row)] = row
    return torch.from_numpy(padded)


def block_count(stream_length: int, block: int) -> int:
    """How many blocks an epoch over one long stream of tokens has; each needs one token more, the last target."""
    check_at_least(1, block=block)
    if stream_length < block + 1:
        raise Misfit(
            f"a block of {block} tokens and the next one need a stream of {block + 1}, but it has {stream_length};"
            " give more text, or a shorter block"
        )
    return max(1, (stream_length - block) // block)


def block_starts(
    stream_length: int, block: int, batch: int, seed: int, epoch: int, position: int
) -> Int[np.ndarray, " batch"]:
    """Where the blocks of one batch start in a long stream of tokens.

    Each epoch cuts the stream into blocks from its own offset and shuffles them. The few blocks that do not fill a last
    batch are left out of that epoch, so that every batch has the same shape.
    """
    check_at_least(0, seed=seed, epoch=epoch)
    check_at_least(1, batch=batch)
    blocks = block_count(stream_length, block)
    if blocks < batch:
        raise Misfit(
            f"a batch of {batch} needs as many blocks of {block} tokens, but a stream of {stream_length} has {blocks};"
            " give more text, or a smaller batch"
        )
    if not 0 <= position < blocks // batch:
        last = blocks // batch - 1
        raise Misfit(f"position must be from 0 to {last}, but got {position}; continue with the next epoch")
    starts = epoch_starts(stream_length, block, blocks, seed, epoch)
    return starts[position * batch : (position + 1) * batch]


@lru_cache(maxsize=4)
def epoch_starts(stream_length: int, block: int, blocks: int, seed: int, epoch: int) -> Int[np.ndarray, " any"]:
    """All starts of an epoch; cached, because every batch needs them."""
    rng = np.random.Philox(np.random.SeedSequence([seed, epoch]))
    offset = int(rng.random_raw()) % (stream_length - blocks * block)
    starts = offset + shuffle(rng, blocks) * block
    starts.setflags(write=False)
    return starts
