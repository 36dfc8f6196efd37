"""Blocks and stacks compared with PyTorch's encoder and decoder layers; feed-forward and norms."""

import copy
from functools import partial
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from layers.torch_twins import assert_twins, copy_parameters, decoder_pairs, encoder_pairs, twice
from torch import nn

import transom
from transom.equations import norms
from transom.layers import (
    ARRANGEMENTS,
    FEED_FORWARDS,
    NORMS,
    FeedForward,
    MultiHeadAttention,
    NoSkip,
    PostNorm,
    PreNorm,
    Relative,
    Stack,
    SwiGLU,
)
from transom.layers.feed_forward import gelu_tanh

D_MODEL, HEADS, D_HIDDEN = 15, 3, 17
TWINNED = {"post_norm": False, "pre_norm": True}  # norm_first, as PyTorch calls it


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(23)


def build_block(arrangement="pre_norm", feed_forward="relu", cross=False, norm="layer", **settings):
    return ARRANGEMENTS[arrangement](
        MultiHeadAttention(D_MODEL, HEADS),
        FEED_FORWARDS[feed_forward](D_MODEL, D_HIDDEN),
        MultiHeadAttention(D_MODEL, HEADS) if cross else None,
        NORMS[norm],
        **settings,
    )


@pytest.mark.parametrize("arrangement", TWINNED)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_torch_encoder_layer_with_gradients(arrangement, activation):
    twin = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_HIDDEN, 0.0, activation, batch_first=True, norm_first=TWINNED[arrangement]
    ).double()
    ours = build_block(arrangement, activation).double()
    copy_parameters(encoder_pairs(ours, twin))
    real = torch.tensor([[True] * 5 + [False] * 2, [True] * 7])
    x, y = twice(2, 7, D_MODEL)
    theirs = twin(y, src_key_padding_mask=~real, src_mask=torch.ones(7, 7).triu(1).bool())
    outputs = ours(x, allowed=transom.padding(real), causal=True), theirs
    assert_twins(outputs, [(x, y)], encoder_pairs(ours, twin))


@pytest.mark.parametrize("arrangement", TWINNED)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_torch_encoder_layer_on_its_fast_path(arrangement, activation):
    twin = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_HIDDEN, 0.3, activation, batch_first=True, norm_first=TWINNED[arrangement]
    )
    twin = twin.double().eval()
    ours = build_block(arrangement, activation, dropout=0.3).double().eval()
    copy_parameters(encoder_pairs(ours, twin))
    x = torch.randn(2, 7, D_MODEL, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), twin(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("arrangement", TWINNED)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_torch_decoder_layer_with_gradients(arrangement, activation):
    twin = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_HIDDEN, 0.0, activation, batch_first=True, norm_first=TWINNED[arrangement]
    ).double()
    ours = build_block(arrangement, activation, cross=True).double()
    copy_parameters(decoder_pairs(ours, twin))
    real = torch.tensor([[True] * 11, [True] * 8 + [False] * 3])
    (x, y), (source, memory) = twice(2, 7, D_MODEL), twice(2, 11, D_MODEL)
    theirs = twin(y, memory, tgt_mask=torch.ones(7, 7).triu(1).bool(), memory_key_padding_mask=~real)
    outputs = ours(x, source, source_allowed=transom.padding(real), causal=True), theirs
    assert_twins(outputs, [(x, y), (source, memory)], decoder_pairs(ours, twin))


def test_no_skip_is_the_norm_of_feed_forward_plus_attention():
    block = build_block("no_skip").double()
    assert isinstance(block, NoSkip)
    x = torch.randn(2, 7, D_MODEL, dtype=torch.float64)
    A = block.attention(x)
    hidden = torch.relu(A @ block.feed_forward.W_1.weight.T + block.feed_forward.W_1.bias)
    summed = hidden @ block.feed_forward.W_2.weight.T + block.feed_forward.W_2.bias + A
    gain, bias = block.norm_feed_forward.weight, block.norm_feed_forward.bias
    torch.testing.assert_close(block(x), norms.layer_norm(summed, gain, bias), rtol=0, atol=1e-12)
    assert not hasattr(block, "norm_attention")


def test_no_skip_with_a_source_adds_what_both_attentions_found():
    block = build_block("no_skip", cross=True).double()
    x, source = torch.randn(2, 7, D_MODEL, dtype=torch.float64), torch.randn(2, 11, D_MODEL, dtype=torch.float64)
    A = block.attention(x, causal=True)
    A = A + block.cross(A, source)
    expected = block.norm_feed_forward(block.feed_forward(A) + A)
    assert torch.equal(block(x, source, causal=True), expected)


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("feed_forward", FEED_FORWARDS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("cross", [False, True])
def test_every_combination_of_parts_trains(arrangement, feed_forward, norm, cross):
    block = build_block(arrangement, feed_forward, cross, norm, dropout=0.1)
    source = torch.randn(2, 11, D_MODEL) if cross else None
    out = block(torch.randn(2, 7, D_MODEL), source, causal=True)
    assert out.shape == (2, 7, D_MODEL)
    out.square().sum().backward()
    for name, parameter in block.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_dropout_acts_in_training_only(arrangement):
    block = build_block(arrangement, dropout=0.5)
    x = torch.randn(2, 7, D_MODEL)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_a_padded_neighbour_and_the_future_change_nothing(arrangement):
    stack = Stack(lambda: build_block(arrangement), 2)
    x, real = torch.randn(3, 7, D_MODEL), torch.ones(3, 7, dtype=torch.bool)
    real[2, 3:] = False
    before = stack(x, allowed=transom.padding(real), causal=True)
    changed = x.clone()
    changed[2, 3:] = float("nan")
    after = stack(changed, allowed=transom.padding(real), causal=True)
    assert torch.equal(before[:2], after[:2])
    assert torch.equal(before[2, :3], after[2, :3])
    changed = x.clone()
    changed[:, 5:] = 1e6
    assert torch.equal(before[:, :5], stack(changed, allowed=transom.padding(real), causal=True)[:, :5])


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_no_two_layers_start_equal(arrangement):
    stack = Stack(lambda: build_block(arrangement, cross=True), 3)
    for first, second in combinations(stack.blocks, 2):
        parameters = dict(second.named_parameters())
        for name, parameter in first.named_parameters():
            assert parameter is not parameters[name]
            if parameter.dim() > 1:  # biases start at 0 and norms at 1 everywhere
                assert not torch.equal(parameter, parameters[name]), name


def test_a_stack_is_its_blocks_in_order_and_the_closing_norm():
    x, source = torch.randn(2, 7, D_MODEL), torch.randn(2, 11, D_MODEL)
    for arrangement, closing in (("post_norm", nn.Identity), ("pre_norm", nn.RMSNorm), ("no_skip", nn.Identity)):
        stack = Stack(partial(build_block, arrangement, cross=True, norm="rms"), 3)
        assert type(stack.closing) is closing
        expected = x
        for block in stack.blocks:
            expected = block(expected, source, causal=True)
        assert torch.equal(stack(x, source, causal=True), stack.closing(expected))


def test_a_stack_equals_torchs():
    twin = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D_MODEL, HEADS, D_HIDDEN, 0.0, batch_first=True, norm_first=True),
        3,
        nn.LayerNorm(D_MODEL),
        enable_nested_tensor=False,
    ).double()
    stack = Stack(build_block, 3).double()
    for ours, theirs in zip(stack.blocks, twin.layers, strict=True):
        copy_parameters(encoder_pairs(ours, theirs))
    x = torch.randn(2, 7, D_MODEL, dtype=torch.float64)
    torch.testing.assert_close(stack(x), twin(x), rtol=0, atol=1e-12)


def test_layers_may_share_a_position_part():
    part = Relative(HEADS, 2)
    stack = Stack(
        lambda: PreNorm(MultiHeadAttention(D_MODEL, HEADS, positions=part), FeedForward(D_MODEL, D_HIDDEN)), 2
    )
    assert stack.blocks[0].attention.positions is stack.blocks[1].attention.positions


def test_a_copied_block_would_have_started_equal():
    block = build_block()
    assert all(torch.equal(a, b) for a, b in zip(block.parameters(), copy.deepcopy(block).parameters(), strict=True))


def test_the_feed_forward_is_the_papers():
    layer = FeedForward(5, 7).double()
    nn.init.normal_(layer.W_1.bias)
    nn.init.normal_(layer.W_2.bias)
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    W_1, W_2 = layer.W_1.weight.tolist(), layer.W_2.weight.tolist()
    for b in range(2):
        for t in range(3):
            token = x[b, t].tolist()
            hidden = [
                max(0.0, sum(w * v for w, v in zip(row, token, strict=True)) + bias)
                for row, bias in zip(W_1, layer.W_1.bias.tolist(), strict=True)
            ]
            expected = [
                sum(w * v for w, v in zip(row, hidden, strict=True)) + bias
                for row, bias in zip(W_2, layer.W_2.bias.tolist(), strict=True)
            ]
            assert layer(x)[b, t].tolist() == pytest.approx(expected, abs=1e-12)


def test_gelu_is_torchs_exact_one():
    layer = FEED_FORWARDS["gelu"](5, 7).double()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    hidden = layer.W_1(x)
    exact = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    torch.testing.assert_close(layer(x), layer.W_2(exact), rtol=0, atol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_swiglu_gates_one_half_with_the_other(bias):
    layer = SwiGLU(5, 7, bias=bias).double()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    gate = F.linear(x, layer.W_gate.weight, layer.W_gate.bias)
    opened = gate / (1 + torch.exp(-gate)) * F.linear(x, layer.W_up.weight, layer.W_up.bias)
    expected = F.linear(opened, layer.W_down.weight, layer.W_down.bias)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


def test_tanh_gelu_is_the_equation_and_that_of_gpt2():
    x = torch.linspace(-7.0, 7.0, 101, dtype=torch.float64)
    expected = x / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    torch.testing.assert_close(gelu_tanh(x), expected, rtol=0, atol=1e-12)
    theirs = pytest.importorskip("transformers.activations").ACT2FN["gelu_new"]
    torch.testing.assert_close(gelu_tanh(x), theirs(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "approximate"), [("geglu", "none"), ("geglu_tanh", "tanh")])
def test_geglu_gates_with_a_gelu(name, approximate):
    layer = FEED_FORWARDS[name](5, 7, bias=True).double()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    expected = layer.W_down(F.gelu(layer.W_gate(x), approximate=approximate) * layer.W_up(x))
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


def test_silu_is_the_equation():
    layer, x = FEED_FORWARDS["silu"](5, 7, bias=True).double(), torch.randn(2, 3, 5, dtype=torch.float64)
    hidden = layer.W_1(x)
    torch.testing.assert_close(layer(x), layer.W_2(hidden / (1 + torch.exp(-hidden))), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_every_feed_forward_treats_each_token_alone(name):
    layer = FEED_FORWARDS[name](5, 7, bias=True, dropout=0.5).double().eval()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    for t in range(3):
        torch.testing.assert_close(layer(x)[:, t], layer(x[:, t, None])[:, 0], rtol=0, atol=1e-14)
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def test_norms_are_the_equations():
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    layer, rms = (NORMS[name](5).double() for name in ("layer", "rms"))
    for norm in (layer, rms):
        for parameter in norm.parameters():
            nn.init.normal_(parameter)
    torch.testing.assert_close(layer(x), norms.layer_norm(x, layer.weight, layer.bias), rtol=0, atol=1e-12)
    torch.testing.assert_close(rms(x), norms.rms_norm(x, rms.weight), rtol=0, atol=1e-12)
    for name in NORMS:
        assert NORMS[name](5, eps=0.1).eps == 0.1


@pytest.mark.parametrize("name", NORMS)
def test_every_norm_is_built_from_a_width_and_gives_unit_size(name):
    out = NORMS[name](101)(37 * torch.randn(2, 3, 101))
    torch.testing.assert_close(out.square().mean(dim=-1), torch.ones(2, 3), rtol=0, atol=1e-4)


def test_post_norm_ends_with_its_norm():
    out = PostNorm(MultiHeadAttention(D_MODEL, HEADS), FeedForward(D_MODEL, D_HIDDEN))(torch.randn(2, 7, D_MODEL))
    torch.testing.assert_close(out.mean(dim=-1), torch.zeros(2, 7), rtol=0, atol=1e-6)
