"""Every complaint of `attend`, matched whole: what was expected, what came, the way out."""

import pytest
import torch

import transom
from transom.equations.biases import DistanceBias, RelativeBias

Q, K, V = torch.zeros(2, 6, 5, 7), torch.zeros(2, 3, 11, 7), torch.zeros(2, 3, 11, 13)
CAME = (
    "Q is (batch=2, heads=6, queries=5, d_head=7), K is (batch=2, kv_heads=3, keys=11, d_head=7),"
    " V is (batch=2, kv_heads=3, keys=11, d_value=13)"
)

WRONG = {
    "not a tensor": (
        {"Q": [1.0]},
        "Q must be a torch tensor, but got list; use torch.as_tensor",
    ),
    "too few axes": (
        {"K": K[0]},
        "K must be (batch, kv_heads, keys, d_head), but it is (3, 11, 7); add the missing axes with [None]",
    ),
    "whole numbers": (
        {"V": V.long()},
        "V must hold floating-point numbers, but it is torch.int64; use V.float()",
    ),
    "numbers of eight bits": (
        {"Q": Q.to(torch.float8_e4m3fn)},
        "Q must hold numbers of 16, 32 or 64 bits, but it is torch.float8_e4m3fn; use Q.float()",
    ),
    "a sparse tensor": (
        {"K": K.to_sparse()},
        "K must be a dense tensor, but it is torch.sparse_coo; use K.to_dense()",
    ),
    "two dtypes": (
        {"K": K.double()},
        "Q, K and V must share a dtype, but Q is torch.float32 and K is torch.float64; use .to(Q.dtype)",
    ),
    "two devices": (
        {"V": V.to("meta")},
        "Q, K and V must share a device, but Q is on cpu and V on meta; use .to(Q.device)",
    ),
    "batch": (
        {"Q": Q[:1]},
        f"Q, K and V must share batch, but {CAME.replace('batch=2', 'batch=1', 1)}; expand the smaller one",
    ),
    "keys without values": (
        {"V": V[:, :, :10]},
        "K and V must share kv_heads and keys, but"
        f" {CAME.replace('keys=11, d_value', 'keys=10, d_value')}; each key needs its value",
    ),
    "d_head": (
        {"Q": Q[..., :6]},
        f"Q and K must share d_head, but {CAME.replace('d_head=7', 'd_head=6', 1)}; project both to the same width",
    ),
    "heads that do not divide": (
        {"Q": Q[:, :5]},
        f"kv_heads must divide heads, but {CAME.replace('heads=6', 'heads=5', 1)};"
        " each head of K and V serves heads / kv_heads of Q's",
    ),
    "scale": (
        {"scale": float("nan")},
        "scale must be a finite number, but got nan; leave it out for 1/√d_head",
    ),
    "a scale that no float32 holds": (
        {"scale": 1e39},
        "scale must be a finite number, but got 1e+39; leave it out for 1/√d_head",
    ),
    "a word as scale": (
        {"scale": "1"},
        "scale must be a finite number, but got '1'; leave it out for 1/√d_head",
    ),
    "yes as scale": (
        {"scale": True},
        "scale must be a finite number, but got True; leave it out for 1/√d_head",
    ),
    "a scale that learns": (
        {"scale": torch.ones((), requires_grad=True)},
        "scale must be a finite number, but got a tensor () of torch.float32 that learns; leave it out for 1/√d_head",
    ),
    "a softcap that is 0 in float32": (
        {"softcap": 1e-50},
        "softcap must be a positive number, but got 1e-50; leave it out for no cap",
    ),
    "an infinite softcap": (
        {"softcap": float("inf")},
        "softcap must be a positive number, but got inf; leave it out for no cap",
    ),
    "dropout that is no number": (
        {"dropout": float("nan")},
        "dropout must be at least 0 and below 1, but got nan; 0.1 drops a tenth of the weights",
    ),
    "a mask as causal": (
        {"causal": transom.causal()},
        "causal must be True or False, but got Causal; a mask goes into allowed",
    ),
    "a word as causal": (
        {"causal": "no"},
        "causal must be True or False, but got str; a mask goes into allowed",
    ),
    "softcap": (
        {"softcap": 0.0},
        "softcap must be a positive number, but got 0.0; leave it out for no cap",
    ),
    "dropout": (
        {"dropout": 1.0},
        "dropout must be at least 0 and below 1, but got 1.0; 0.1 drops a tenth of the weights",
    ),
    "a float as allowed": (
        {"allowed": torch.zeros(5, 11)},
        "allowed must be bool (True = may look), but it is torch.float32;"
        " numbers that are added to the scores go into bias",
    ),
    "an int as allowed": (
        {"allowed": torch.ones(5, 11).long()},
        "allowed must be bool (True = may look), but it is torch.int64; use allowed.bool()",
    ),
    "a word as allowed": (
        {"allowed": "causal"},
        "allowed must be a bool tensor or a mask object, but got str; see transom.causal()",
    ),
    "allowed of another size": (
        {"allowed": torch.ones(5, 10).bool()},
        "allowed must broadcast to (batch=2, heads=6, queries=5, keys=11), but it is (queries=5, keys=10);"
        " give each axis its full size or 1",
    ),
    "allowed with five axes": (
        {"allowed": torch.ones(1, 1, 1, 5, 11).bool()},
        "allowed must broadcast to (batch=2, heads=6, queries=5, keys=11), but it is (1, 1, 1, 5, 11);"
        " give each axis its full size or 1",
    ),
    "allowed elsewhere": (
        {"allowed": torch.ones(5, 11).bool().to("meta")},
        "allowed is on meta, but Q is on cpu; move it with .to(Q.device)",
    ),
    "a bool as bias": (
        {"bias": torch.ones(5, 11).bool()},
        "bias must hold floating-point numbers to add to the scores, but it is torch.bool;"
        " a bool mask goes into allowed",
    ),
    "a number as bias": (
        {"bias": 1.0},
        "bias must be a float tensor or a bias object, but got float; use torch.as_tensor",
    ),
    "bias of another size": (
        {"bias": torch.zeros(2, 1, 4, 11)},
        "bias must broadcast to (batch=2, heads=6, queries=5, keys=11), but it is"
        " (batch=2, heads=1, queries=4, keys=11); give each axis its full size or 1",
    ),
    "alibi for other heads": (
        {"bias": DistanceBias(torch.ones(5))},
        "the bias is (heads=5), but the attention has heads=6; build it for as many heads",
    ),
    "a table for other heads": (
        {"bias": RelativeBias(torch.ones(5, 3))},
        "the bias is (heads=5, distances=3), but the attention has heads=6; build it for as many heads",
    ),
    "a bias object elsewhere": (
        {"bias": DistanceBias(torch.ones(6, device="meta"))},
        "bias is on meta, but Q is on cpu; move it with .to(Q.device)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said_whole(name, own_errors):
    given, message = WRONG[name]
    for door in (transom.attend, transom.sight):
        with pytest.raises(transom.Misfit) as error:
            door(**{"Q": Q, "K": K, "V": V, **given})
        assert str(error.value) == message
