"""Position encodings: each compared with a loop or a dense bias, and the properties of all."""

import cmath
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from models.small import assert_misfit

import transom
from transom.equations.heads import merge_heads
from transom.equations.positions import distance_buckets
from transom.layers import (
    POSITIONS,
    Alibi,
    Embedding,
    Learned,
    MultiHeadAttention,
    NoPositions,
    Positions,
    PositionSizes,
    Relative,
    RelativeBuckets,
    Rotary,
    Sinusoidal,
)
from transom.layers.position_encoding import PositionTable, token_positions

SIZES = PositionSizes(d_model=11, heads=3, d_head=10, longest=13)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(19)


@pytest.mark.parametrize("name", POSITIONS)
def test_each_part_is_built_by_name_and_enters_at_one_place_only(name):
    part = POSITIONS[name].for_sizes(SIZES)
    assert isinstance(part, Positions)
    x, Q, at = torch.randn(2, 7, 11), torch.randn(2, 3, 7, 10), token_positions(7, 2, torch.device("cpu"))
    acts = {
        "the embedding": not torch.equal(part.embed(x, at), x),
        "attention": not torch.equal(part.rotate(Q, at), Q) or part.bias(x.device) is not None,
    }
    assert acts == {place: place == part.enters for place in acts}


@pytest.mark.parametrize("name", POSITIONS)
def test_each_part_tells_order_unless_it_is_none(name):
    part = POSITIONS[name].for_sizes(SIZES)
    embedding = Embedding(17, 11, positions=part if part.enters != "attention" else None)
    layer = MultiHeadAttention(11, 3, d_head=10, positions=part if part.enters == "attention" else None)
    tokens = torch.tensor([[5, 3, 2, 7, 11]])
    swapped = torch.tensor([[3, 5, 2, 7, 11]])
    last, last_swapped = (layer(embedding(ids))[:, -1] for ids in (tokens, swapped))
    assert torch.allclose(last, last_swapped, atol=1e-6) == (name == "none")


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("shift", [0, 5])
def test_each_part_counts_from_the_first_position(name, shift):
    part = POSITIONS[name].for_sizes(SIZES)
    x, Q = torch.randn(2, 8, 11), torch.randn(2, 3, 8, 10)
    end_of_range = token_positions(shift + 8, 0, torch.device("cpu"))[:, shift:]
    shifted = token_positions(8, shift, torch.device("cpu"))
    assert torch.equal(part.embed(x, end_of_range), part.embed(x, shifted))
    assert torch.equal(part.rotate(Q, end_of_range), part.rotate(Q, shifted))


def test_sinusoidal_adds_the_papers_waves():
    x = torch.zeros(2, 7, 11, dtype=torch.float64)
    waves = Sinusoidal(11, base=100.0).embed(x, torch.tensor([[0, 1, 2, 3, 5, 8, 13], [4, 5, 6, 7, 8, 9, 10]]))
    for b, positions in enumerate([[0, 1, 2, 3, 5, 8, 13], [4, 5, 6, 7, 8, 9, 10]]):
        for t, position in enumerate(positions):
            for i in range(11):
                angle = position / 100.0 ** ((i - i % 2) / 11)
                expected = math.cos(angle) if i % 2 else math.sin(angle)
                assert waves[b, t, i].item() == pytest.approx(expected, abs=1e-14)


def test_learned_adds_the_vector_of_its_position_and_trains_it():
    part = Learned(5, 7).double()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    at = torch.tensor([[6, 0, 2], [1, 1, 3]])
    embedded = part.embed(x, at)
    for b in range(2):
        for t in range(3):
            assert torch.equal(embedded[b, t], x[b, t] + part.vectors[at[b, t]])
    embedded.sum().backward()
    assert part.vectors.grad[:, 0].tolist() == [1.0, 2.0, 1.0, 1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("halves", [False, True])
def test_rotary_rotates_pairs_as_complex_numbers(halves):
    d_head, base = 6, 100.0
    x = torch.randn(1, 1, 2, d_head, dtype=torch.float64)
    rotated = Rotary(d_head, base, halves).rotate(x, torch.tensor([[3, 7]]))
    for t, position in enumerate((3, 7)):
        for i in range(d_head // 2):
            first, second = (i, i + d_head // 2) if halves else (2 * i, 2 * i + 1)
            number = complex(x[0, 0, t, first], x[0, 0, t, second])
            expected = number * cmath.exp(1j * position * base ** (-2 * i / d_head))
            assert complex(rotated[0, 0, t, first], rotated[0, 0, t, second]) == pytest.approx(expected, abs=1e-14)


@settings(max_examples=25, deadline=None)
@given(start=st.integers(0, 1_000_000), halves=st.booleans(), seed=st.integers(0, 999))
def test_rotary_attention_depends_on_distances_only(start, halves, seed):
    torch.manual_seed(seed)
    part = Rotary(10, halves=halves)
    Q, K, V = (torch.randn(2, 3, 7, 10, dtype=torch.float64) for _ in range(3))
    outputs = []
    for at in (token_positions(7, first, Q.device) for first in (0, start)):
        outputs.append(transom.attend(part.rotate(Q, at), part.rotate(K, at), V, causal=True))
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kv_heads", [1, 3])
def test_rotary_attention_equals_torchs_over_queries_and_keys_rotated_as_complex_numbers(kv_heads):
    layer = MultiHeadAttention(11, 3, kv_heads, 6, 5, positions=Rotary(6)).double()
    x = torch.randn(2, 7, 11, dtype=torch.float64)
    angles = torch.outer(torch.arange(7).double(), 10_000.0 ** (-torch.arange(3).double() / 3))

    def rotated(projection, heads):
        numbers = torch.view_as_complex(projection(x).reshape(2, 7, heads, 3, 2))
        numbers = numbers * torch.polar(torch.ones_like(angles), angles)[None, :, None]
        return torch.view_as_real(numbers).flatten(-2).transpose(1, 2)

    V = layer.W_V(x).reshape(2, 7, kv_heads, 5).transpose(1, 2)
    heads = F.scaled_dot_product_attention(rotated(layer.W_Q, 3), rotated(layer.W_K, kv_heads), V, enable_gqa=True)
    torch.testing.assert_close(layer(x), layer.W_O(heads.transpose(1, 2).flatten(2)), rtol=0, atol=1e-6)


def test_rotary_positions_may_differ_in_each_batch_entry():
    part = Rotary(6)
    Q, at = torch.randn(2, 3, 5, 6), torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
    rotated = part.rotate(Q, at)
    for entry in range(2):
        assert torch.equal(rotated[entry], part.rotate(Q[entry, None], at[entry, None])[0])


def dense_twin(layer):
    twin = MultiHeadAttention(layer.d_model, layer.heads, layer.kv_heads, layer.d_head).double()
    twin.load_state_dict({name: value for name, value in layer.state_dict().items() if "positions" not in name})
    return twin


@pytest.mark.parametrize("heads", [3, 4, 12])
@pytest.mark.parametrize("causal", [False, True])
def test_alibi_equals_its_dense_bias(heads, causal):
    layer = MultiHeadAttention(11, heads, d_head=5, positions=Alibi(heads)).double()
    x = torch.randn(2, 7, 11, dtype=torch.float64)
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    slopes += [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * (heads - power), 2)]
    dense = torch.tensor([[[-slope * abs(j - i) for j in range(7)] for i in range(7)] for slope in slopes])
    expected = dense_twin(layer)(x, bias=dense.double(), causal=causal)
    torch.testing.assert_close(layer(x, causal=causal), expected, rtol=0, atol=1e-7)


def test_alibi_keeps_far_distances_in_a_half_precision_model():
    layer = MultiHeadAttention(11, 3, d_head=5, positions=Alibi(3)).to(torch.bfloat16)
    assert layer.positions.bias(torch.device("cpu")).source.dtype == torch.float32
    assert layer(torch.randn(2, 7, 11, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_relative_equals_its_dense_bias_with_gradient_into_the_table(kv_heads, causal):
    layer = MultiHeadAttention(11, 3, kv_heads, 5, positions=Relative(3, 2)).double()
    twin, table = dense_twin(layer), layer.positions.table.detach().clone().requires_grad_()
    x = torch.randn(2, 7, 11, dtype=torch.float64)
    rows = [[table[:, max(-2, min(2, j - i)) + 2] for j in range(7)] for i in range(7)]
    dense = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
    output, expected = layer(x, causal=causal), twin(x, bias=dense, causal=causal)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    gradient = torch.randn_like(output)
    output.backward(gradient)
    expected.backward(gradient)
    assert table.grad.abs().min() > 0 or causal
    torch.testing.assert_close(layer.positions.table.grad, table.grad, rtol=0, atol=1e-11)


def test_one_relative_part_may_serve_several_layers():
    part = Relative(3, 2)
    first, second = (MultiHeadAttention(11, 3, d_head=5, positions=part) for _ in range(2))
    second(first(torch.randn(2, 7, 11))).sum().backward()
    assert first.positions.table is second.positions.table
    assert part.table.grad is not None


def test_only_learned_parts_have_parameters():
    counts = {
        name: sum(parameter.numel() for parameter in part.for_sizes(SIZES).parameters())
        for name, part in POSITIONS.items()
    }
    assert counts == {
        "none": 0,
        "sinusoidal": 0,
        "learned": 13 * 11,
        "rotary": 0,
        "alibi": 0,
        "relative": 3 * (2 * 13 + 1),
        "buckets": 3 * 32,
    }


def test_nothing_but_parameters_is_saved():
    for name in POSITIONS:
        part = POSITIONS[name].for_sizes(SIZES)
        assert set(part.state_dict()) == {key for key, _ in part.named_parameters()}
    assert repr(NoPositions()) == "NoPositions()"
    assert repr(Rotary(6)) == "Rotary(d_head=6)"


@pytest.mark.parametrize("at", [[[0, 1]], [[63, 64]], [[5, 300], [7, 2]], [[-3, 2]], [[1, 70_001]], [[]]])
def test_a_table_gives_what_its_formula_gives(at):
    positions = torch.tensor(at, dtype=torch.int64)
    table = PositionTable(lambda positions, dtype: positions[..., None] * torch.tensor([0.5, 2.0, 3.0], dtype=dtype))
    for like, dtype in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)) * 2:
        rows = table.lookup(positions, like)
        assert rows.dtype == dtype
        assert torch.equal(rows, table.formula(positions, dtype))
    assert table.rows is None or len(table.rows) < 1000


def test_positions_met_in_inference_mode_can_be_trained_with_later():
    rotary, x = Rotary(6), torch.randn(2, 3, 5, 6, requires_grad=True)
    with torch.inference_mode():
        rotary.rotate(torch.randn(2, 3, 5, 6), token_positions(5, 0, x.device))
    rotary.rotate(x, token_positions(5, 0, x.device)).sum().backward()
    assert x.grad is not None


def test_buckets_are_those_of_t5():
    T5Attention = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    distances = torch.arange(-301, 302)
    for buckets, farthest, causal in [(32, 128, False), (32, 128, True), (7, 19, True), (12, 101, False)]:
        expected = T5Attention._relative_position_bucket(distances, not causal, buckets, farthest)
        assert torch.equal(distance_buckets(distances, buckets, farthest, causal), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_relative_buckets_add_the_number_of_the_distance(causal):
    part = RelativeBuckets(3, buckets=8, farthest=11, causal=causal)
    layer = MultiHeadAttention(10, 3, d_head=7, positions=part)
    x = torch.randn(2, 23, 10)
    Q, K, V = layer.project(x)
    distances = torch.arange(23)[None, :] - torch.arange(23)[:, None]
    added = part.table[:, distance_buckets(distances, 8, 11, causal)][None]
    expected = transom.attend(Q, K, V, bias=added, causal=causal)
    torch.testing.assert_close(layer(x, causal=causal), layer.W_O(merge_heads(expected)), rtol=0, atol=1e-5)
    layer(x, causal=causal).square().sum().backward()
    assert part.table.grad is not None
    assert part.table.grad.abs().sum() > 0


def test_too_few_buckets_are_refused():
    message = (
        "relative buckets need 4 buckets or more, and farthest above buckets/4, but got buckets=3 and farthest=128;"
        " T5 has 32 and 128"
    )
    assert_misfit(message, RelativeBuckets, 3, buckets=3)


@pytest.mark.parametrize("d_model", [12, 11])
def test_sinusoids_in_halves_are_marians(d_model):
    marian = pytest.importorskip("transformers.models.marian.modeling_marian")
    theirs = marian.MarianSinusoidalPositionalEmbedding(19, d_model)
    expected = torch.as_tensor(theirs.create_weight(), dtype=torch.float32)
    part = Sinusoidal(d_model, halves=True)
    found = part.embed(torch.zeros(1, 19, d_model), torch.arange(19)[None])
    torch.testing.assert_close(found[0], expected, rtol=0, atol=1e-6)
    shifted = Sinusoidal(d_model, halves=True, offset=2).embed(torch.zeros(1, 17, d_model), torch.arange(17)[None])
    assert torch.equal(shifted, found[:, 2:])


def test_learned_positions_may_begin_at_a_later_row():
    part, at = Learned(5, longest=7, offset=2), torch.tensor([[0, 3, 6]])
    assert part.vectors.shape == (9, 5)
    assert torch.equal(part.embed(torch.zeros(1, 3, 5), at)[0], part.vectors[[2, 5, 8]])
    message = (
        "learned positions go from 0 to 6, but positions 0 to 7 came; cut the sequence, or build Learned with a larger"
        " longest"
    )
    assert_misfit(message, part.embed, torch.zeros(1, 2, 5), torch.tensor([[0, 7]]))
