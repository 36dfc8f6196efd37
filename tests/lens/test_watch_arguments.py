"""Every way to call `F.scaled_dot_product_attention` is read as PyTorch means it, against a float64 softmax."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transom

torch.manual_seed(37)
Q, K, V = torch.randn(2, 6, 5, 7), torch.randn(2, 6, 11, 7), torch.randn(2, 6, 11, 7)
ALLOWED = torch.rand(2, 6, 5, 11) < 0.6
ALLOWED[1, 2, 3] = False
BIAS = torch.randn(2, 6, 5, 11)
LOWEST = torch.zeros(2, 1, 5, 11)
LOWEST[..., 8:] = torch.finfo(torch.float32).min
LOWEST[1, 0, 2] = torch.finfo(torch.float32).min
WIDE = torch.randn(2, 6, 11, 3)

CALLS = {
    "plain": ((Q, K, V), {}),
    "causal, more keys than queries": ((Q, K, V), {"is_causal": True}),
    "causal, more queries than keys": ((K, Q, Q), {"is_causal": True}),
    "bool mask with an empty row": ((Q, K, V), {"attn_mask": ALLOWED}),
    "bool mask of two axes": ((Q, K, V), {"attn_mask": ALLOWED[0, 0]}),
    "bool mask of three axes": ((Q, K, V), {"attn_mask": ALLOWED[0]}),
    "bool mask expanded": ((Q, K, V), {"attn_mask": ALLOWED[:, :1, :1].expand(2, 6, 5, 11)}),
    "float mask": ((Q, K, V), {"attn_mask": BIAS}),
    "float mask with an empty row": ((Q, K, V), {"attn_mask": BIAS.masked_fill(~ALLOWED, -torch.inf)}),
    "float mask that wants a gradient": ((Q, K, V), {"attn_mask": BIAS.clone().requires_grad_()}),
    "rows wholly at the lowest number": ((Q, K, V), {"attn_mask": LOWEST}),
    "scale": ((Q, K, V), {"scale": 1.7}),
    "large scores": ((Q, K, V), {"scale": 90.0}),
    "grouped": ((Q, K[:, :2], V[:, :2]), {"enable_gqa": True}),
    "grouped, keys and values apart": ((Q, K[:, :2], V[:, :3]), {"enable_gqa": True}),
    "one head for all, by broadcasting": ((Q, K[:, :1], V[:, :1]), {}),
    "one query for all heads": ((Q[:, :1], K, V), {}),
    "one batch of keys for all": ((Q, K[:1], V[:1]), {}),
    "values of another width": ((Q, K, WIDE), {}),
    "two axes": ((Q[0, 0], K[0, 0], V[0, 0]), {"is_causal": True}),
    "three axes": ((Q[0], K[0], V[0]), {"attn_mask": ALLOWED[0]}),
    "five axes": ((Q[None], K[None], V[None]), {"attn_mask": ALLOWED}),
    "five axes, their own mask": (
        tuple(x.unflatten(1, (2, 3)) for x in (Q, K, V)),
        {"attn_mask": ALLOWED.unflatten(1, (2, 3))},
    ),
    "last axis not dense": ((Q.mT.contiguous().mT, K, V), {}),
    "one query": ((Q[:, :, :1], K, V), {}),
    "no keys": ((Q, K[:, :, :0], V[:, :, :0]), {}),
    "no batch": ((Q[:0], K[:0], V[:0]), {}),
}


class Call(nn.Module):
    def forward(self, args, kwargs):
        return F.scaled_dot_product_attention(*args, **kwargs)


def expected_weights(args, kwargs):
    """The weights, as PyTorch's page defines them; its heads are the third axis from the end."""
    Q, K = (x.double() for x in args[:2])
    if kwargs.get("enable_gqa"):
        K = K.repeat_interleave(Q.shape[-3] // K.shape[-3], -3)
    scores = Q @ K.mT * kwargs.get("scale", 1.0 / math.sqrt(Q.shape[-1]))
    if kwargs.get("is_causal"):
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    mask = kwargs.get("attn_mask")
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else (scores.float() + mask).double()
    return torch.nan_to_num(scores.softmax(-1)).detach()


@pytest.mark.parametrize("gradients", [False, True], ids=["no gradients", "gradients"])
@pytest.mark.parametrize("kind", CALLS)
def test_the_weights_are_those_of_the_definition(kind, gradients):
    args, kwargs = CALLS[kind]
    model = Call()
    with torch.set_grad_enabled(gradients):
        plain = model(args, kwargs)
        with transom.watch(model) as trace:
            assert torch.equal(model(args, kwargs), plain)
    sight, expected = trace[0], expected_weights(args, kwargs)
    weights = sight.weights()
    assert weights.dim() == 4
    assert torch.allclose(weights.double().flatten(), expected.flatten(), atol=2e-5 if kind == "large scores" else 1e-6)
    assert torch.equal(sight.output.flatten(), plain.detach().flatten())
    assert sight.receipt().holds, str(sight.receipt())
    assert not sight.Q.requires_grad


def test_an_empty_row_gets_the_log_sum_exp_of_nothing():
    model = Call()
    with transom.watch(model) as trace:
        model((Q, K, V), {"attn_mask": ALLOWED})
    assert trace[0].lse[1, 2, 3] == -torch.inf
    assert (trace[0].lse == -torch.inf).sum() == 1
    assert trace[0].entropy()[1, 2, 3] == 0.0


def test_the_fused_kernels_own_log_sum_exp_is_kept():
    model = Call()
    with transom.watch(model) as trace:
        model((Q, K, V), {"is_causal": True})
        model((Q, K, V), {"dropout_p": 0.5})
    fused, by_hand = trace
    _, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(Q, K, V, 0.0, True)
    assert torch.equal(fused.lse, lse)
    assert "lse" not in by_hand.__dict__, "if a path gives none, it is computed on demand"
    scores = Q.double() @ K.double().mT / math.sqrt(7)
    assert torch.allclose(by_hand.lse.double(), scores.logsumexp(-1), atol=1e-6)


def test_dropout_of_the_models_own_cannot_be_checked_and_says_so():
    model = Call()
    with transom.watch(model) as trace:
        model((Q, K, V), {"dropout_p": 0.25})
    receipt = trace[0].receipt()
    assert (receipt.holds, receipt.fails) == (False, False)
    assert str(receipt) == ("not checkable: the model applied its own dropout of 0.25 to these weights")
