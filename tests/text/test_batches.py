"""Batches: every row once, the budget held, little padding, and the order a pure function of seed and epoch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from text.outside_files import raises_misfit

from transom.text import Ragged, batches, block_count, block_starts, filter_by_length, pad_rows
from transom.text.batches import epoch_starts

LENGTHS = st.lists(st.integers(0, 37), max_size=211).map(np.array).map(lambda lengths: lengths.astype(np.int64))
PAIRS = st.lists(st.tuples(st.integers(0, 37), st.integers(0, 41)), max_size=101).map(
    lambda rows: np.array(rows, dtype=np.int32).reshape(-1, 2)
)
NUMBERS = st.integers(0, 2**63)


def many(rows=5_003, seed=7):
    return np.random.default_rng(seed).geometric(1 / 13, size=rows)


@given(st.one_of(LENGTHS, PAIRS), st.integers(1, 101), NUMBERS, NUMBERS)
def test_every_row_is_there_once_and_the_budget_holds(lengths, tokens, seed, epoch):
    result = batches(lengths, tokens, seed, epoch)
    assert sorted(row for batch in result for row in batch.tolist()) == list(range(len(lengths)))
    for batch in result:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= tokens
    again = batches(lengths, tokens, seed, epoch)
    assert [batch.tolist() for batch in result] == [batch.tolist() for batch in again]


def flat(result):
    return np.concatenate(result).tolist()


def test_another_epoch_or_seed_is_another_order_and_other_batches():
    lengths = many()
    first = batches(lengths, 512, 1, 0)
    for seed, epoch in [(1, 1), (2, 0), (0, 1)]:
        other = batches(lengths, 512, seed, epoch)
        assert flat(first) != flat(other)
        alike = {frozenset(batch.tolist()) for batch in first} & {frozenset(batch.tolist()) for batch in other}
        assert len(alike) < len(first) / 10


def test_rows_of_similar_length_go_together():
    lengths = many()
    result = batches(lengths, 512, 1, 0)
    assert lengths.sum() / sum(len(batch) * lengths[batch].max() for batch in result) > 0.9
    shuffled = np.random.default_rng(0).permutation(len(lengths))
    apart = [shuffled[first : first + 37] for first in range(0, len(shuffled), 37)]
    assert lengths.sum() / sum(len(batch) * lengths[batch].max() for batch in apart) < 0.4


def test_long_and_short_batches_are_mixed():
    lengths = many()
    longest = np.array([lengths[batch].max() for batch in batches(lengths, 512, 1, 0)])
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


def test_both_sides_of_a_pair_are_padded_little():
    lengths = np.stack([many(seed=7), many(seed=7) + np.random.default_rng(1).integers(0, 5, 5_003)], axis=1)
    result = batches(lengths, 512, 1, 0)
    assert lengths.sum() / sum(len(batch) * lengths[batch].max(axis=0).sum() for batch in result) > 0.85


def test_a_batch_is_as_large_as_the_budget_allows():
    result = batches(np.full(101, 7), 7 * 13, 1, 0)
    assert sorted(map(len, result)) == [101 % 13, *[13] * 7]


def test_an_overlong_row_is_alone():
    result = batches(np.array([3, 2, 101, 3]), 11, 1, 0)
    assert [2] in [batch.tolist() for batch in result]


def test_the_order_is_fixed_for_ever():
    """Written down once: a run stopped yesterday resumes tomorrow, with another version of NumPy."""
    result = batches(np.array([2, 3, 5, 2, 3, 5, 7]), 11, 3, 4)
    assert [batch.tolist() for batch in result] == FIXED_BATCHES
    assert block_starts(101, 7, 3, 3, 4, 2).tolist() == FIXED_STARTS


FIXED_BATCHES = [[5], [6], [1, 2], [3, 0, 4]]
FIXED_STARTS = [40, 33, 5]


@pytest.mark.parametrize(
    ("message", "args"),
    [
        ("tokens must be 1 or more, but got 0; give a larger whole number", (0, 1, 1)),
        ("seed must be 0 or more, but got -1; give a larger whole number", (7, -1, 1)),
        ("epoch must be 0 or more, but got -2; give a larger whole number", (7, 1, -2)),
    ],
)
def test_numbers_that_do_not_fit(own_errors, message, args):
    raises_misfit(message, batches, np.array([3, 5]), *args)


def test_rows_that_are_too_long_are_left_out_and_counted():
    result = filter_by_length(np.array([3, 17, 11, 12, 101]), 11)
    assert (result.rows.tolist(), result.left_out) == ([0, 2], 3)
    assert str(result) == "3 of 5 rows have more than 11 tokens and are left out (the longest has 101)"
    assert filter_by_length(np.array([[3, 17], [11, 2]]), 11).rows.tolist() == [1]
    assert len(filter_by_length(np.zeros(0, dtype=int), 11).rows) == 0


def test_a_longest_row_has_something_in_it(own_errors):
    raises_misfit(
        "longest must be 1 or more, but got 0; give a larger whole number", filter_by_length, np.array([3]), 0
    )


@pytest.mark.parametrize("left", [False, True])
def test_padding_fills_up(left):
    rows = Ragged.from_lists([[5, 7], [], [11, 13, 17]])
    result = pad_rows([*rows, [2]], 3, left=left)
    expected = (
        [[3, 5, 7], [3, 3, 3], [11, 13, 17], [3, 3, 2]] if left else [[5, 7, 3], [3, 3, 3], [11, 13, 17], [2, 3, 3]]
    )
    assert result.dtype == torch.int64
    assert result.tolist() == expected


def test_nothing_to_pad():
    assert pad_rows([], 0).shape == (0, 0)
    assert pad_rows([[], []], 0).shape == (2, 0)


@given(st.integers(1, 13), st.integers(1, 7), st.integers(0, 997), NUMBERS, NUMBERS)
def test_the_blocks_of_an_epoch_are_apart_and_inside(block, batch, more, seed, epoch):
    length = batch * 2 * block + 1 + more
    blocks = block_count(length, block)
    count = blocks // batch
    starts = np.concatenate([block_starts(length, block, batch, seed, epoch, at) for at in range(count)])
    assert len(set(starts.tolist())) == count * batch > blocks - batch
    assert len(set((starts % block).tolist())) == 1
    assert starts.min() >= 0
    assert starts.max() + block + 1 <= length


def test_an_epoch_covers_nearly_all_of_a_stream_from_another_offset_each_time():
    offsets = set()
    for epoch in range(23):
        starts = np.concatenate([block_starts(10_007, 101, 7, 5, epoch, at) for at in range(98 // 7)])
        assert len(starts) * 101 > 10_007 - 2 * 101
        offsets.add(int(starts.min()) % 101)
    assert len(offsets) > 15


def test_starts_do_not_depend_on_earlier_calls():
    requests = [(epoch, at) for epoch in (0, 1, 2, 3, 4, 5) for at in (0, 3)]
    first = {request: block_starts(1_009, 11, 5, 2, *request).tolist() for request in requests}
    epoch_starts.cache_clear()
    assert {request: block_starts(1_009, 11, 5, 2, *request).tolist() for request in reversed(requests)} == first
    assert first[0, 0] != first[1, 0] != first[0, 3]


def test_a_stream_of_one_block():
    assert block_starts(12, 11, 1, 0, 0, 0).tolist() == [0]


@pytest.mark.parametrize(
    ("message", "args"),
    [
        (
            "a block of 11 tokens and the next one need a stream of 12, but it has 11;"
            " give more text, or a shorter block",
            (11, 11, 1, 0, 0, 0),
        ),
        (
            "a batch of 7 needs as many blocks of 11 tokens, but a stream of 61 has 4;"
            " give more text, or a smaller batch",
            (61, 11, 7, 0, 0, 0),
        ),
        (
            "position must be from 0 to 1, but got 2; continue with the next epoch",
            (61, 11, 2, 0, 0, 2),
        ),
        (
            "position must be from 0 to 1, but got -1; continue with the next epoch",
            (61, 11, 2, 0, 0, -1),
        ),
        ("block must be 1 or more, but got 0; give a larger whole number", (61, 0, 2, 0, 0, 0)),
        ("batch must be 1 or more, but got 0; give a larger whole number", (61, 11, 0, 0, 0, 0)),
        ("seed must be 0 or more, but got -5; give a larger whole number", (61, 11, 2, -5, 0, 0)),
        ("epoch must be 0 or more, but got -5; give a larger whole number", (61, 11, 2, 0, -5, 0)),
    ],
)
def test_blocks_that_do_not_fit(own_errors, message, args):
    raises_misfit(message, block_starts, *args)
