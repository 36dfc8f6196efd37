"""The order of a corpus of any size: every row once, in batches within the budget, computed for any position alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.names import Misfit
from transom.text.batches import block_starts
from transom.text.window_batches import WindowBatches, permute, permuted_starts


def plan_of(lengths, tokens=97, seed=3):
    lengths = np.asarray(lengths)
    sides = lengths if lengths.ndim == 2 else lengths[:, None]
    return WindowBatches(lambda rows: sides[rows], len(sides), tokens, float(sides.max(axis=1).mean()), seed)


@given(count=st.integers(1, 3000), seed=st.integers(0, 2**40), epoch=st.integers(0, 7))
def test_every_row_has_one_position(count, seed, epoch):
    rows = permute(np.arange(count), count, seed, epoch)
    assert np.array_equal(np.sort(rows), np.arange(count))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17, 4096, 4097, 100_003])
def test_a_position_alone_gives_the_same_row(count):
    whole = permute(np.arange(count), count, 5, 1)
    some = np.array([0, count // 3, count - 1])
    assert np.array_equal(permute(some, count, 5, 1), whole[some])


def test_the_order_looks_random():
    """Neighbours, halves and fixed points are as in a random order; other seeds and epochs give other orders."""
    count = 50_021
    orders = [permute(np.arange(count), count, seed, epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    for order in orders:
        steps = np.abs(np.diff(order))
        assert abs(steps.mean() / (count / 3) - 1) < 0.02  # the mean distance of two random rows
        assert (order == np.arange(count)).sum() < 10
        halves = (order[: count // 2] < count // 2).mean()
        assert abs(halves - 0.5) < 0.02
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert (orders[a] == orders[b]).sum() < 10
        assert abs(np.corrcoef(orders[a], orders[b])[0, 1]) < 0.02


@given(
    lengths=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=400),
    tokens=st.integers(1, 120),
)
def test_batches_hold_every_row_once_within_the_budget(lengths, tokens):
    lengths = np.array(lengths)
    epoch = plan_of(lengths, tokens)(2)
    batches = [epoch[position] for position in range(len(epoch))]
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        longest = max(1, int(lengths[batch].max()))
        assert len(batch) == 1 or len(batch) * longest <= tokens


def test_batches_hold_rows_of_similar_length():
    rng = np.random.default_rng(7)
    lengths = rng.integers(1, 60, 20_011)
    epoch = plan_of(lengths, 997)(0)
    padded = sum(len(epoch[i]) * int(lengths[epoch[i]].max()) for i in range(len(epoch)))
    assert padded < 1.05 * lengths.sum()


def test_epochs_and_seeds_have_other_orders_and_the_same_one_comes_again():
    lengths = np.random.default_rng(1).integers(1, 30, 1009)
    plan = plan_of(lengths)
    first = [plan(0)[i].tolist() for i in range(len(plan(0)))]
    again = plan_of(lengths)(0)
    assert [again[i].tolist() for i in range(len(again))] == first
    for other in (plan(1), plan_of(lengths, seed=4)(0)):
        assert [other[i].tolist() for i in range(len(other))] != first
    with pytest.raises(IndexError, match="so there is no batch"):
        plan(0)[len(plan(0))]
    with pytest.raises(Misfit, match="epoch must be 0 or more"):
        plan(-1)


def test_blocks_of_a_stream_are_those_of_block_starts_in_another_order():
    stream, block, batch = 10_007, 13, 5
    blocks = (stream - block) // block
    listed, permuted = (
        np.concatenate([starts(stream, block, batch, 3, 1, position) for position in range(blocks // batch)])
        for starts in (block_starts, permuted_starts)
    )
    assert len(set(permuted.tolist())) == len(permuted) == len(listed)
    assert permuted.max() + block < stream
    assert set((permuted - permuted.min()) % block) == {0}
    assert permuted.tolist() != listed.tolist()
