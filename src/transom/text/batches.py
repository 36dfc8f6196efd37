"""Which rows go together, and in which order: pure functions of a seed, an epoch and a position.

So the state of the data in a run is three whole numbers, and a run that goes on after a stop sees what it would have
seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transom.names import Misfit
from transom.text.checks import check_numbers

WINDOW = 64  # batches that are sorted by length together


def batches(
    lengths: Int[np.ndarray, " any"] | Int[np.ndarray, "any any2"], tokens: int, seed: int, epoch: int
) -> list[Int[np.ndarray, " batch"]]:
    """Every row once, in batches of rows of like length: rows × longest row is at most `tokens`, padding included.

    lengths   of each row; of each side of a pair as (rows, sides), and then the budget holds for either side
    tokens    a row that is longer than this by itself gets a batch of its own; see `fitting`

    The rows are shuffled, a window of about 64 batches is sorted by length and cut up, and the batches are shuffled.
    """
    check_numbers(seed=seed, epoch=epoch)
    check_numbers(at_least=1, tokens=tokens)
    sides = lengths if lengths.ndim == 2 else lengths[:, None]
    longest = np.maximum(sides.max(axis=1, initial=0), 1)
    draws = np.random.Philox(np.random.SeedSequence([seed, epoch]))
    order = shuffled(draws, len(longest))
    wide = max(1, int(WINDOW * tokens / max(1.0, longest.mean()))) if len(longest) else 1
    made: list[np.ndarray] = []
    for first in range(0, len(order), wide):
        window = order[first : first + wide]
        # By the longer side first; where it is the same, by the others, so that these are padded little too.
        window = window[np.lexsort((*sides[window].T, longest[window]))]
        made.extend(cut(window, longest[window], tokens))
    return [made[place] for place in shuffled(draws, len(made))]


def shuffled(draws: np.random.Philox, count: int) -> Int[np.ndarray, " any"]:
    """The numbers below `count` in a random order; from the raw draws, which are the same in every version of NumPy."""
    return np.argsort(draws.random_raw(count), kind="stable")


def cut(rows: np.ndarray, lengths: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Runs of rows, sorted by length, each as long as the budget allows."""
    first = 0
    while first < len(rows):
        most = max(1, tokens // int(lengths[first]))
        padded_size = np.arange(1, most + 1)[: len(rows) - first] * lengths[first : first + most]
        count = max(1, int(np.searchsorted(padded_size, tokens, side="right")))
        yield rows[first : first + count]
        first += count


@dataclass(frozen=True)
class Fitting:
    """Which rows are short enough, and how many are not."""

    rows: Int[np.ndarray, " any"]
    left_out: int
    longest: int  # allowed
    longest_seen: int

    def __str__(self) -> str:
        whole = len(self.rows) + self.left_out
        return (
            f"{self.left_out} of {whole} rows have more than {self.longest} tokens and are left out"
            f" (the longest has {self.longest_seen})"
        )


def fitting(lengths: Int[np.ndarray, " any"] | Int[np.ndarray, "any any2"], longest: int) -> Fitting:
    """The rows of which no side is longer than `longest`; the rest is counted, to be told."""
    check_numbers(at_least=1, longest=longest)
    sides = lengths if lengths.ndim == 2 else lengths[:, None]
    over = sides.max(axis=1, initial=0)
    rows = np.flatnonzero(over <= longest)
    return Fitting(rows, len(over) - len(rows), longest, int(over.max(initial=0)))


def padded(rows: Sequence[Sequence[int] | np.ndarray], padding: int, left: bool = False) -> Int[Tensor, "batch token"]:
    """The rows as one tensor, filled up to the longest with `padding`, at the end or at the left."""
    filled = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
    for line, row in zip(filled, rows, strict=True):
        line[len(line) - len(row) if left else 0 :][: len(row)] = row
    return torch.from_numpy(filled)


def block_count(stream_length: int, block: int) -> int:
    """How many blocks an epoch over one long stream of tokens has; each needs one token more, the last to predict."""
    check_numbers(at_least=1, block=block)
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

    In an epoch the stream is cut into blocks from an offset of that epoch, and the blocks are shuffled. The few that do
    not fill a last batch wait for another epoch, so that every batch has the same shape.
    """
    check_numbers(seed=seed, epoch=epoch)
    check_numbers(at_least=1, batch=batch)
    blocks = block_count(stream_length, block)
    if blocks < batch:
        raise Misfit(
            f"a batch of {batch} needs as many blocks of {block} tokens, but a stream of {stream_length} has {blocks};"
            " give more text, or a smaller batch"
        )
    if not 0 <= position < blocks // batch:
        raise Misfit(
            f"an epoch has {blocks // batch} batches, counted from 0, but position {position} was asked for;"
            " go on with the next epoch"
        )
    starts = epoch_starts(stream_length, block, blocks, seed, epoch)
    return starts[position * batch : (position + 1) * batch]


@lru_cache(maxsize=4)
def epoch_starts(stream_length: int, block: int, blocks: int, seed: int, epoch: int) -> Int[np.ndarray, " any"]:
    """All starts of an epoch; kept, because each batch asks anew."""
    draws = np.random.Philox(np.random.SeedSequence([seed, epoch]))
    offset = int(draws.random_raw()) % (stream_length - blocks * block)
    starts = offset + shuffled(draws, blocks) * block
    starts.setflags(write=False)
    return starts
