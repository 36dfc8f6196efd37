"""The equations of attention, against loops and against torch."""

import math

import pytest
import torch
import torch.nn.functional as F
from reference import attention as by_loops

from transom.equations import attention as eq

torch.manual_seed(3)
Q, K, V = torch.randn(2, 3, 5, 7).double(), torch.randn(2, 3, 11, 7).double(), torch.randn(2, 3, 11, 13).double()


def test_scores_are_every_dot_product():
    found = eq.scores(Q, K)
    for b, h, i, j in ((0, 0, 0, 0), (1, 2, 4, 10), (0, 1, 3, 7)):
        assert found[b, h, i, j].item() == pytest.approx(
            sum(Q[b, h, i, d].item() * K[b, h, j, d].item() for d in range(7))
        )


def test_scaled_divides_by_the_root_of_d_head():
    assert torch.allclose(eq.scale_scores(eq.scores(Q, K), 7), (Q @ K.mT) / 7**0.5)


def test_attention_is_the_loop():
    allowed = torch.rand(2, 3, 5, 11) < 0.6
    allowed[1, 2, 4] = False
    found = eq.attention(Q, K, V, allowed)
    output, weights, _ = by_loops(Q, K, V, allowed)
    assert torch.allclose(found, torch.tensor(output).double(), atol=1e-12)
    s = eq.mask_scores(eq.scale_scores(eq.scores(Q, K), 7), allowed)
    assert torch.allclose(eq.softmax(s), torch.tensor(weights).double(), atol=1e-12)


def test_attention_is_pytorchs():
    assert torch.allclose(eq.attention(Q, K, V), F.scaled_dot_product_attention(Q, K, V), atol=1e-12)


def test_softmax_rows_sum_to_one_and_do_not_mind_a_constant():
    s = torch.randn(5, 11).double() * 50
    assert torch.allclose(eq.softmax(s).sum(-1), torch.ones(5).double())
    assert torch.allclose(eq.softmax(s), eq.softmax(s + 1234.5), atol=1e-12)
    assert torch.allclose(eq.softmax(s), torch.softmax(s, -1), atol=1e-15)


def test_a_row_that_may_look_nowhere_has_weights_of_zero_and_finite_gradients():
    s = torch.randn(5, 11, dtype=torch.float64, requires_grad=True)
    allowed = torch.ones(5, 11, dtype=torch.bool)
    allowed[2] = False
    weights = eq.softmax(eq.mask_scores(s, allowed))
    assert torch.equal(weights[2], torch.zeros(11).double())
    (gradient,) = torch.autograd.grad(weights.square().sum(), s)
    assert gradient.isfinite().all()
    assert torch.equal(gradient[2], torch.zeros(11).double())


def test_no_keys_at_all():
    nothing = torch.zeros(5, 0)
    assert eq.softmax(nothing).shape == (5, 0)
    assert torch.equal(eq.log_sum_exp(nothing), torch.full((5,), -torch.inf))
    assert torch.equal(eq.context(nothing, torch.zeros(0, 13)), torch.zeros(5, 13))


def test_every_weight_follows_from_the_log_sum_exp():
    s = torch.randn(5, 11).double() * 9
    assert torch.allclose(torch.exp(s - eq.log_sum_exp(s)[:, None]), torch.softmax(s, -1), atol=1e-14)


def test_capped_stays_inside_and_leaves_small_scores_alone():
    s = torch.tensor([[-1e6, -0.01, 0.0, 0.01, 1e6]]).double()
    found = eq.softcap_scores(s, 30.0)
    assert found.abs().max() <= 30.0
    assert found[0, 1].item() == pytest.approx(30 * math.tanh(-0.01 / 30))


def test_soft_lookup_is_hard_when_cold_and_the_mean_when_hot():
    keys, values, query = torch.eye(5).double(), torch.randn(5, 3).double(), torch.eye(5).double()[2]
    assert torch.allclose(eq.soft_lookup(query, keys, values, temperature=1e-3), values[2], atol=1e-12)
    assert torch.allclose(eq.soft_lookup(query, keys, values, temperature=1e9), values.mean(0), atol=1e-6)


def test_soft_lookup_at_root_d_head_is_attention():
    query, keys, values = torch.randn(7).double(), torch.randn(11, 7).double(), torch.randn(11, 3).double()
    found = eq.soft_lookup(query, keys, values, temperature=math.sqrt(7))
    assert torch.allclose(found, eq.attention(query[None], keys, values)[0], atol=1e-12)


@pytest.mark.parametrize("d_head", [1, 7, 32, 64, 128, 131])
def test_the_default_scale_has_the_bits_of_torch(d_head):
    Q = torch.randn(1, 1, 3, d_head, dtype=torch.float64)
    given = F.scaled_dot_product_attention(Q, Q, Q, scale=eq.default_scale(d_head))
    assert torch.equal(given, F.scaled_dot_product_attention(Q, Q, Q))


def test_heads_of_width_0_have_a_scale():
    assert eq.default_scale(0) == 1.0
