"""gradcheck in float64 for every layer, with fully masked rows among the others."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

import transom
from transom.layers import (
    ARRANGEMENTS,
    FEED_FORWARDS,
    NORMS,
    POSITIONS,
    Embedding,
    FeedForward,
    LowRank,
    MultiHeadAttention,
    NarrowLinear,
    PositionSizes,
    SelfAttention,
    Stack,
)

D_MODEL, HEADS, TOKEN, SOURCE = 6, 2, 3, 5
SIZES = PositionSizes(d_model=D_MODEL, heads=HEADS, d_head=4, longest=7)
# Row 0 of the first entry is fully masked; the others see a part.
ALLOWED = torch.tensor(
    [
        [[False, False, False], [True, False, True], [True, True, True]],
        [[True, True, False], [False, True, False], [False, False, True]],
    ]
)[:, None]
# The first entry of the source is all padding: every row that attends to it is fully masked.
REAL = torch.tensor([[False] * SOURCE, [True, False, True, True, False]])

IN_ATTENTION = [name for name, part in POSITIONS.items() if part.enters != "the embedding"]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(31)


def assert_gradients(layer, *inputs, **settings):
    """The gradient of every input and every parameter, against differences.

    Number by number for a small layer; along a random direction of each tensor for a large one.
    """
    layer = layer.double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    names = [name for name, _ in layer.named_parameters()]

    def run(*numbers):
        args, parameters = numbers[: len(inputs)], numbers[len(inputs) :]
        return functional_call(layer, dict(zip(names, parameters, strict=True)), args, settings)

    numbers = (*inputs, *(parameter.detach().clone() for parameter in layer.parameters()))
    leaves = [number.requires_grad_() if number.is_floating_point() else number for number in numbers]
    assert gradcheck(run, leaves, fast_mode=sum(leaf.numel() for leaf in leaves) > 120, atol=1e-6)


def x(token=TOKEN, width=D_MODEL):
    return torch.randn(2, token, width, dtype=torch.float64)


@pytest.mark.parametrize("settings", [{}, {"causal": True}, {"allowed": ALLOWED}], ids=["full", "causal", "empty row"])
@pytest.mark.parametrize("bias", [False, True])
def test_self_attention(settings, bias):
    assert_gradients(SelfAttention(5, 3, 2, bias), x(width=5), **settings)


@pytest.mark.parametrize("settings", [{}, {"causal": True}, {"allowed": ALLOWED}], ids=["full", "causal", "empty row"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kv_heads": 1, "d_head": 3, "d_value": 5, "d_out": 7},
        {"value_rank": 1},
        {"narrow": True, "d_head": 2},
        *({"d_head": 4, "positions": name} for name in IN_ATTENTION),
    ],
    ids=str,
)
def test_multi_head_attention(options, settings):
    if "positions" in options:
        options = {**options, "positions": POSITIONS[options["positions"]].for_sizes(SIZES)}
    assert_gradients(MultiHeadAttention(D_MODEL, HEADS, **options), x(), **settings)


@pytest.mark.parametrize("allowed", [None, transom.padding(REAL)], ids=["full", "empty rows"])
def test_cross_attention(allowed):
    assert_gradients(MultiHeadAttention(D_MODEL, HEADS, d_source=7), x(), x(SOURCE, 7), allowed=allowed)


@pytest.mark.parametrize("layer", [NarrowLinear(6, 2, 5), LowRank(6, 2, 5)], ids=["narrow", "low rank"])
def test_projections(layer):
    assert_gradients(layer, x())


@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_feed_forward(name):
    assert_gradients(FEED_FORWARDS[name](5, 7, bias=True), x(width=5))


@pytest.mark.parametrize("name", NORMS)
def test_norms(name):
    assert_gradients(NORMS[name](5), x(width=5))


@pytest.mark.parametrize("name", ARRANGEMENTS)
@pytest.mark.parametrize("cross", [False, True])
def test_blocks(name, cross):
    block = ARRANGEMENTS[name](
        MultiHeadAttention(4, 2), FeedForward(4, 3, torch.tanh), MultiHeadAttention(4, 2) if cross else None
    )
    inputs = (x(width=4), x(SOURCE, 4)) if cross else (x(width=4),)
    settings = {"source_allowed": transom.padding(REAL)} if cross else {}
    assert_gradients(block, *inputs, allowed=ALLOWED, **settings)


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_stacks(name):
    build = partial(ARRANGEMENTS[name], norm=NORMS["rms"])
    stack = Stack(lambda: build(MultiHeadAttention(4, 2), FeedForward(4, 3, torch.tanh)), 2)
    assert_gradients(stack, x(width=4), allowed=ALLOWED, causal=True)


@pytest.mark.parametrize("name", [name for name, part in POSITIONS.items() if part.enters != "attention"])
def test_embedding(name):
    embedding = Embedding(5, D_MODEL, positions=POSITIONS[name].for_sizes(SIZES))
    assert_gradients(embedding, torch.tensor([[3, 1, 3], [0, 4, 2]]))


class AsLogits(nn.Module):
    """An embedding as the output layer."""

    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding

    def forward(self, h):
        return self.embedding.logits(h)


def test_logits():
    assert_gradients(AsLogits(Embedding(7, 5)), x(width=5))


@pytest.mark.parametrize("layer", [SelfAttention(5), MultiHeadAttention(5, 5)], ids=["one head", "many heads"])
def test_fully_masked_rows_give_zeros_and_finite_gradients(layer):
    inputs = torch.randn(2, TOKEN, 5, requires_grad=True)
    out = layer(inputs, allowed=torch.zeros(TOKEN, TOKEN, dtype=torch.bool))
    assert not out.any()
    out.sum().backward()
    assert inputs.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())
