"""Attention layers compared with PyTorch's and with plain loops, and their properties."""

import math
from functools import partial

import pytest
import reference
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from layers.torch_twins import assert_twins, attention_pairs, copy_parameters, twice
from models.small import assert_misfit
from torch import nn

import transom
from transom.equations.heads import merge_heads, split_heads
from transom.layers import Alibi, LowRank, MultiHeadAttention, NarrowLinear, Relative, Rotary, SelfAttention

BATCH, TOKEN, SOURCE, HEADS, D_HEAD = 2, 7, 11, 3, 5
D_MODEL = HEADS * D_HEAD


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(13)


def projected_by_loops(x, W):
    """x W + b, number by number, over plain floats."""
    matrix, bias = W.weight.tolist(), [0.0] * W.out_features if W.bias is None else W.bias.tolist()
    return torch.tensor(
        [
            [
                [sum(m * v for m, v in zip(row, token, strict=True)) + b for row, b in zip(matrix, bias, strict=True)]
                for token in sequence
            ]
            for sequence in x.tolist()
        ],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("bias", [False, True], ids=["linear", "affine"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_single_head_is_the_equation_number_by_number(bias, causal):
    layer = SelfAttention(7, d_head=5, d_value=3, bias=bias).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 11, 7, dtype=torch.float64)
    Q, K, V = (projected_by_loops(x, W)[:, None] for W in (layer.W_Q, layer.W_K, layer.W_V))
    allowed = torch.ones(2, 1, 11, 11).tril().bool() if causal else None
    expected = torch.tensor(reference.attention(Q, K, V, allowed)[0], dtype=torch.float64)[:, 0]
    torch.testing.assert_close(layer(x, causal=causal), expected, rtol=0, atol=1e-12)
    assert layer(x).shape == (2, 11, 3)


def test_a_single_head_takes_its_width_from_the_model_by_default():
    layer = SelfAttention(7)
    assert (layer.d_head, layer.d_value) == (7, 7)
    assert sorted(name for name, _ in layer.named_parameters()) == ["W_K.weight", "W_Q.weight", "W_V.weight"]


def test_equals_torch_self_attention_with_gradients():
    twin = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(D_MODEL, HEADS).double()
    copy_parameters(attention_pairs(ours, twin))
    x, y = twice(BATCH, TOKEN, D_MODEL)
    assert_twins((ours(x), twin(y, y, y)[0]), [(x, y)], attention_pairs(ours, twin))


@pytest.mark.parametrize("d_source", [None, 13])
def test_equals_torch_cross_attention_with_gradients(d_source):
    width = D_MODEL if d_source is None else d_source
    twin = nn.MultiheadAttention(D_MODEL, HEADS, kdim=width, vdim=width, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(D_MODEL, HEADS, d_source=d_source).double()
    copy_parameters(attention_pairs(ours, twin))
    (x, y), (source, memory) = twice(BATCH, TOKEN, D_MODEL), twice(BATCH, SOURCE, width)
    outputs = ours(x, source), twin(y, memory, memory)[0]
    assert_twins(outputs, [(x, y), (source, memory)], attention_pairs(ours, twin))


def test_equals_torch_under_masks_that_mean_the_opposite_there():
    twin = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(D_MODEL, HEADS).double()
    copy_parameters(attention_pairs(ours, twin))
    real = torch.tensor([[True] * 5 + [False] * 2, [True] * 7])
    (x, y) = twice(BATCH, TOKEN, D_MODEL)
    theirs = twin(y, y, y, key_padding_mask=~real, attn_mask=torch.ones(TOKEN, TOKEN).triu(1).bool())[0]
    assert_twins((ours(x, allowed=transom.padding(real), causal=True), theirs), [(x, y)], attention_pairs(ours, twin))


def test_equals_torch_with_a_mask_and_a_bias_per_head():
    twin = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(D_MODEL, HEADS).double()
    copy_parameters(attention_pairs(ours, twin))
    allowed = torch.rand(BATCH, HEADS, TOKEN, SOURCE) < 0.6
    allowed[..., 0] = True
    bias = torch.randn(BATCH, HEADS, TOKEN, SOURCE, dtype=torch.float64)
    (x, y), (source, memory) = twice(BATCH, TOKEN, D_MODEL), twice(BATCH, SOURCE, D_MODEL)
    added = bias.masked_fill(~allowed, -math.inf).flatten(0, 1)
    outputs = ours(x, source, allowed=allowed, bias=bias), twin(y, memory, memory, attn_mask=added)[0]
    assert_twins(outputs, [(x, y), (source, memory)], attention_pairs(ours, twin))


@pytest.mark.parametrize("kv_heads", [1, 2, 3])
def test_shared_heads_equal_repeated_ones(kv_heads):
    heads, d_head, d_value, d_out = 6, 5, 7, 13
    layer = MultiHeadAttention(11, heads, kv_heads, d_head, d_value, d_out).double()
    x = torch.randn(2, 17, 11, dtype=torch.float64)
    Q = layer.W_Q(x).reshape(2, 17, heads, d_head).transpose(1, 2)
    K = layer.W_K(x).reshape(2, 17, kv_heads, d_head).transpose(1, 2).repeat_interleave(heads // kv_heads, dim=1)
    V = layer.W_V(x).reshape(2, 17, kv_heads, d_value).transpose(1, 2).repeat_interleave(heads // kv_heads, dim=1)
    expected = layer.W_O(F.scaled_dot_product_attention(Q, K, V).transpose(1, 2).reshape(2, 17, heads * d_value))
    assert expected.shape == (2, 17, d_out)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


def test_every_dimension_is_free():
    layer = MultiHeadAttention(11, 6, 2, 5, 7, 13, 3, False)
    shapes = {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}
    assert shapes == {
        "W_Q.weight": (30, 11),
        "W_K.weight": (10, 11),
        "W_V.V_down.weight": (3, 11),
        "W_V.V_up.weight": (14, 3),
        "W_O.weight": (13, 42),
    }
    assert layer(torch.randn(2, 17, 11)).shape == (2, 17, 13)


@pytest.mark.parametrize("bias", [False, True])
def test_narrow_heads_read_only_their_slice(bias):
    heads, d_slice, d_head = 3, 5, 7
    layer = MultiHeadAttention(heads * d_slice, heads, d_head=d_head, bias=bias, narrow=True).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 11, heads * d_slice, dtype=torch.float64)
    outputs = []
    for head in range(heads):
        part = x[..., head * d_slice : (head + 1) * d_slice]
        Q, K, V = (
            part @ W.weight[head] + (W.bias[head * d_head : (head + 1) * d_head] if bias else 0.0)
            for W in (layer.W_Q, layer.W_K, layer.W_V)
        )
        outputs.append(F.scaled_dot_product_attention(Q, K, V))
    torch.testing.assert_close(layer(x), layer.W_O(torch.cat(outputs, dim=-1)), rtol=0, atol=1e-12)


def test_narrow_heads_have_a_share_of_the_parameters_and_cross_attend_by_slice():
    narrow, full = MultiHeadAttention(15, 3, bias=False, narrow=True), MultiHeadAttention(15, 3, bias=False)
    assert 3 * narrow.W_Q.weight.numel() == full.W_Q.weight.numel()
    cross = MultiHeadAttention(15, 3, narrow=True, d_source=21)
    assert cross.W_K.weight.shape == (3, 7, 5)
    assert cross(torch.randn(2, 11, 15), torch.randn(2, 13, 21)).shape == (2, 11, 15)


def test_narrow_projection_equals_a_block_diagonal_one():
    narrow = NarrowLinear(15, 3, 7).double()
    nn.init.normal_(narrow.bias)
    x = torch.randn(2, 11, 15, dtype=torch.float64)
    expected = x @ torch.block_diag(*narrow.weight) + narrow.bias
    torch.testing.assert_close(narrow(x), expected, rtol=0, atol=1e-12)


def test_low_rank_values_equal_their_product_matrix():
    low = MultiHeadAttention(15, 3, d_value=7, value_rank=2).double()
    full = MultiHeadAttention(15, 3, d_value=7).double()
    with torch.no_grad():
        low.W_V.V_up.bias.normal_()
        product = low.W_V.V_up.weight @ low.W_V.V_down.weight
        assert torch.linalg.matrix_rank(product) == 2
        full.W_V.weight.copy_(product)
        full.W_V.bias.copy_(low.W_V.V_up.bias)
        for name in ("W_Q", "W_K", "W_O"):
            getattr(full, name).load_state_dict(getattr(low, name).state_dict())
    x = torch.randn(2, 11, 15, dtype=torch.float64)
    torch.testing.assert_close(low(x), full(x), rtol=0, atol=1e-12)


def test_low_rank_counts_rank_times_both_widths():
    assert sum(parameter.numel() for parameter in LowRank(17, 3, 13, bias=False).parameters()) == 3 * (17 + 13)


@pytest.mark.parametrize("positions", [None, Rotary(5 + 1), Alibi(3), Relative(3, 2)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_what_it_projects_is_what_it_attends_to(positions, causal):
    layer = MultiHeadAttention(13, 3, d_head=6, positions=positions).double()
    x = torch.randn(2, 7, 13, dtype=torch.float64)
    Q, K, V = layer.project(x)
    heads = transom.attend(Q, K, V, bias=layer.positions.bias(x.device), causal=causal)
    assert torch.equal(layer.W_O(heads.transpose(1, 2).flatten(2)), layer(x, causal=causal))


def test_a_single_head_projects_what_it_attends_to():
    layer = SelfAttention(7, 5, 3)
    x = torch.randn(2, 11, 7)
    Q, K, V = layer.project(x)
    assert Q.shape == K.shape == (2, 1, 11, 5)
    assert torch.equal(transom.attend(Q, K, V)[:, 0], layer(x))


@pytest.mark.parametrize("kind", ["tensor", "row of keys", "object"])
def test_the_callers_bias_and_that_of_the_positions_add_up(kind):
    layer = MultiHeadAttention(15, 3, positions=Alibi(3)).double()
    x = torch.randn(2, 7, 15, dtype=torch.float64)
    relative = Relative(3, 2).double()
    distance = torch.arange(7)[None, :] - torch.arange(7)[:, None]
    dense = torch.randn(2, 1, 7, 7, dtype=torch.float64)
    if kind == "tensor":
        bias = dense
    elif kind == "row of keys":
        bias = dense = dense[0, 0, 0]
    else:
        bias, dense = relative.bias(x.device), relative.table[:, distance.clamp(-2, 2) + 2]
    slopes = torch.tensor([2.0**-4, 2.0**-8, 2.0**-2], dtype=torch.float64)
    plain = MultiHeadAttention(15, 3).double()
    plain.load_state_dict(layer.state_dict())
    expected = plain(x, bias=dense - slopes[:, None, None] * distance.abs())
    torch.testing.assert_close(layer(x, bias=bias), expected, rtol=0, atol=1e-12)


def test_dropout_acts_in_training_only_and_follows_the_seed():
    layer = MultiHeadAttention(15, 3, dropout=0.5)
    x = torch.randn(2, 7, 15)
    torch.manual_seed(1)
    first, second = layer(x), layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)
    layer.eval()
    without = MultiHeadAttention(15, 3)
    without.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x), without(x))


def test_starts_from_xavier_with_biases_of_zero():
    layer = MultiHeadAttention(60, 4, d_head=30, value_rank=20, bias=True)
    for W in (layer.W_Q, layer.W_K, layer.W_O, layer.W_V.V_down, layer.W_V.V_up):
        bound = math.sqrt(6 / (W.in_features + W.out_features))
        assert 0.95 * bound < W.weight.abs().max() <= bound
        assert W.bias is None or not W.bias.any()
    narrow = NarrowLinear(60, 3, 40)
    bound = math.sqrt(6 / (20 + 40))
    assert 0.95 * bound < narrow.weight.abs().max() <= bound
    assert not narrow.bias.any()


@pytest.mark.parametrize("empty", [(0, 7), (2, 0)], ids=["batch 0", "token 0"])
def test_empty_inputs_give_empty_outputs(empty):
    assert MultiHeadAttention(15, 3)(torch.randn(*empty, 15)).shape == (*empty, 15)
    assert SelfAttention(15, d_value=2)(torch.randn(*empty, 15)).shape == (*empty, 2)


def test_a_source_of_no_tokens_gives_the_output_bias():
    layer = MultiHeadAttention(15, 3)
    nn.init.normal_(layer.W_O.bias)
    out = layer(torch.randn(2, 7, 15), torch.randn(2, 0, 15))
    assert torch.equal(out, layer.W_O.bias.expand(2, 7, 15))


@settings(max_examples=25, deadline=None)
@given(
    kv_heads=st.sampled_from([1, 2, 4]),
    d_head=st.sampled_from([1, 3, 5]),
    d_value=st.sampled_from([1, 2, 7]),
    token=st.integers(1, 9),
    seed=st.integers(0, 2**31),
)
def test_a_padded_neighbour_and_the_future_change_nothing(kv_heads, d_head, d_value, token, seed):
    torch.manual_seed(seed)
    layer = MultiHeadAttention(7, 4, kv_heads, d_head, d_value)
    x = torch.randn(3, token, 7)
    real = torch.rand(3, token) < 0.7
    before = layer(x, allowed=transom.padding(real), causal=True)
    changed = x.clone()
    changed[2] = torch.randn(token, 7)  # another batch entry
    changed[:2][~real[:2]] = 1e3  # its own padding
    after = layer(changed, allowed=transom.padding(real), causal=True)
    assert torch.equal(before[:2][real[:2]], after[:2][real[:2]])
    cut = token // 2
    changed = x.clone()
    changed[:, cut:] = torch.randn(3, token - cut, 7)
    assert torch.equal(before[:, :cut], layer(changed, allowed=transom.padding(real), causal=True)[:, :cut])


def test_the_repr_of_a_layer_shows_its_sizes():
    text = repr(MultiHeadAttention(11, 6, 2, 5, 7, 13, narrow=False, positions=Alibi(6)))
    assert "d_model=11, heads=6, kv_heads=2, d_head=5, d_value=7, d_out=13, dropout=0.0" in text
    assert "Alibi(heads=6)" in text
    assert "heads=3, d_slice=5, d_head=7, bias=True" in repr(NarrowLinear(15, 3, 7))


def test_splitting_keeps_each_heads_numbers_together():
    layer = MultiHeadAttention(15, 3)
    x = torch.randn(2, 7, 15)
    assert torch.equal(split_heads(layer.W_Q(x), 3)[:, 1], layer.W_Q(x)[..., 5:10])
    assert torch.equal(layer.project(x)[0][:, 1], layer.W_Q(x)[..., 5:10])


def test_queries_and_keys_may_pass_a_norm_before_their_positions():
    layer = MultiHeadAttention(12, 6, kv_heads=2, d_head=4, positions=Rotary(4), qk_norm=partial(nn.RMSNorm, eps=0.1))
    for norm in (layer.norm_Q, layer.norm_K):
        nn.init.normal_(norm.weight)
    x, at = torch.randn(2, 7, 12), torch.arange(7)[None]
    Q, K, V = (split_heads(W(x), heads) for W, heads in ((layer.W_Q, 6), (layer.W_K, 2), (layer.W_V, 2)))
    Q, K = (
        layer.positions.rotate(y / (y.square().mean(dim=-1, keepdim=True) + 0.1).sqrt() * norm.weight, at)
        for y, norm in ((Q, layer.norm_Q), (K, layer.norm_K))
    )
    expected = F.scaled_dot_product_attention(Q, K, V, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(layer(x, causal=True), layer.W_O(merge_heads(expected)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_hides_what_is_farther_away(causal):
    layer, x = MultiHeadAttention(12, 3, window=3), torch.randn(2, 11, 12)
    distance = torch.arange(11)[:, None] - torch.arange(11)[None]
    near = distance.abs() < 3
    real = torch.rand(2, 11) < 0.7
    Q, K, V = layer.project(x)
    for allowed in (None, transom.padding(real), real[:, None, None]):
        mask = near if allowed is None else near & real[:, None, None]
        expected = layer.W_O(merge_heads(transom.attend(Q, K, V, allowed=mask.expand(2, 1, 11, 11), causal=causal)))
        torch.testing.assert_close(layer(x, allowed=allowed, causal=causal), expected, rtol=0, atol=1e-6)


def test_the_scale_of_scores_is_a_choice():
    layer, x = MultiHeadAttention(12, 3, scale=1.0), torch.randn(2, 7, 12)
    Q, K, V = layer.project(x)
    expected = layer.W_O(merge_heads(F.scaled_dot_product_attention(Q, K, V, scale=1.0)))
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-5)


def test_biases_are_chosen_for_projections_and_output_apart():
    biases = {
        (bias, output): [name for name in ("W_Q", "W_K", "W_V", "W_O") if getattr(layer, name).bias is not None]
        for bias in (False, True)
        for output in (None, False, True)
        for layer in [MultiHeadAttention(12, 3, bias=bias, output_bias=output)]
    }
    for (bias, output), names in biases.items():
        of_output = bias if output is None else output
        assert names == ["W_Q", "W_K", "W_V"] * bias + ["W_O"] * of_output


def test_a_window_is_for_self_attention():
    layer = MultiHeadAttention(12, 3, window=3)
    message = "a window counts along one sequence, but this is cross-attention with window=3; build it without a window"
    assert_misfit(message, layer, torch.randn(1, 2, 12), torch.randn(1, 5, 12))
    message = "window must be 1 or more, but got 0; give a positive whole number"
    assert_misfit(message, MultiHeadAttention, 12, 3, window=0)
