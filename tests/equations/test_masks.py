"""Masks say the same by block as they do whole, and their spans leave out only what nobody may see."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transom.equations.edges import EdgeBox, EdgeMask
from transom.equations.masks import (
    MASKED_SCORE,
    NO_WEIGHT,
    UNWRITTEN_BIAS,
    Causal,
    TensorMask,
    causal,
    masked_threshold,
    padding,
    same_document,
    sliding_window,
)
from transom.equations.region import Region
from transom.names import Misfit

CPU = torch.device("cpu")
KEYS = 13
IDS = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3])
REAL = torch.tensor([[True] * 10 + [False] * 3, [False] * 2 + [True] * 11])

# Each mask beside the rule it states, written once more for one query position p and key position k.
MASKS = {
    "causal": (causal(), lambda b, p, k: k <= p),
    "sliding_window": (sliding_window(3), lambda b, p, k: abs(p - k) < 3),
    "same_document": (same_document(IDS), lambda b, p, k: IDS[p] == IDS[k]),
    "padding": (padding(REAL), lambda b, p, k: REAL[b, k]),
    "and": (causal() & sliding_window(5) & padding(REAL), lambda b, p, k: k <= p and p - k < 5 and REAL[b, k]),
    "or": (causal() | sliding_window(2), lambda b, p, k: k <= p or abs(p - k) < 2),
    "without edges": (
        EdgeMask((EdgeBox((1,), None, None, (4, 7)), EdgeBox(None, None, (0,), (12,)))),
        None,
    ),
    "from a given start": (Causal(start=0), None),
}


def dense(mask, queries, batch=2):
    whole = (batch, 3, queries, KEYS)
    return mask.materialize(Region(whole, device=CPU)).expand(whole)


@pytest.mark.parametrize("name", [name for name in MASKS if MASKS[name][1]])
@pytest.mark.parametrize("queries", [1, 5, KEYS])
def test_each_mask_is_its_rule(name, queries):
    mask, rule = MASKS[name]
    found = dense(mask, queries)
    for b in range(2):
        for i in range(queries):
            for k in range(KEYS):
                assert bool(found[b, 1, i, k]) == bool(rule(b, i + KEYS - queries, k)), (b, i, k)


@given(
    name=st.sampled_from(list(MASKS)), first=st.integers(0, 10), rows=st.integers(1, 5), queries=st.integers(1, KEYS)
)
def test_a_block_is_cut_from_the_whole_and_its_span_hides_nothing(name, first, rows, queries):
    first = min(first, queries - 1)
    last = min(first + rows, queries)
    mask = MASKS[name][0]
    whole = (2, 3, queries, KEYS)
    block = Region(whole, rows=slice(first, last), columns=slice(4, 11), heads=torch.tensor([2, 0]), device=CPU)
    assert torch.equal(mask.materialize(block).expand(block.shape), dense(mask, queries)[:, :2, first:last, 4:11])
    low, high = mask.key_range((first, last), whole)
    seen = dense(mask, queries)[:, :, first:last]
    assert not seen[..., :low].any()
    assert not seen[..., high:].any()


def test_causal_from_a_start_counts_queries_from_there():
    assert torch.equal(dense(Causal(start=0), 5)[0, 0], torch.ones(5, KEYS, dtype=torch.bool).tril())


def test_more_queries_than_keys_leaves_the_first_rows_without_keys():
    found = dense(causal(), KEYS + 2)[0, 0]
    assert not found[:2].any()
    assert torch.equal(found[2:], torch.ones(KEYS, KEYS, dtype=torch.bool).tril())


@pytest.mark.parametrize("queries", [1, 5, KEYS])
def test_without_edges_is_everywhere_but_at_the_places_of_a_box(queries):
    boxes = (EdgeBox((1,), (0, 2), None, (4, 7)), EdgeBox(None, None, (0,), (12,)), EdgeBox((0,), (1,), (3, 4), None))
    whole = (2, 3, queries, KEYS)
    found = EdgeMask(boxes).materialize(Region(whole, device=CPU)).expand(whole)
    for place in torch.cartesian_prod(*(torch.arange(size) for size in whole)).tolist():
        cut = any(all(p is None or x in p for x, p in zip(place, box, strict=True)) for box in boxes)
        assert bool(found[tuple(place)]) == (not cut), place


def test_without_knows_whether_rows_differ_and_complains_of_edges_that_are_not_there():
    assert not EdgeMask((EdgeBox(None, (1,), None, (3,)),)).by_row
    assert EdgeMask((EdgeBox(None, (1,), (2,), (3,)),)).by_row
    EdgeMask((EdgeBox(None, (2,), (4,), (12,)),)).check((2, 3, 5, KEYS), CPU)
    with pytest.raises(Misfit) as error:
        EdgeMask((EdgeBox(None, (3,), None, None),)).check((2, 3, 5, KEYS), CPU)
    assert str(error.value) == "an edge is cut at heads (3,), but there are heads=3; count from 0"


def test_a_mask_is_never_larger_than_the_block():
    whole = (1, 1, 2**40, 2**40)
    block = Region(whole, rows=slice(2**39, 2**39 + 5), columns=slice(2**39, 2**39 + 7), device=CPU)
    assert (causal() & sliding_window(4)).materialize(block).shape == (1, 1, 5, 7)


def test_only_padding_and_row_blind_masks_are_the_same_for_all_rows():
    assert not padding(REAL).by_row
    assert not TensorMask(REAL[:, None, None, :]).by_row
    assert not (padding(REAL) & padding(REAL)).by_row
    assert not (padding(REAL) | padding(REAL)).by_row
    assert (padding(REAL) & causal()).by_row
    assert (causal() | padding(REAL)).by_row


def test_masks_combine_only_with_masks():
    with pytest.raises(TypeError):
        causal() & True  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (
                lambda width=width: sliding_window(width),
                f"the width of sliding_window must be a whole number from 1 to 1099511627776, but got {width!r};"
                " no key is farther away, so leave the mask out to see all of them",
            )
            for width in (0, -3, 2**40 + 1, 2**63, math.nan, math.inf, 1.5, 3.0, True, "3", None, torch.tensor(True))
        ),
        *(
            (
                lambda start=start: Causal(start),
                "the start of a causal mask must be a whole number from -1099511627776 to 1099511627776, but got"
                f" {start!r}; no key is farther away, so leave the mask out to see all of them",
            )
            for start in (2**40 + 1, -(2**63), 0.5, False)
        ),
        (
            lambda: padding([True, False]),
            "padding(real) takes a bool tensor, True for real tokens, but got list; use torch.tensor",
        ),
        (
            lambda: same_document([0, 0, 1]),
            "same_document(ids) takes a tensor of (keys) or (batch, keys), but got list; use torch.tensor",
        ),
        (
            lambda: same_document(torch.tensor([0.0, math.nan])),
            "same_document(ids) takes a number for each token, but some are NaN; number the documents from 0",
        ),
        (
            lambda: padding(torch.ones(5)),
            "padding(real) takes a bool tensor, True for real tokens, but got torch.float32;"
            " for numbers 0 and 1 use real.bool()",
        ),
        (
            lambda: same_document(torch.zeros(2, 3, 5)),
            "same_document(ids) takes (keys) or (batch, keys), but got (2, 3, 5); flatten it to one row per batch",
        ),
        (
            lambda: padding(REAL).check((3, 1, 5, 7), CPU),
            "padding(real) is (batch=2, keys=13), but the attention has batch=3 and keys=7;"
            " give one entry per key, cached ones included",
        ),
        (
            lambda: same_document(IDS).check((3, 1, 17, 13), CPU),
            "same_document takes the queries as the last of the keys, but there are queries=17 and keys=13;"
            " give a bool tensor as allowed instead",
        ),
        (
            lambda: (causal() & padding(REAL.to("meta"))).check((2, 1, 13, 13), CPU),
            "padding(real) is on meta, but Q is on cpu; move it with .to(Q.device)",
        ),
    ],
)
def test_what_does_not_fit_is_said(make, message, own_errors):
    with pytest.raises(Misfit) as error:
        make()
    assert str(error.value) == message


def test_a_number_counts_as_masked_by_the_question_it_answers():
    assert (UNWRITTEN_BIAS, MASKED_SCORE, NO_WEIGHT) == (-1e9, -1e8, -1e4)
    assert masked_threshold(torch.float32) == masked_threshold(torch.float64) == MASKED_SCORE
    assert masked_threshold(torch.bfloat16) == MASKED_SCORE
    assert masked_threshold(torch.float16) == -65504.0 / 2
    assert torch.tensor(NO_WEIGHT, dtype=torch.float64).exp() == 0.0
