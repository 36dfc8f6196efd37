"""The fuzzers of attention can be believed: their float64 reference is autograd's, and they find what is made wrong."""

from importlib import import_module

import numpy as np
import pytest
import torch

import transom
from transom.kernels import weight_stats

campaign = pytest.importorskip("fuzz.campaign", reason="the fuzzers are beside the tests, in the repository")
reference = import_module("fuzz.attention_reference")
PRECISION = reference.Precision(1e-16, 1e-16, 1e308, 0.0)


@pytest.mark.parametrize("softcap", [None, 1.5])
def test_the_reference_is_autograds(softcap):
    torch.manual_seed(5)
    Q, K, V, bias = (torch.randn(size).double() for size in ((2, 6, 5, 3), (2, 3, 7, 3), (2, 3, 7, 2), (2, 6, 5, 7)))
    leaves = [x.requires_grad_() for x in (Q, K, V, bias)]
    visible, of_output = torch.rand(2, 6, 5, 7) < 0.7, torch.randn(2, 6, 5, 2).double()
    visible[..., 0] = True
    scores = Q @ K.repeat_interleave(2, 1).mT * -0.7
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    weights = (scores + bias).masked_fill(~visible, -torch.inf).softmax(-1)
    output = weights @ V.repeat_interleave(2, 1)
    output.backward(of_output)
    arrays = [x.detach().numpy() for x in leaves]
    numbers = reference.Numbers(*arrays[:3], visible.numpy(), arrays[3], -0.7, softcap)
    found, near = reference.compute_gradients(numbers, of_output.numpy(), PRECISION)
    for name, leaf in zip(("Q", "K", "V", "bias"), leaves, strict=True):
        assert np.allclose(getattr(found, name), leaf.grad.numpy(), atol=1e-12)
        assert getattr(near, name).max() < 1e-12
    for place in np.ndindex(2, 6, 5):
        row = reference.compute_row(numbers, place, PRECISION)
        assert np.allclose(row.output, output[place].detach().numpy(), atol=1e-13)
        assert np.allclose(row.weights, weights[place][visible[place]].detach().numpy(), atol=1e-13)


def attend_a_little_off(*given, **options):
    return ATTEND(*given, **options) * 1.03


def attend_one_key_too_far(*given, **options):
    return ATTEND(*given, **{**options, "causal": False})


ATTEND = transom.attend


@pytest.mark.parametrize("wrong", [attend_a_little_off, attend_one_key_too_far])
def test_a_wrong_attend_is_found(wrong, monkeypatch):
    monkeypatch.setattr(transom, "attend", wrong)
    report = campaign.run_campaign("attend", import_module("fuzz.targets.attend"), 1, 60, 60, most_failures=1)
    assert len(report.failures) == 1


def test_wrong_statistics_are_found(monkeypatch):
    statistics = weight_stats.compute_stats

    def wrong(*given):
        found = statistics(*given)
        found.received.mul_(1.001)
        return found

    monkeypatch.setattr(weight_stats, "compute_stats", wrong)
    report = campaign.run_campaign("sight", import_module("fuzz.targets.sight"), 1, 60, 60, most_failures=1)
    if weight_stats.native_library.library_or_reason().__class__ is not str:
        assert len(report.failures) == 1
        assert "received" in report.failures[0]
