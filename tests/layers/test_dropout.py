"""Dropout by bytes: its share, its mean, and its seed."""

import pytest
import torch

from transom.layers.dropout import Dropout
from transom.names import Misfit


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.999])
def test_the_share_is_right_to_a_256th_and_the_mean_stays(share):
    torch.manual_seed(31)
    layer = Dropout(share)
    output = layer(torch.ones(1_000_003))
    dropped = (output == 0).float().mean().item()
    assert dropped == pytest.approx(share, abs=1 / 256)
    assert dropped == pytest.approx(layer.dropped / 256, abs=3e-3)
    # The mean of n numbers has standard error √(dropped / kept / n).
    assert output.mean().item() == pytest.approx(1.0, abs=5 * (dropped / (1 - dropped) / 1_000_003) ** 0.5)


def test_numbers_are_dropped_independently():
    torch.manual_seed(37)
    x = (Dropout(0.5)(torch.ones(103, 1009)) > 0).double() - 0.5
    for products in (x[:, 1:] * x[:, :-1], x[1:] * x[:-1], x[:, 8:] * x[:, :-8]):
        assert products.mean().abs() < 5 * 0.25 / products.numel() ** 0.5


def test_it_follows_torchs_seed():
    layer, x = Dropout(0.3), torch.randn(5, 7, 11)
    torch.manual_seed(1)
    first, second = layer(x), layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)


def test_gradients_go_where_the_numbers_went():
    x = torch.randn(13, 17, requires_grad=True)
    output = Dropout(0.25)(x)
    (gradient,) = torch.autograd.grad(output.sum(), x)
    assert torch.equal(gradient == 0, output == 0)
    assert gradient.max().item() == pytest.approx(256 / 192)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_the_dtype_stays(dtype):
    assert Dropout(0.5)(torch.ones(3, 5, dtype=dtype)).dtype == dtype


def test_nothing_happens_without_training_or_share():
    x = torch.randn(5, 7)
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5).eval()(x) is x


def test_a_share_of_all_is_refused():
    with pytest.raises(Misfit):
        Dropout(1.0)
