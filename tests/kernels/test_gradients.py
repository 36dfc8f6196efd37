"""Gradients: by finite differences, against SDPA's, finite for empty rows, and through every kind of bias."""

import pytest
import torch
import torch.nn.functional as F

import transom
from transom.equations.biases import DistanceBias, RelativeBias
from transom.kernels import tiled_attention, torch_engine
from transom.kernels.problem import build_problem

pytestmark = pytest.mark.usefixtures("each_engine")
torch.manual_seed(13)


def tensors(queries=3, keys=5, heads=4, kv_heads=2, d_head=3, d_value=2):
    return tuple(
        torch.randn(2, h, n, d, dtype=torch.float64, requires_grad=True)
        for h, n, d in ((heads, queries, d_head), (kv_heads, keys, d_head), (kv_heads, keys, d_value))
    )


ALLOWED = torch.rand(2, 4, 3, 5) < 0.6
ALLOWED[1, 2, 1] = False  # a row that may look nowhere

SETTINGS = {
    "plain": {},
    "causal": {"causal": True},
    "masked, with an empty row": {"allowed": ALLOWED},
    "biased": {"bias": torch.randn(3, 5).double()},
    "capped": {"softcap": 1.5},
    "capped and masked": {"softcap": 1.5, "allowed": ALLOWED},
    "scaled": {"scale": -0.8},
    "window": {"allowed": transom.sliding_window(2)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_gradients_are_finite_differences(name):
    Q, K, V = tensors()
    assert torch.autograd.gradcheck(lambda *qkv: transom.attend(*qkv, **SETTINGS[name]), (Q, K, V))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_tiles_send_back_the_same(name):
    Q, K, V = tensors()
    assert torch.autograd.gradcheck(
        lambda *qkv: tiled_attention.tiled_attention(build_problem(*qkv, **SETTINGS[name]))[0], (Q, K, V)
    )


@pytest.mark.slow
def test_gradients_with_dropout_use_the_same_places_both_ways():
    Q, K, V = tensors()

    def dropped(*qkv):
        torch.manual_seed(7)
        return transom.attend(*qkv, dropout=0.4, allowed=ALLOWED)

    assert torch.autograd.gradcheck(dropped, (Q, K, V))


BIASES = {
    "given": (lambda x: x, (2, 1, 3, 5)),
    "given for all rows": (lambda x: x, (4, 1, 5)),
    "alibi": (DistanceBias, (4,)),
    "table": (RelativeBias, (4, 5)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BIASES)
def test_a_bias_learns(name):
    make, shape = BIASES[name]
    Q, K, V = tensors()
    source = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda q, k, v, s: transom.attend(q, k, v, bias=make(s), causal=True, softcap=3.0), (Q, K, V, source)
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("solve", [torch_engine.solve_fused, tiled_attention.tiled_attention], ids=["fused", "tiles"])
def test_gradients_are_sdpas(causal, solve, monkeypatch):
    monkeypatch.setattr(tiled_attention, "FEWEST_ROWS", 7)
    Q, K, V = (torch.randn(2, 3, 131, 11, requires_grad=True) for _ in range(3))
    sent = torch.randn(2, 3, 131, 11)
    expected = torch.autograd.grad(F.scaled_dot_product_attention(Q, K, V, is_causal=causal), (Q, K, V), sent)
    found = torch.autograd.grad(solve(build_problem(Q, K, V, causal=causal))[0], (Q, K, V), sent)
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.allclose(mine, theirs, atol=2e-5)


def test_bands_cut_small_send_back_the_same(monkeypatch):
    """Many bands over batch, heads and rows add up to what one band gives."""
    Q, K, V = tensors(queries=11, keys=13, heads=6, kv_heads=3)
    sent = torch.randn(2, 6, 11, 2).double()
    problem = build_problem(Q, K, V, causal=True, softcap=4.0)
    whole = torch.autograd.grad(tiled_attention.tiled_attention(problem)[0], (Q, K, V), sent)
    monkeypatch.setattr(tiled_attention, "FEWEST_ROWS", 3)
    monkeypatch.setattr(tiled_attention, "BLOCK_SCORES", 40)
    assert len(list(tiled_attention.row_blocks(problem))) > 20
    cut = torch.autograd.grad(tiled_attention.tiled_attention(problem)[0], (Q, K, V), sent)
    for one, other in zip(whole, cut, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("softcap", [None, 20.0])
@pytest.mark.parametrize("where", ["key", "value"])
def test_a_masked_nan_does_not_come_back(softcap, where):
    Q, K, V = tensors(queries=7, keys=7)
    real = torch.ones(2, 7, dtype=torch.bool)
    real[1, 3] = False
    bad = {"key": K.detach().clone(), "value": V.detach().clone()}
    bad[where][1, :, 3] = torch.nan
    bad_K, bad_V = bad["key"].requires_grad_(), bad["value"].requires_grad_()

    def sent_back(k, v):
        output = transom.attend(Q, k, v, allowed=transom.padding(real), causal=True, softcap=softcap)
        return torch.autograd.grad(output.square().sum(), (Q, k, v))

    for clean, poisoned in zip(sent_back(K, V), sent_back(bad_K, bad_V), strict=True):
        assert torch.allclose(clean, poisoned, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gradients_are_near_and_keep_their_dtype(dtype):
    Q, K, V = (x.detach().to(dtype).requires_grad_() for x in tensors())
    wide = [x.detach().double().requires_grad_() for x in (Q, K, V)]
    found = torch.autograd.grad(transom.attend(Q, K, V, softcap=5.0).float().square().sum(), (Q, K, V))
    expected = torch.autograd.grad(transom.attend(*wide, softcap=5.0).square().sum(), wide)
    for mine, exact in zip(found, expected, strict=True):
        assert mine.dtype == dtype
        assert (mine - exact).abs().max() < 0.05
