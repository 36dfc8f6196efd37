"""The norms written out, against torch's."""

import torch
import torch.nn.functional as F

from transom.equations.norms import layer_norm, rms_norm

torch.manual_seed(11)
x, gain, bias = torch.randn(3, 5, 7).double(), torch.randn(7).double(), torch.randn(7).double()


def test_layer_norm_is_torchs():
    assert torch.allclose(layer_norm(x, gain, bias), F.layer_norm(x, (7,), gain, bias), atol=1e-12)


def test_layer_norm_by_hand():
    numbers = [1.0, 2.0, 6.0]
    mean, variance = 3.0, (4 + 1 + 9) / 3
    expected = [(n - mean) / (variance + 1e-5) ** 0.5 for n in numbers]
    found = layer_norm(torch.tensor([numbers]).double(), torch.ones(3).double(), torch.zeros(3).double())
    assert torch.allclose(found, torch.tensor([expected]).double(), atol=1e-12)


def test_rms_norm_is_torchs():
    assert torch.allclose(rms_norm(x, gain), F.rms_norm(x, (7,), gain, eps=1e-5), atol=1e-12)
