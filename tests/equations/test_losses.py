"""Cross-entropy, written out and in chunks, against torch's."""

import pytest
import torch
import torch.nn.functional as F

import transom.kernels.linear_cross_entropy as chunked
from transom.equations.losses import cross_entropy, perplexity
from transom.kernels.linear_cross_entropy import linear_cross_entropy

PADDING = 2
torch.manual_seed(29)
HIDDEN, UNEMBEDDING = torch.randn(23, 7).double(), torch.randn(31, 7).double()
TARGETS = torch.randint(0, 31, (23,))
TARGETS[[3, 11, 12]] = PADDING


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_is_torchs(smoothing):
    logits = HIDDEN @ UNEMBEDDING.mT
    expected = F.cross_entropy(logits, TARGETS, ignore_index=PADDING, label_smoothing=smoothing, reduction="sum")
    loss, count = cross_entropy(logits, TARGETS, PADDING, smoothing)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-10)
    assert count.item() == (TARGETS != PADDING).sum().item()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("numbers", [1, 100, 2**20])
def test_in_chunks_it_is_the_same_forward_and_back(smoothing, numbers, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_NUMBERS", numbers)
    hidden, unembedding = HIDDEN.clone().requires_grad_(), UNEMBEDDING.clone().requires_grad_()
    loss, count = linear_cross_entropy(hidden, unembedding, TARGETS, PADDING, smoothing)
    expected = F.cross_entropy(
        hidden @ unembedding.mT, TARGETS, ignore_index=PADDING, label_smoothing=smoothing, reduction="sum"
    )
    assert loss.item() == pytest.approx(expected.item(), abs=1e-10)
    assert count.item() == (TARGETS != PADDING).sum().item()
    found = torch.autograd.grad(loss / count, (hidden, unembedding))
    truth = torch.autograd.grad(expected / count, (hidden, unembedding))
    for mine, theirs in zip(found, truth, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-12)


def test_nothing_but_padding_costs_nothing_and_sends_nothing_back():
    hidden, unembedding = HIDDEN.clone().requires_grad_(), UNEMBEDDING.clone().requires_grad_()
    targets = torch.full((23,), PADDING)
    for loss, count in (
        linear_cross_entropy(hidden, unembedding, targets, PADDING, 0.1),
        cross_entropy(hidden @ unembedding.mT, targets, PADDING, 0.1),
    ):
        assert (loss.item(), count.item()) == (0.0, 0)
        for gradient in torch.autograd.grad(loss, (hidden, unembedding)):
            assert torch.equal(gradient, torch.zeros_like(gradient))


def test_without_gradients_none_are_computed(monkeypatch):
    args, compute = [], chunked.compute_in_chunks
    monkeypatch.setattr(chunked, "compute_in_chunks", lambda *all_args: (args.append(all_args), compute(*all_args))[1])
    expected, _ = cross_entropy(HIDDEN @ UNEMBEDDING.mT, TARGETS, None, 0.1)
    assert linear_cross_entropy(HIDDEN, UNEMBEDDING, TARGETS, None, 0.1)[0].item() == pytest.approx(expected.item())
    assert args[0][-1] is None


def test_under_autocast_the_products_are_in_its_dtype_and_the_gradients_in_that_of_the_parameters():
    hidden, unembedding = HIDDEN.bfloat16().requires_grad_(), UNEMBEDDING.float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, count = linear_cross_entropy(hidden, unembedding, TARGETS, PADDING, 0.1)
    expected, _ = cross_entropy(HIDDEN @ UNEMBEDDING.mT, TARGETS, PADDING, 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=0.02)
    gradients = torch.autograd.grad(loss / count, (hidden, unembedding))
    assert [gradient.dtype for gradient in gradients] == [torch.bfloat16, torch.float32]


def test_perplexity_of_a_fair_choice():
    assert perplexity(torch.tensor(17.0).log().item()) == pytest.approx(17.0)
