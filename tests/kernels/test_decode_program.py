"""Programs of the native engine, operation by operation, beside PyTorch in float64; and the tokens it chooses."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transom.equations.biases import DistanceBias
from transom.kernels import native_library
from transom.kernels.decode_program import OWN, SOURCE, DecodeProgram, HeadSizes, ProgramBuilder, UnsupportedPart
from transom.kernels.packed_linear import LazyLogits, PackedMatrix

pytestmark = pytest.mark.usefixtures("instructions")
SHAPES = [(1, 1, 1), (1, 128, 131), (2, 37, 67), (5, 16, 32), (13, 7, 3), (31, 41, 97), (97, 128, 33)]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(53)


def computed(build, x):
    """What a program gives for x: `build` says what it does to a value."""
    draft = ProgramBuilder(native_library.library_or_reason())
    return DecodeProgram(draft, build(draft, draft.value(x.shape[1]))).step(x, 0)


def assert_near(found, expected, atol=5e-6):
    torch.testing.assert_close(found.double(), expected, rtol=5e-6, atol=atol)


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_a_product_is_that_of_pytorch(rows, inputs, outputs):
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs) / inputs**0.5, torch.randn(outputs)
    for shift in (bias, None):
        found = computed(lambda draft, value, shift=shift: draft.linear(value, weight, shift), x)
        assert_near(found, F.linear(x.double(), weight.double(), None if shift is None else shift.double()))


def test_a_row_comes_out_with_the_same_bits_alone_and_among_others():
    x, weight = torch.randn(37, 19), torch.randn(53, 19)
    together = computed(lambda draft, value: draft.linear(value, weight, None), x).clone()
    for row in range(37):
        alone = computed(lambda draft, value: draft.linear(value, weight, None), x[row : row + 1])
        assert torch.equal(alone[0], together[row])


@pytest.mark.parametrize("width", [1, 3, 16, 37, 128])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_norms_are_those_of_pytorch(width, eps):
    x, gain, shift = 3.0 + 2.0 * torch.randn(5, width), torch.randn(width), torch.randn(width)
    layer = computed(lambda draft, value: draft.norm("layer_norm", value, gain, shift, eps), x)
    assert_near(layer, F.layer_norm(x.double(), (width,), gain.double(), shift.double(), eps), atol=2e-5)
    rms = computed(lambda draft, value: draft.norm("rms_norm", value, gain, None, eps), x)
    assert_near(rms, F.rms_norm(x.double(), (width,), gain.double(), eps))
    bare = computed(lambda draft, value: draft.norm("layer_norm", value, None, None, eps), x)
    assert_near(bare, F.layer_norm(x.double(), (width,), None, None, eps), atol=2e-5)


@pytest.mark.parametrize(("kind", "function"), [("relu", torch.relu), ("gelu", F.gelu)])
def test_activations_are_those_of_pytorch(kind, function):
    x = torch.cat([10.0 * torch.randn(3, 37), torch.tensor([[-200.0, 200.0, 0.0] * 12 + [1.0]])])
    assert_near(computed(lambda draft, value: draft.record(kind, value, 37), x), function(x.double()))


def test_a_gate_opens_and_closes_as_silu():
    x = torch.cat([10.0 * torch.randn(3, 37), torch.tensor([[-200.0, 200.0, 0.0] * 12 + [1.0]])])
    weight = torch.randn(37, 37) / 60.0

    def gated(draft, value):
        return draft.record("swiglu", value, 37, other=draft.linear(value, weight, None))

    expected = F.silu(x.double()) * (x.double() @ weight.double().mT)
    torch.testing.assert_close(computed(gated, x).double(), expected, rtol=1e-5, atol=1e-5)


def test_values_are_added_and_registers_used_again():
    x, weights = torch.randn(5, 11), torch.randn(7, 11, 11) / 3.0

    def deep(draft, value):
        for weight in weights:
            value = value + draft.linear(value, weight, None)
        return value + value

    expected = x.double()
    for weight in weights.double():
        expected = expected + expected @ weight.mT
    draft = ProgramBuilder(native_library.library_or_reason())
    program = DecodeProgram(draft, deep(draft, draft.value(11)))
    assert program.register_count == 3
    torch.testing.assert_close(program.step(x, 0).double(), 2 * expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("heads", [HeadSizes(1, 1, 2), HeadSizes(6, 2, 10), HeadSizes(4, 1, 32)])
@pytest.mark.parametrize("halves", [False, True])
def test_queries_and_keys_are_turned_and_values_are_not(heads, halves):
    both, width = heads.heads + heads.kv_heads, (heads.heads + 2 * heads.kv_heads) * heads.d_head
    x, places = torch.randn(5, width), 9.0 * torch.rand(7, heads.d_head // 2)
    draft = ProgramBuilder(native_library.library_or_reason())
    program = DecodeProgram(draft, draft.rotate(draft.value(width), heads, halves))
    program.reserve(7, places)
    program.struct.slot_tables[OWN].length = 5
    found, angles = program.step(x, 0).double(), places[4]
    # A pair is a complex number, and a turn is a product with another one.
    folded = x.double().view(5, -1, heads.d_head)[:, :both]
    pairs = folded.unflatten(2, (2, -1)).mT if halves else folded.unflatten(2, (-1, 2))
    turned = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles).double(), angles.double())
    expected = torch.view_as_real(turned).mT if halves else torch.view_as_real(turned)
    assert_near(found[:, : both * heads.d_head], expected.flatten(1))
    assert torch.equal(found[:, both * heads.d_head :], x.double()[:, both * heads.d_head :])


def looked(draft, heads, value, bias):
    """Queries, keys and values by one product, and what is found among all that was kept."""
    width = (heads.heads + 2 * heads.kv_heads) * heads.d_head
    return draft.self_attention(draft.linear(value, torch.eye(width), None), heads, bias)


@pytest.mark.parametrize("heads", [HeadSizes(1, 1, 3), HeadSizes(2, 2, 32), HeadSizes(6, 2, 7), HeadSizes(4, 1, 37)])
@pytest.mark.parametrize("biased", [False, True])
def test_rows_look_at_the_past_that_their_lists_name(heads, biased):
    slopes = torch.rand(heads.heads)
    inner, width = heads.heads * heads.d_head, (heads.heads + 2 * heads.kv_heads) * heads.d_head
    draft, bias = ProgramBuilder(native_library.library_or_reason()), DistanceBias(slopes) if biased else None
    program, steps, rows = DecodeProgram(draft, looked(draft, heads, draft.value(width), bias)), 41, 3
    program.reserve(steps + 2)
    held, slots = torch.zeros(1, steps * rows, width - inner), torch.zeros(rows, steps, dtype=torch.int32)
    program.set_kv(held)
    skipped = torch.tensor([0, 2, 0], dtype=torch.int32)
    own = program.struct.slot_tables[OWN]
    written = torch.randn(steps, rows, width)
    for step in range(steps):
        if step and step % 5 == 0:  # the search changes its mind: all go on from the second, or the third
            slots = slots[[1, 2, 1]]
            skipped = skipped[[1, 2, 1]]
        own.slots, own.stride, own.length, own.begin = slots.data_ptr(), steps, step + 1, skipped.data_ptr()
        found = program.step(written[step], step * rows)
        for row in range(rows):
            if step < 2 and skipped[row]:
                continue  # nothing to look at yet
            own_slots = slots[row, skipped[row] : step + 1].long()
            K, V = held[0, own_slots].double().view(-1, 2, heads.kv_heads, heads.d_head).unbind(1)
            Q = written[step, row, :inner].double().view(heads.heads, 1, heads.d_head)
            distance = torch.arange(len(own_slots) - 1, -1, -1.0, dtype=torch.float64)
            mask = -slopes.double()[:, None, None] * distance if biased else None
            expected = F.scaled_dot_product_attention(Q, K.transpose(0, 1), V.transpose(0, 1), mask, enable_gqa=True)
            assert_near(found[row], expected.flatten())
            assert int(slots[row, step]) == step * rows + row


def test_sources_are_looked_at_by_the_rows_that_have_them():
    heads, entries, source = HeadSizes(2, 1, 5), 3, 19
    held, x = torch.randn(entries * source, 10), torch.randn(4, 10)
    draft = ProgramBuilder(native_library.library_or_reason())
    program = DecodeProgram(draft, draft.cross_attention(draft.value(10), heads, held))
    slots = torch.stack([torch.randperm(source) + source * entry for entry in range(entries)]).int()
    ends, which = torch.tensor([19, 7, 1], dtype=torch.int32), torch.tensor([2, 0, 1, 1], dtype=torch.int32)
    lists = program.struct.slot_tables[SOURCE]
    lists.slots, lists.stride, lists.length = slots.data_ptr(), source, source
    lists.end, lists.row_lists = ends.data_ptr(), which.data_ptr()
    found = program.step(x, 0)
    for row, entry in enumerate(which.tolist()):
        K, V = held[slots[entry, : ends[entry]].long()].double().split(5, dim=1)
        expected = F.scaled_dot_product_attention(x[row].double().view(2, 1, 5), K[None], V[None])
        assert_near(found[row], expected.flatten())


def test_several_threads_give_the_same_bits():
    x, weight = torch.randn(97, 128), torch.randn(1031, 128)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(computed(lambda draft, value: draft.linear(value, weight, None), x).clone())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_an_equation_that_does_something_else_is_not_known():
    draft = ProgramBuilder(native_library.library_or_reason())
    value = draft.value(3)
    with pytest.raises(UnsupportedPart, match=r"^mul in the equation of a block$"):
        _ = value * 2.0
    with pytest.raises(UnsupportedPart, match=r"^adding what is not a value$"):
        _ = value + nn.Parameter(torch.zeros(3))


def ahead(rows, vocabulary, bias=None):
    """Logits that are not worked out yet, and the same worked out by PyTorch."""
    x, weight = torch.randn(rows, 7), torch.randn(vocabulary, 7)
    shift = None if bias is None else bias.double()
    return LazyLogits(x, PackedMatrix(native_library.library_or_reason(), weight, bias)), F.linear(
        x.double(), weight.double(), shift
    )


@given(st.integers(0, 9999), st.integers(1, 13), st.integers(1, 5), st.integers(1, 700), st.integers(1, 12))
def test_the_best_are_those_of_topk(seed, batch, times, vocabulary, k):
    torch.manual_seed(seed)
    logits, whole = ahead(batch * times, vocabulary)
    scores = torch.randn(batch, times)
    values, places = logits.best_continuations(scores, k)
    assert values.shape == places.shape == (batch, k)
    whole = (whole.log_softmax(dim=1) + scores.double().view(-1, 1)).view(batch, times * vocabulary)
    expected = whole.topk(min(k, times * vocabulary)).values
    there = expected.shape[1]
    torch.testing.assert_close(values[:, :there].double(), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(whole.gather(1, places)[:, :there], expected, rtol=0, atol=1e-5)
    assert (values[:, there:] == -torch.inf).all()
    assert all(len(set(row)) == there for row in places[:, :there].tolist())


@given(st.integers(0, 9999), st.integers(1, 5), st.integers(1, 300))
def test_the_likeliest_is_the_first_of_the_largest(seed, rows, vocabulary):
    torch.manual_seed(seed)
    x, weight = torch.randint(-2, 3, (rows, 3)).float(), torch.randint(-2, 3, (vocabulary, 3)).float()
    logits = LazyLogits(x, PackedMatrix(native_library.library_or_reason(), weight))
    expected = [row.index(max(row)) for row in (x @ weight.mT).tolist()]
    assert logits.argmax().tolist() == expected
    assert torch.equal(logits.compute(), x @ weight.mT)


def test_sums_follow_logits_of_any_size():
    bias = torch.zeros(331)
    bias[torch.randperm(331)[:5]] = torch.tensor([300.0, 900.0, -900.0, 901.0, 200.0])
    logits, whole = ahead(3, 331, bias)
    values, places = logits.best_continuations(torch.zeros(3, 1), 2)
    expected = whole.log_softmax(dim=1).topk(2)
    # A float32 of 900 is known to 6e-5.
    torch.testing.assert_close(values.double(), expected.values, rtol=0, atol=3e-4)
    assert torch.equal(places, expected.indices)


def test_what_is_chosen_does_not_depend_on_the_other_rows_or_threads():
    logits, _ = ahead(37, 1031)
    scores, before, found = torch.randn(37, 1), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(logits.best_continuations(scores, 5))
    finally:
        torch.set_num_threads(before)
    for values, places in found[1:]:
        assert torch.equal(values, found[0][0])
        assert torch.equal(places, found[0][1])
    few = LazyLogits(logits.x[:31].contiguous(), logits.unembedding).best_continuations(scores[:31], 5)
    assert torch.equal(few[1], found[0][1][:31])
