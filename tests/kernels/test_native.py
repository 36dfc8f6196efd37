"""The native engine against float64: all it does, in each instruction set, with any number of threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import transom
from transom.equations.biases import DistanceBias, RelativeBias
from transom.equations.masks import TensorMask
from transom.kernels import dispatch, native_library, torch_engine
from transom.kernels.problem import build_problem

ERROR = 5e-6


def tensors(queries=37, keys=41, heads=6, kv_heads=3, d_head=19, d_value=23, seed=5):
    random = torch.Generator().manual_seed(seed)
    sizes = ((heads, queries, d_head), (kv_heads, keys, d_head), (kv_heads, keys, d_value))
    return tuple(torch.randn(2, *size, generator=random) for size in sizes)


RANDOM = torch.Generator().manual_seed(3)
ALLOWED = torch.rand(2, 6, 37, 41, generator=RANDOM) < 0.6
ALLOWED[1, 2, 3] = False  # a row that may look nowhere
REAL = torch.rand(2, 41, generator=RANDOM) < 0.7
REAL[1, 30:] = False
DOCUMENTS = torch.stack([torch.arange(41) // 9, torch.arange(41) // 5])
ONE_OF_THREE = transom.same_document(torch.arange(41) // 19)
BIAS = torch.randn(2, 1, 37, 41, generator=RANDOM)
FIRST = torch.arange(41) < 3
LOWEST = torch.zeros(1, 1, 37, 41)
LOWEST[:, :, :, 5:9] = torch.finfo(torch.float32).min
LOWEST[:, :, 7] = torch.finfo(torch.float32).min
LOWEST[:, :, 11] = -torch.inf

SETTINGS = {
    "plain": {},
    "causal": {"causal": True},
    "scaled": {"scale": -0.7},
    "window": {"allowed": transom.sliding_window(5)},
    "causal window": {"causal": True, "allowed": transom.sliding_window(5)},
    "padding": {"allowed": transom.padding(REAL)},
    "padding by head": {"allowed": ALLOWED[:, :, :1]},
    "documents": {"allowed": transom.same_document(torch.arange(41) // 9)},
    "documents, each their own": {"allowed": transom.same_document(DOCUMENTS)},
    "given": {"allowed": ALLOWED},
    "given to all heads": {"allowed": ALLOWED[:, :1]},
    "all": {"causal": True, "allowed": transom.sliding_window(17) & transom.padding(REAL) & ONE_OF_THREE},
    "a prefix for all": {"allowed": transom.causal() | transom.padding(FIRST)},
    "a window and sinks": {"causal": True, "allowed": transom.sliding_window(5) | transom.padding(REAL)},
    "documents and a prefix": {"allowed": transom.same_document(DOCUMENTS) | transom.padding(FIRST)},
    "documents of two kinds": {"allowed": transom.same_document(DOCUMENTS) & ONE_OF_THREE},
    "a window or a document": {"allowed": transom.sliding_window(3) | transom.same_document(DOCUMENTS)},
    "both of two, or padding": {"allowed": (transom.causal() & ONE_OF_THREE) | transom.padding(FIRST | REAL)},
    "given or a window": {"allowed": TensorMask(ALLOWED) | transom.sliding_window(2)},
    "biased": {"bias": BIAS},
    "biased by key": {"bias": BIAS[:, :, :1]},
    "biased with the lowest number and −∞": {"bias": LOWEST},
    "alibi": {"bias": DistanceBias(torch.rand(6, generator=RANDOM))},
    "table": {"bias": RelativeBias(torch.randn(6, 9, generator=RANDOM)), "causal": True},
    "capped": {"softcap": 1.5},
    "capped far": {"softcap": 50.0},
    "capped, biased, masked": {"softcap": 2.0, "bias": BIAS, "allowed": ALLOWED, "causal": True},
    "dropout": {"dropout": 0.3},
    "dropout, causal, masked": {"dropout": 0.3, "causal": True, "allowed": ALLOWED},
}


def widened(settings):
    """The same in float64."""
    return {
        name: one.double() if name == "bias" and isinstance(one, torch.Tensor) else one
        for name, one in settings.items()
    }


def answers(solve, qkv, rounded=torch.float64, **settings):
    """Output, log-sum-exp and gradients, all from the same seeds; what is sent back is `rounded`."""
    qkv = [x.detach().requires_grad_() for x in qkv]
    torch.manual_seed(11)
    output, lse = solve(build_problem(*qkv, **settings))
    sent = torch.randn(output.shape, generator=torch.Generator().manual_seed(13)).to(rounded).to(output.dtype)
    return output.detach(), lse, *torch.autograd.grad(output, qkv, sent)


@pytest.mark.parametrize("name", SETTINGS)
def test_output_lse_and_gradients_are_those_of_float64(name, instructions):
    qkv = tensors()
    found = answers(dispatch.solve, qkv, **SETTINGS[name])
    exact = answers(torch_engine.solve, [x.double() for x in qkv], **widened(SETTINGS[name]))
    for mine, its in zip(found, exact, strict=True):
        assert mine.dtype == torch.float32
        assert torch.equal(mine == -torch.inf, its == -torch.inf)
        there = its != -torch.inf
        assert ((mine - its)[there].abs() / its[there].abs().clamp_min(1.0)).max() < ERROR


sizes = st.sampled_from([1, 2, 3, 7, 8, 15, 16, 17, 31, 47, 48, 49, 97, 131, 257])
widths = st.sampled_from([1, 2, 5, 8, 16, 17, 33, 64])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.tuples(sizes, sizes), d=st.tuples(widths, widths), group=st.integers(1, 3), kind=st.integers(0, 7))
def test_any_sizes_strides_and_masks(instructions, lengths, d, group, kind):
    queries, keys = lengths
    Q, K, V = tensors(queries, keys, 2 * group, 2, *d, seed=queries + keys)
    if kind & 4:  # as they come from one projection, split into heads
        Q, K, V = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (Q, K, V))
    random = torch.Generator().manual_seed(queries)
    allowed = torch.rand(2, 1, queries, keys, generator=random) < 0.5 if kind & 1 else None
    settings = {"allowed": allowed, "causal": bool(kind & 2)}
    found = answers(dispatch.solve, (Q, K, V), **settings)
    exact = answers(torch_engine.solve, [x.double() for x in (Q, K, V)], **settings)
    for mine, its in zip(found, exact, strict=True):
        there = its != -torch.inf
        assert torch.equal(mine == -torch.inf, ~there)
        if there.any():
            assert ((mine - its)[there].abs() / its[there].abs().clamp_min(1.0)).max() < 2 * ERROR


def test_long_rows_go_over_several_blocks_of_keys(instructions):
    Q, K, V = tensors(queries=401, keys=4507, heads=2, kv_heads=1, d_head=13, d_value=11)
    for causal in (False, True):
        found = answers(dispatch.solve, (Q, K, V), causal=causal)
        exact = answers(torch_engine.solve, [Q.double(), K.double(), V.double()], causal=causal)
        for mine, its in zip(found, exact, strict=True):
            assert ((mine - its).abs() / its.abs().clamp_min(1.0)).max() < ERROR


@pytest.mark.parametrize("sharp", [1.0, 3.0])
def test_long_rows_of_large_scores_are_as_exact(sharp, instructions):
    Q, K, V = tensors(queries=61, keys=4507, heads=2, kv_heads=1, d_head=67, d_value=11)
    found = answers(dispatch.solve, (Q * sharp, K, V), causal=True)
    exact = answers(torch_engine.solve, [(Q * sharp).double(), K.double(), V.double()], causal=True)
    for mine, its in zip(found, exact, strict=True):
        assert ((mine - its).abs() / its.abs().clamp_min(1.0)).max() < ERROR


def test_a_long_row_of_equal_values_gives_that_value(instructions):
    """One long sum would be off by a unit of the last place for some hundred keys; a sum of sums is not."""
    Q, K, _ = tensors(queries=13, keys=30_011, heads=1, kv_heads=1, d_head=3)
    V = torch.full((2, 1, 30_011, 5), 0.7)
    assert (transom.attend(Q, K, V) - 0.7).abs().max() < 1e-6


HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["causal", "given", "a window and sinks", "capped, biased, masked", "dropout"])
def test_half_precision_has_the_bits_of_float32_until_the_answer_is_rounded(dtype, name, instructions):
    qkv = [x.transpose(1, 2).contiguous().transpose(1, 2).to(dtype) for x in tensors()]
    output, lse, *sent = answers(dispatch.solve, qkv, **SETTINGS[name])
    wide, wide_lse, *wide_sent = answers(dispatch.solve, [x.float() for x in qkv], rounded=dtype, **SETTINGS[name])
    assert lse.dtype == torch.float32
    assert torch.equal(lse, wide_lse)
    for mine, its in zip((output, *sent), (wide, *wide_sent), strict=True):
        assert mine.dtype == dtype
        assert torch.equal(mine, its.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_every_number_of_half_precision_is_read_as_it_is(dtype, instructions):
    """All 65,536, denormals, infinities and NaN among them, as values of a single key."""
    V = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype).reshape(1, 1, 1, -1)
    found = transom.attend(torch.ones(1, 1, 1, 1).to(dtype), torch.ones(1, 1, 1, 1).to(dtype), V)
    assert torch.equal(found.isnan(), V.isnan())
    there = ~V.isnan() & ((V == 0) | (V.float().abs() >= torch.finfo(torch.float32).tiny))
    assert torch.equal(found[there], V[there])
    assert int(there.sum()) > 60_000


def test_every_number_of_threads_gives_the_same_bits(instructions, monkeypatch):
    Q, K, V = tensors(queries=397, keys=401, heads=2, kv_heads=1)
    once = answers(dispatch.solve, (Q, K, V), causal=True)
    for threads in (1, 2, 3, 5):
        monkeypatch.setattr(native_library, "threads", lambda threads=threads: threads)
        assert all(map(torch.equal, answers(dispatch.solve, (Q, K, V), causal=True), once))


def test_a_call_in_turns_gives_the_same_bits(instructions, monkeypatch):
    Q, K, V = tensors(queries=397, keys=401)
    once = answers(dispatch.solve, (Q, K, V), causal=True)
    monkeypatch.setattr(native_library, "PRODUCTS_AT_ONCE", 2**18)
    assert len(list(native_library.chunk_units(36, 36 * 2**18))) == 36
    assert all(map(torch.equal, answers(dispatch.solve, (Q, K, V), causal=True), once))


def test_several_threads_call_at_once(instructions):
    qkv = tensors(queries=131, keys=139)
    once = answers(dispatch.solve, qkv, causal=True)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: answers(dispatch.solve, qkv, causal=True)[:2], range(12)):
            assert all(map(torch.equal, found, once[:2]))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf, 3e38])
@pytest.mark.parametrize("where", [1, 2], ids=["key", "value"])
@pytest.mark.parametrize("name", ["padding", "given", "capped, biased, masked"])
def test_what_is_masked_cannot_leak_forward_or_backward(poison, where, name, instructions):
    qkv = [x.clone() for x in tensors()]
    settings = dict(SETTINGS[name])
    hidden = slice(32, 35)
    settings["allowed"] = settings["allowed"] if name == "padding" else ALLOWED & (torch.arange(41) // 3 != 11)
    hidden = slice(33, 36) if name != "padding" else hidden
    batch = 1 if name == "padding" else slice(None)
    clean = answers(dispatch.solve, qkv, **settings)
    qkv[where][batch, :, hidden] = poison
    assert all(map(torch.equal, answers(dispatch.solve, qkv, **settings), clean))


def test_a_value_that_is_no_number_reaches_those_who_look_at_it(instructions):
    Q, K, V = tensors(keys=37)
    clean = transom.attend(Q, K, V, causal=True)
    bad = V.clone()
    bad[0, 1, 8, 1], bad[0, 1, 9, 1], bad[0, 1, 9, 2], bad[0, 1, 10, 2] = torch.inf, -torch.inf, torch.inf, torch.nan
    found = transom.attend(Q, K, bad, causal=True)
    assert (found[0, 2:4, 8, 1] == torch.inf).all()
    assert found[0, 2:4, 9:, 1].isnan().all()
    assert (found[0, 2:4, 9, 2] == torch.inf).all()
    assert found[0, 2:4, 10:, 2].isnan().all()
    others = found.isfinite()
    assert int((~others).sum()) == 2 * (29 + 28)
    assert torch.equal(found[others], clean[others])


def test_denormal_numbers_are_left_as_they_were_outside(instructions):
    small = torch.tensor(1e-40)
    transom.attend(*tensors())
    assert float(small * 0.5) > 0
