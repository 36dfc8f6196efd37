"""Other ways to score a query against a key, number by number."""

import math

import pytest
import torch
import torch.nn.functional as F

from transom.equations.attention import additive, cosine

torch.manual_seed(5)
Q, K = torch.randn(3, 5).double(), torch.randn(7, 5).double()


def test_cosine_is_torchs_and_knows_no_length():
    assert torch.allclose(cosine(Q, K), F.cosine_similarity(Q[:, None], K[None], dim=-1), atol=1e-12)
    assert torch.allclose(cosine(Q * 17, K / 3), cosine(Q, K), atol=1e-12)
    assert torch.equal(cosine(torch.zeros(1, 5), torch.ones(1, 5)), torch.zeros(1, 1))


def test_additive_is_a_small_network():
    W_Q, W_K, w = torch.randn(5, 11).double(), torch.randn(5, 11).double(), torch.randn(11).double()
    expected = sum(
        w[c].item()
        * math.tanh(sum(Q[1, d].item() * W_Q[d, c].item() + K[4, d].item() * W_K[d, c].item() for d in range(5)))
        for c in range(11)
    )
    assert additive(Q, K, W_Q, W_K, w)[1, 4].item() == pytest.approx(expected)
    assert additive(Q, K, W_Q, W_K, w).shape == (3, 7)


def test_additive_takes_queries_and_keys_of_different_width():
    found = additive(
        Q, torch.randn(7, 2).double(), torch.randn(5, 11).double(), torch.randn(2, 11).double(), torch.ones(11).double()
    )
    assert found.shape == (3, 7)
