"""Where queries stand among keys, and which keys are padding: what distance and the measures of heads go by."""

import pytest
import torch

import transom
from transom.equations.masks import Causal
from transom.lens.attention.indexing import first_position, visible_keys
from transom.lens.attention.sight import Sight
from transom.lens.capture.captured_attention import make_problem
from transom.names import Misfit

torch.manual_seed(37)
Q, K, V = torch.randn(2, 6, 13, 5), torch.randn(2, 3, 13, 5), torch.randn(2, 3, 13, 3)
REAL = torch.ones(2, 13, dtype=torch.bool)
REAL[1, 9:] = False


def test_distance_goes_by_where_a_mask_says_that_the_queries_stand():
    top_left = Sight(make_problem(Q[:, :, :5], K, V, Causal(start=0)), None, None)
    whole = transom.sight(Q, K, V, causal=True)
    assert torch.allclose(top_left.distance(), whole.distance()[:, :, :5])
    assert (top_left.distance()[:, :, 0] == 0).all()


def test_distance_to_another_sequence_is_an_error(own_errors):
    sight = transom.sight(Q, K[:, :, :7], V[:, :, :7])
    with pytest.raises(Misfit) as caught:
        sight.distance()
    assert str(caught.value) == (
        "distance is between positions of one sequence, but there are queries=13 and keys=7, and no causal mask says"
        " where the queries are; cross-attention has none"
    )
    assert sight.entropy().isfinite().all()


def test_the_first_query_stands_where_the_mask_says_or_so_that_the_last_is_the_last():
    few, keys = Q[:, :, :5], 13
    assert first_position(make_problem(few, K, V)) == keys - 5
    assert first_position(make_problem(few, K, V, transom.causal() & transom.padding(REAL))) == keys - 5
    assert first_position(make_problem(few, K, V, transom.padding(REAL) & Causal(start=2))) == 2
    assert first_position(make_problem(Q, K[:, :, :7], V[:, :, :7])) is None


def test_padding_is_what_nobody_may_look_at():
    dense = torch.ones(13, 13, dtype=torch.bool).tril() & REAL[:, None, None]
    bias = torch.zeros(2, 1, 1, 13).masked_fill(~REAL[:, None, None], torch.finfo(torch.float16).min)
    for given in ({"allowed": transom.padding(REAL) & transom.causal()}, {"allowed": dense}, {"bias": bias}):
        found = visible_keys(transom.sight(Q, K, V, **given).problem)
        assert found is not None
        assert torch.equal(found, REAL)
    assert visible_keys(transom.sight(Q, K, V, causal=True).problem) is None
