"""Packed rows: the same rows come out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text.outside_files import raises_misfit

from transom.text import Ragged

ROWS = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=7), max_size=11)


@given(ROWS)
def test_rows_come_out_as_they_went_in(rows):
    packed = Ragged.from_lists(iter(rows))
    assert [row.tolist() for row in packed] == rows
    assert [packed[row].tolist() for row in range(-len(rows), 0)] == rows
    assert len(packed) == len(rows)
    assert packed.lengths.tolist() == [len(row) for row in rows]


def test_four_bytes_a_token_and_no_copy():
    packed = Ragged.from_lists([[3, 1, 4], [], [1, 5]])
    assert packed.flat.dtype == np.int32
    assert packed.flat.tolist() == [3, 1, 4, 1, 5]
    assert np.shares_memory(packed[np.int32(2)], packed.flat)
    assert repr(packed) == "Ragged(3 rows, 5 tokens)"


def test_some_rows_in_another_order():
    packed = Ragged.from_lists([[3, 1, 4], [], [1, 5]])
    assert [row.tolist() for row in packed.select(np.array([2, 0, 2]))] == [[1, 5], [3, 1, 4], [1, 5]]


def test_packed_arrays_may_be_given():
    packed = Ragged(np.arange(5), np.array([0, 2, 2, 5]))
    assert [row.tolist() for row in packed] == [[0, 1], [], [2, 3, 4]]


@pytest.mark.parametrize("offsets", [[], [1, 5], [0, 4], [0, 3, 2, 5]])
def test_offsets_that_do_not_fit(own_errors, offsets):
    raises_misfit(
        "offsets must rise from 0 to 5, but they do not; use Ragged.from_lists",
        Ragged,
        np.arange(5),
        np.array(offsets, dtype=np.int64),
    )


@pytest.mark.parametrize("row", [[2**31], [0.5], ["a"], "text", [None], 3])
def test_what_is_no_token(own_errors, row):
    raises_misfit(
        "row 1 must hold integers below 2³¹, but it does not; encode the text",
        Ragged.from_lists,
        [[1], row],
    )


@pytest.mark.parametrize("row", [3, -4])
def test_a_row_that_is_not_there(row):
    with pytest.raises(IndexError, match=f"^there are 3 rows, so there is no row {row}$"):
        Ragged.from_lists([[1], [2], [3]])[row]
