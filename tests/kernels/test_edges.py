"""Attention at the edges of its numbers: infinities in half precision, scales of 0 and below, ties, huge biases."""

import math

import pytest
import torch
from reference import attention as by_loops

import transom
from transom.kernels import dispatch, torch_engine
from transom.kernels.problem import build_problem
from transom.names import integer_or_none

DTYPES = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-6, torch.float64: 1e-12}
ENGINES = ("torch", "auto", "native where it can")


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", "torch" if request.param == "torch" else "auto")
    if request.param == "native where it can":
        monkeypatch.setattr(dispatch, "why_native_is_slower", lambda problem: None)
    return request.param


def tensors(dtype=torch.float32, queries=13, keys=13, seed=3):
    random = torch.Generator().manual_seed(seed)
    sizes = ((2, 6, queries, 5), (2, 3, keys, 5), (2, 3, keys, 7))
    return tuple(torch.randn(size, generator=random).to(dtype) for size in sizes)


def expected(Q, K, V, allowed=None, **numbers):
    whole = (Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2])
    dense = None if allowed is None else allowed.expand(whole)
    return torch.tensor(by_loops(Q.double(), K.double(), V.double(), dense, **numbers)[0], dtype=torch.float64)


TRIANGLE = torch.ones(13, 13, dtype=torch.bool).tril()


@pytest.mark.parametrize("poison", ["nan", "inf", "-inf", "most", "least"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_masked_key_or_value_changes_no_bit_in_any_dtype(engine, dtype, poison):
    number = {"most": torch.finfo(dtype).max, "least": torch.finfo(dtype).min}.get(poison) or float(poison)
    Q, K, V = tensors(dtype)
    real = torch.ones(2, 13, dtype=torch.bool)
    real[1, 4:7] = False
    mask = transom.causal() & transom.padding(real)
    clean = transom.attend(Q, K, V, mask)
    for which in (0, 1):
        bad = [K.clone(), V.clone()]
        bad[which][1, :, 4:7, 2] = number
        assert torch.equal(transom.attend(Q, *bad, mask), clean)


@pytest.mark.parametrize("scale", [0.0, -0.0, -0.7, -1e3, 1e-30, 1e-50])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_causal_row_looks_back_whatever_the_scale(engine, dtype, scale):
    Q, K, V = tensors(dtype)
    want = expected(Q, K, V, TRIANGLE, scale=scale)
    assert torch.allclose(transom.attend(Q, K, V, causal=True, scale=scale).double(), want, atol=DTYPES[dtype])


@pytest.mark.parametrize(("scale", "flag"), [(0.3, True), (0.0, False), (-0.3, False), (1e-50, False)])
def test_only_a_positive_scale_reaches_the_kernels_own_causal_flag(scale, flag):
    assert torch_engine.split_causal(build_problem(*tensors(), causal=True, scale=scale))[0] is flag


def test_a_row_that_looks_nowhere_sends_nothing_back_whatever_its_query_holds(engine):
    Q, K, V = tensors()
    allowed = torch.ones(13, 13, dtype=torch.bool)
    allowed[5] = False
    Q[:, :, 5] = math.nan
    leaves = [x.requires_grad_() for x in (Q, K, V)]
    output = transom.attend(*leaves, allowed=allowed)
    assert torch.equal(output[:, :, 5], torch.zeros(2, 6, 7))
    output.sum().backward()
    clean = [x.detach().nan_to_num(7.0).requires_grad_() for x in leaves]
    transom.attend(*clean, allowed=allowed).sum().backward()
    for one, other in zip(leaves, clean, strict=True):
        assert one.grad is not None
        assert one.grad.isfinite().all()
        assert torch.allclose(one.grad, other.grad, atol=1e-6)


@pytest.mark.parametrize("poison", [math.nan, math.inf, 3e38])
@pytest.mark.parametrize("which", ["K", "V"])
def test_gradients_stay_finite_where_a_whole_sequence_is_padding(engine, which, poison):
    """Its rows give 0 whatever the kernel makes of them, so that nothing in the output tells."""
    Q, K, V = tensors()
    real = torch.ones(2, 13, dtype=torch.bool)
    real[1] = False
    (K if which == "K" else V)[1] = poison
    leaves = [x.requires_grad_() for x in (Q, K, V)]
    (transom.attend(*leaves, allowed=transom.padding(real)) ** 2).sum().backward()
    for x in leaves:
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert torch.equal(x.grad[1], torch.zeros_like(x.grad[1]))


def test_a_huge_value_behind_a_mask_sends_no_nan_back(engine):
    Q, K, V = tensors()
    V[:, :, 9] = 3e38
    real = torch.arange(13) != 9
    leaves = [x.requires_grad_() for x in (Q, K, V)]
    transom.attend(*leaves, allowed=transom.padding(real)).mul(1e3).sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in leaves)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_bias_is_not_rounded_to_half_precision(engine, dtype):
    Q, K, V = tensors(dtype)
    bias = 40.0 + torch.randn(13, 13, generator=torch.Generator().manual_seed(5))
    output = transom.attend(Q, K, V, bias=bias)
    assert torch.allclose(output.double(), expected(Q, K, V, bias=bias.expand(2, 6, 13, 13)), atol=DTYPES[dtype])
    bias[:, 3] = 1e5  # infinite in float16
    ahead = transom.attend(Q, K, V, bias=bias)
    assert torch.equal(ahead, V[:, :, 3].repeat_interleave(2, dim=1)[:, :, None].expand(2, 6, 13, 7))


@pytest.mark.parametrize("k", [1, 3, 8, 11, 20, 32])
@pytest.mark.parametrize("at_once", [False, True])
def test_keys_that_tie_at_a_score_of_0_are_listed(engine, k, at_once):
    Q, K, V = tensors(keys=37)
    for scale in (0.0, -0.0):
        top = transom.sight(Q, K, V, scale=scale, at_once=at_once).top(k)
        assert torch.allclose(top.weights, torch.full((2, 6, 13, k), 1 / 37), atol=1e-7)
        assert torch.allclose(top.mass, torch.tensor(k / 37), atol=1e-6)
        assert all(len(set(row)) == k and min(row) >= 0 for row in top.keys.reshape(-1, k).tolist())


@pytest.mark.parametrize("width", [1, 2**31, 2**40])
def test_a_window_as_wide_as_can_be_sees_everything(engine, width):
    Q, K, V = tensors()
    seen = torch.eye(13, dtype=torch.bool) if width == 1 else torch.ones(13, 13, dtype=torch.bool)
    mask = transom.sliding_window(width)
    assert torch.allclose(transom.attend(Q, K, V, mask).double(), expected(Q, K, V, seen), atol=2e-6)
    seen = seen & TRIANGLE
    both = transom.attend(Q, K, V, mask & transom.causal())
    assert torch.allclose(both.double(), expected(Q, K, V, seen), atol=2e-6)


def test_the_bound_of_a_key_is_finite_in_half_precision():
    Q, K, V = tensors(torch.float16)
    K[0, 1, 2, 3], K[1, 2, 3, 4] = math.inf, math.nan
    K[1, 1, 1, 1] = torch.finfo(torch.float16).max
    found = torch_engine.unusable_keys(build_problem(Q, K, V, causal=True))[..., 0].nonzero().tolist()
    assert found == [[0, 1, 2], [1, 2, 3]]


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, 3), (torch.tensor(3), 3), (True, None), (torch.tensor(True), None), (3.0, None), ("3", None), (2**80, 2**80)],
)
def test_what_is_a_whole_number(value, number):
    assert integer_or_none(value) == number
