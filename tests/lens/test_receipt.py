"""A receipt holds for what the model computed, and for nothing that is off by a small multiple of rounding."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import transom
from transom.lens.attention.receipt import OutputComparison
from transom.lens.attention.sight import Sight

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
GARBAGE = [0.0, 1e4, 6e4, torch.inf, -torch.inf, torch.nan]  # what an unused place of a cache may hold
MASKS = ["none", "causal", "padding", "causal and padding", "window", "given", "bias"]


def make_inputs(dtype, sizes, seed):
    """Q, K and V of heads in groups; sizes are batch, kv_heads, group, queries, keys, d_head, d_value."""
    batch, kv_heads, group, queries, keys, d_head, d_value = sizes
    generator = torch.Generator().manual_seed(seed)
    shapes = [
        (batch, kv_heads * group, queries, d_head),
        (batch, kv_heads, keys, d_head),
        (batch, kv_heads, keys, d_value),
    ]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def mask_options(kind, sizes, seed):
    """The options of `attend`, and where a row may look, as a dense mask."""
    batch, kv_heads, group, queries, keys = sizes[:5]
    generator = torch.Generator().manual_seed(seed + 1)
    i, j = torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)[None]
    real = torch.rand(batch, keys, generator=generator) < 0.6
    real[:, 0] = True
    some = torch.rand(batch, kv_heads * group, queries, keys, generator=generator) < 0.6
    table = {
        "none": ({}, torch.ones(1, 1, queries, keys, dtype=torch.bool)),
        "causal": ({"causal": True}, (j <= i)[None, None]),
        "padding": ({"allowed": transom.padding(real)}, real[:, None, None].expand(batch, 1, queries, keys)),
        "causal and padding": (
            {"allowed": transom.padding(real), "causal": True},
            (j <= i)[None, None] & real[:, None, None],
        ),
        "window": ({"allowed": transom.sliding_window(3)}, ((i - j).abs() < 3)[None, None]),
        "given": ({"allowed": some}, some),
        "bias": ({"bias": torch.zeros(some.shape).masked_fill(~some, -torch.inf)}, some),
    }
    return table[kind]


def hidden_keys(allowed, sizes):
    """The keys (batch, keys) that no row of any head may see."""
    batch, kv_heads, group, queries, keys = sizes[:5]
    return ~allowed.expand(batch, kv_heads * group, queries, keys).any(dim=2).any(dim=1)


def plain_attention(Q, K, V, allowed, scale):
    """Weights and Σ weight · |value| in float64, with what is masked taken out first."""
    group = Q.shape[1] // K.shape[1]
    Q, K, V = Q.double(), K.double().repeat_interleave(group, 1), V.double().repeat_interleave(group, 1)
    K, V = (x.nan_to_num(0.0, 0.0, 0.0) for x in (K, V))
    scores = (Q @ K.mT * scale).masked_fill(~allowed, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights, weights @ V.abs(), scores


def rounding_of(Q, K, V, allowed, scale, dtype):
    """What rounding may do to each number of the output: a bound worked out beside Transom's, in float64."""
    weights, absolute, scores = plain_attention(Q, K, V, allowed, scale)
    group = Q.shape[1] // K.shape[1]
    lengths = K.double().norm(dim=-1).nan_to_num(0.0, 0.0, 0.0).repeat_interleave(group, 1)[:, :, None]
    reach = scale * Q.double().norm(dim=-1) * (lengths * allowed).amax(dim=-1)
    level = scores.logsumexp(-1).nan_to_num(0.0, 0.0, 0.0).abs()
    accurate = torch.promote_types(dtype, torch.float32)
    units = (64 + math.sqrt(K.shape[2]) + 2 * reach + level)[..., None]
    bound = torch.finfo(accurate).eps * units * absolute
    if dtype in (torch.float16, torch.bfloat16):
        bound = bound + 2 * torch.finfo(dtype).eps * absolute + (1e-7 * V.shape[2] if dtype == torch.float16 else 0.0)
    return weights, bound


CASES = {
    "dtype": st.sampled_from(DTYPES),
    "mask": st.sampled_from(MASKS),
    "sizes": st.tuples(
        st.integers(1, 3),
        st.integers(1, 2),
        st.sampled_from([1, 3]),
        st.integers(1, 7),
        st.integers(0, 11),
        st.sampled_from([1, 5, 16]),
        st.sampled_from([1, 5, 13]),
    ).map(lambda sizes: (*sizes[:4], sizes[3] + sizes[4], *sizes[5:])),
    "garbage": st.sampled_from(GARBAGE),
    "scale": st.sampled_from([None, 0.3, 4.0]),
    "seed": st.integers(0, 10**6),
}


def make_sight(dtype, mask, sizes, garbage, scale, seed):
    Q, K, V = make_inputs(dtype, sizes, seed)
    options, allowed = mask_options(mask, sizes, seed)
    hidden = hidden_keys(allowed, sizes)
    assume(mask != "bias" or math.isfinite(garbage))  # a bias is added: inf − inf is NaN; a mask is not
    for x in (K, V):
        x.masked_fill_(hidden[:, None, :, None], garbage)
    scale = 1 / math.sqrt(sizes[5]) if scale is None else scale
    sight = transom.sight(Q, K, V, scale=scale, **options)
    return sight, rounding_of(Q, K, V, allowed, scale, dtype)


@given(**CASES)
def test_an_honest_attention_holds(dtype, mask, sizes, garbage, scale, seed):
    sight, (weights, bound) = make_sight(dtype, mask, sizes, garbage, scale, seed)
    receipt = sight.receipt()
    assert receipt.holds, receipt
    assert torch.allclose(sight.weights().double(), weights, atol=2e-2 if dtype == torch.bfloat16 else 5e-3)
    assert receipt.tolerance <= 1.01 * float(bound.max()) + 1e-12


def spoil_number(sight, bound, draw):
    """One number of one row of one head."""
    place = tuple(draw(st.integers(0, size - 1)) for size in bound.shape)
    output = sight.output.clone().double()
    output[place] += draw(st.sampled_from([-1, 1])) * 4 * max(float(bound[place]), 1e-6)
    return replace_output(sight, output)


def spoil_row(sight, bound, draw):
    """One row of one head, by a factor a little off one."""
    place = tuple(draw(st.integers(0, size - 1)) for size in bound.shape[:3])
    output = sight.output.clone().double()
    largest = output[place].abs().amax()
    assume(largest > 0)
    at = int(output[place].abs().argmax())
    factor = 4 * float(bound[place][at] / largest)
    output[place] *= 1 + factor
    return replace_output(sight, output)


def spoil_head(sight, bound, draw):
    """A head that was put to zero after the softmax, as an ablation would."""
    head = draw(st.integers(0, bound.shape[1] - 1))
    output = sight.output.clone().double()
    assume(bool((output[:, head].abs() > 4 * bound[:, head]).any()))
    output[:, head] = 0.0
    return replace_output(sight, output)


def spoil_weights(sight, bound, draw):
    """Weights that do not sum to one: the log-sum-exp is off."""
    place = tuple(draw(st.integers(0, size - 1)) for size in bound.shape[:3])
    assume(
        bool(sight.lse[place].isfinite() and sight.lse[place].abs() < 30)
    )  # beyond, weights follow from scores alone
    ratio = (bound[place] / sight.output[place].double().abs()).amin()
    off = 4 * float(ratio) + 4 * torch.finfo(sight.lse.dtype).eps * (1 + abs(float(sight.lse[place])))
    assume(off < 0.5)
    lse = sight.lse.clone()
    lse[place] += off
    return Sight(sight.problem, sight.output, lse)


def spoil_queries(sight, bound, draw):
    """The weights of another query."""
    Q = sight.Q.clone()
    row = draw(st.integers(0, Q.shape[2] - 1))
    Q[:, :, row] *= -2.0
    other = Sight(replace(sight.problem, Q=Q), sight.output, None)
    assume(bool(((other.output_from_weights().double() - sight.output.double()).abs() > 4 * bound).any()))
    return other


def replace_output(sight, output):
    """The same with another output, once it is another one in its own dtype too."""
    rounded = output.to(sight.output.dtype)
    assume(not torch.equal(rounded, sight.output))
    return Sight(sight.problem, rounded, sight.lse)


SPOILS = [spoil_number, spoil_row, spoil_head, spoil_weights, spoil_queries]


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda one: one.__name__)
@given(data=st.data(), **CASES)
def test_what_is_off_by_a_small_multiple_of_rounding_is_refused(spoil, data, dtype, mask, sizes, garbage, scale, seed):
    sight, (_, bound) = make_sight(dtype, mask, sizes, garbage, scale, seed)
    spoilt = spoil(sight, bound, data.draw)
    assert spoilt.receipt().fails, spoilt.receipt()


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
def test_the_tolerance_is_a_few_units_of_rounding(dtype, most):
    Q, K, V = make_inputs(dtype, (2, 3, 1, 37, 37, 16, 13), 5)
    sight = transom.sight(Q, K, V, causal=True)
    receipt = sight.receipt()
    assert receipt.holds
    assert receipt.tolerance <= most * float(V.abs().max())


@pytest.mark.parametrize("garbage", [1e6, 1e30, torch.inf, torch.nan])
def test_values_behind_the_mask_do_not_widen_the_tolerance(garbage):
    Q, K, V = make_inputs(torch.float32, (1, 2, 1, 5, 7, 5, 5), 3)
    real = torch.ones(1, 7, dtype=torch.bool)
    real[:, -1] = False
    V[:, :, -1] = K[:, :, -1] = garbage
    sight = transom.sight(Q, K, V, allowed=transom.padding(real))
    assert sight.receipt().holds
    spoilt = Sight(sight.problem, sight.output + 1.0, sight.lse)
    receipt = spoilt.receipt()
    assert receipt.fails
    assert receipt.tolerance < 1e-4


def test_another_head_does_not_widen_the_tolerance():
    Q, K, V = make_inputs(torch.float32, (1, 3, 1, 5, 7, 5, 5), 3)
    V[:, 0] *= 1e6
    sight = transom.sight(Q, K, V)
    assert sight.receipt().holds
    output = sight.output.clone()
    output[0, 2, 4, 3] += 1e-3
    receipt = Sight(sight.problem, output, sight.lse).receipt()
    assert receipt.fails
    assert str(receipt).endswith(" in batch 0, head 2, row 4")


def test_a_head_zeroed_in_bfloat16_is_refused_at_any_length():
    Q, K, V = make_inputs(torch.bfloat16, (1, 2, 1, 1024, 1024, 16, 16), 3)
    sight = transom.sight(Q, K, V)
    assert sight.receipt().holds
    output = sight.output.clone()
    output[:, 1] = 0.0
    assert Sight(sight.problem, output, sight.lse).receipt().fails


class Sdpa(nn.Module):
    """PyTorch's own attention, whatever kernel it picks."""

    def forward(self, Q, K, V, **options):
        return F.scaled_dot_product_attention(Q, K, V, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("large", [1.0, 30.0])
@pytest.mark.parametrize("width", [(64, 64), (5, 3)])  # the second goes by PyTorch's plain path
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float", "shared"])
def test_what_pytorch_computes_holds(dtype, large, width, kind):
    sizes = (2, 2, 3 if kind == "shared" else 1, 61, 61, *width)
    Q, K, V = make_inputs(dtype, sizes, 7)
    mask = torch.rand(61, 61, generator=torch.Generator().manual_seed(8)) < 0.7
    options = {
        "plain": {},
        "causal": {"is_causal": True},
        "bool": {"attn_mask": mask},
        "float": {"attn_mask": torch.randn(61, 61).to(dtype)},
        "shared": {"enable_gqa": True},
    }[kind]
    model = Sdpa()
    with torch.no_grad(), transom.watch(model) as trace:
        output = model(Q * large, K, V, **options)
    (sight,) = trace
    assert sight.receipt().holds, sight.receipt()
    assert torch.equal(sight.output, output)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("gradients", [True, False])  # by hand with them, in one fused step without
def test_heads_known_only_through_W_O_are_held_per_row(dtype, gradients):
    torch.manual_seed(9)
    layer = nn.MultiheadAttention(15, 3, batch_first=True).to(dtype).eval()
    x = torch.randn(2, 7, 15).to(dtype)
    with torch.set_grad_enabled(gradients), transom.watch(layer) as trace:
        layer(x, x, x)
    (sight,) = trace
    assert sight.receipt().holds, sight.receipt()
    used = sight.joined_output
    output = used.output.detach().clone()
    output[1, 4, 2] += 8 * torch.finfo(dtype).eps * float(output.abs().max()) + (
        1e-4 if dtype == torch.float32 else 0.1
    )
    spoilt = Sight(sight.problem, None, sight.lse, replace(used, output=output))
    assert spoilt.receipt().fails
    assert spoilt.receipt().where == "batch 1, row 4"


def test_nan_proves_nothing():
    Q, K, V = make_inputs(torch.float32, (1, 2, 1, 5, 7, 5, 5), 3)
    V[:] = torch.nan
    receipt = transom.sight(Q, K, V).receipt()
    assert not receipt.holds
    assert not receipt.fails
    assert str(receipt) == "not checkable: its output is not finite, which proves nothing"


def test_rows_that_are_not_finite_are_left_out_and_counted():
    Q, K, V = make_inputs(torch.float32, (1, 1, 1, 5, 5, 5, 5), 3)
    V[:, :, 3] = torch.nan  # seen by rows 3 and 4 alone
    sight = transom.sight(Q, K, V, causal=True)
    receipt = sight.receipt()
    assert receipt.holds
    assert receipt.part == "2 of 5 rows are not finite, which proves nothing of them"
    output = sight.output.clone()
    output[0, 0, 4] = 1.0
    assert Sight(sight.problem, output, sight.lse).receipt().fails
    output = sight.output.clone()
    output[0, 0, 1] = torch.nan
    assert Sight(sight.problem, output, sight.lse).receipt().fails


def test_a_comparison_reports_the_number_that_exceeds_its_bound_most():
    comparison = OutputComparison()
    real = torch.zeros(1, 2, 3)
    comparison.add(
        torch.tensor([[[0.0, 1e-3, 0.0], [0.0, 0.0, 2.0]]]), real, torch.tensor([[[1.0, 1e-4, 1.0], [1.0, 1.0, 1.0]]])
    )
    receipt = comparison.receipt()
    assert (receipt.difference, receipt.tolerance) == (pytest.approx(1e-3), pytest.approx(1e-4))
    assert receipt.where == "batch 0, row 0"


def test_nothing_to_compare_holds():
    Q, K, V = (torch.randn(0, 2, 3, 5) for _ in "QKV")
    assert transom.sight(Q, K, V).receipt().holds


def test_an_infinite_bound_holds_nothing():
    """Where the weights make infinity and the model did not, no bound is wide enough."""
    comparison = OutputComparison()
    comparison.add(torch.tensor([[[torch.inf]]]), torch.tensor([[[1.0]]]), torch.tensor([[[torch.inf]]]))
    assert comparison.receipt().fails
