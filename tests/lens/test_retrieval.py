"""Retrieval scores beside a plain loop over all weights."""

import pytest
import torch

import transom
from transom import Misfit
from transom.lens import Trace
from transom.lens.metrics.retrieval import retrieval_scores

COPIES = {6: [1], 7: [2, 4], 10: [3]}


def trace():
    generator = torch.Generator().manual_seed(3)
    found = Trace()
    for name in ("a", "b"):
        Q, K, V = (2.0 * torch.randn(1, 5, 11, 4, generator=generator) for _ in range(3))
        found.add(name, transom.sight(Q, K, V, causal=True))
    return found


def test_a_score_is_the_share_of_copies_that_have_the_largest_weight():
    seen = trace()
    found = retrieval_scores(seen, COPIES)
    assert list(found) == [(name, head) for name in ("a", "b") for head in range(5)]
    for (name, head), score in found.items():
        weights = seen[name].weights(batch=0, head=head).tolist()
        hits = [max(range(11), key=lambda key, row=row: weights[row][key]) in COPIES[row] for row in COPIES]
        assert score == sum(hits) / 3
    assert max(found.values()) > 0.0


def test_positions_that_are_not_there_are_an_error():
    with pytest.raises(Misfit, match=r"needs tokens that were copied, but got none; name a row"):
        retrieval_scores(trace(), {})
    with pytest.raises(Misfit, match="queries=11"):
        retrieval_scores(trace(), {11: [1]})
    with pytest.raises(Misfit, match="keys=11"):
        retrieval_scores(trace(), {5: [13]})
