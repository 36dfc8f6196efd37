"""The batches of a corpus of any size: their order is computed window by window, in constant memory.

As in `batches`, rows of a window are sorted by length and cut by a budget of tokens. The order of all rows is a
permutation that is computed for any position alone (`permute`), so no list of all rows exists. It depends on seed and
epoch only, never on the number of processes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from jaxtyping import Int

from transom.files.strict_settings import check_at_least
from transom.text.batches import WINDOW, block_count, cut_by_budget, longest_side, shuffle

ROUNDS = 6  # of the permutation
PRIMES = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of SplitMix64 (Steele et al. 2014)
SHIFT = np.uint64(31)
Lengths = Callable[[Int[np.ndarray, " any"]], Int[np.ndarray, "any any2"]]


def permute(positions: Int[np.ndarray, " any"], count: int, seed: int, epoch: int) -> Int[np.ndarray, " any"]:
    """The rows at some positions of a random order of `count` rows, without the rest of that order.

    A Feistel network (Luby & Rackoff 1988) permutes the next larger even power of two; a result that is too large goes
    through it again until it is small enough, so every row has exactly one position (Black & Rogaway 2002, section 4).
    """
    half = np.uint64(max(1, ((count - 1).bit_length() + 1) // 2))
    keys = np.random.Philox(np.random.SeedSequence([seed, epoch])).random_raw(ROUNDS)
    rows = feistel_network(positions.astype(np.uint64), keys, half)
    while (outside := np.flatnonzero(rows >= count)).size:
        rows[outside] = feistel_network(rows[outside], keys, half)
    return rows.astype(np.int64)


def feistel_network(x: np.ndarray, keys: np.ndarray, half: np.uint64) -> np.ndarray:
    """One pass of numbers below 2^(2·half) through the network."""
    mask = np.uint64((1 << int(half)) - 1)
    left, right = x >> half, x & mask
    with np.errstate(over="ignore"):  # products wrap around
        for key in keys:
            mixed = (right ^ key) * PRIMES[0]
            mixed = (mixed ^ (mixed >> SHIFT)) * PRIMES[1]
            left, right = right, left ^ ((mixed ^ (mixed >> SHIFT)) & mask)
    return (left << half) | right


@dataclass(frozen=True, eq=False)
class WindowBatches:
    """`WindowBatches(…)(epoch)` has the batches of an epoch: their number, and any of them by its position.

    lengths   the lengths of some rows, (rows, sides)
    rows      how many there are
    tokens    of a batch, padding included; a row that is longer is a batch by itself
    mean      the mean length of a row's longer side, which sets how many rows a window has
    """

    lengths: Lengths
    rows: int
    tokens: int
    mean: float
    seed: int
    epochs: "Callable[[int], EpochBatches]" = field(init=False)

    def __post_init__(self) -> None:
        check_at_least(0, seed=self.seed)
        check_at_least(1, tokens=self.tokens, rows=self.rows)
        object.__setattr__(self, "epochs", lru_cache(maxsize=2)(lambda epoch: EpochBatches(self, epoch)))

    @property
    def window_rows(self) -> int:
        return max(1, int(WINDOW * self.tokens / max(1.0, self.mean)))

    def __call__(self, epoch: int) -> "EpochBatches":
        check_at_least(0, epoch=epoch)
        return self.epochs(epoch)

    def cut_window(self, epoch: int, window: int) -> list[Int[np.ndarray, " batch"]]:
        """The batches of one window, in random order."""
        first = window * self.window_rows
        positions = np.arange(first, min(self.rows, first + self.window_rows))
        rows = permute(positions, self.rows, self.seed, epoch)
        sides, longest = longest_side(self.lengths(rows))
        longest = np.maximum(longest, 1)
        order = np.lexsort((*sides.T, longest))
        cut = list(cut_by_budget(rows[order], longest[order], self.tokens))
        rng = np.random.Philox(np.random.SeedSequence([self.seed, epoch, window]))
        return [cut[i] for i in shuffle(rng, len(cut))]


class EpochBatches:
    """The batches of one epoch."""

    def __init__(self, plan: WindowBatches, epoch: int) -> None:
        windows = range(-(-plan.rows // plan.window_rows))
        self.cut_window = lru_cache(maxsize=2)(lambda window: plan.cut_window(epoch, window))
        # Where each window's batches end; a number for each window is all that is kept.
        self.ends = np.cumsum([len(plan.cut_window(epoch, window)) for window in windows])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, position: int) -> Int[np.ndarray, " batch"]:
        if not 0 <= position < len(self):
            raise IndexError(f"there are {len(self)} batches, so there is no batch {position}")
        window = int(np.searchsorted(self.ends, position, side="right"))
        return self.cut_window(window)[position - (int(self.ends[window - 1]) if window else 0)]


def permuted_starts(
    stream_length: int, block: int, batch: int, seed: int, epoch: int, position: int
) -> Int[np.ndarray, " batch"]:
    """As `block_starts`, in constant memory: where the blocks of one batch start in a long stream of tokens."""
    blocks = block_count(stream_length, block)
    offset = int(np.random.Philox(np.random.SeedSequence([seed, epoch])).random_raw()) % (
        stream_length - blocks * block
    )
    positions = np.arange(position * batch, min(blocks, (position + 1) * batch))
    return offset + permute(positions, blocks, seed, epoch) * block
