"""`attend` against loops, against SDPA, and by what it promises: masks, empty rows, leaks, caches, sizes of 0 and 1."""

import itertools
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from reference import attention as by_loops

import transom
from transom.equations.biases import DistanceBias, RelativeBias
from transom.equations.region import Region
from transom.kernels import tiled_attention, torch_engine
from transom.kernels.problem import build_problem

pytestmark = pytest.mark.usefixtures("each_engine")


@dataclass
class Case:
    """Sizes and a seed from which Q, K, V, a mask and a bias follow."""

    batch: int
    kv_heads: int
    group: int
    queries: int
    keys: int
    d_head: int
    d_value: int
    seed: int

    def tensors(self, dtype=torch.float64):
        random = torch.Generator().manual_seed(self.seed)
        heads = self.kv_heads * self.group
        return tuple(
            torch.randn(size, generator=random, dtype=torch.float64).to(dtype)
            for size in (
                (self.batch, heads, self.queries, self.d_head),
                (self.batch, self.kv_heads, self.keys, self.d_head),
                (self.batch, self.kv_heads, self.keys, self.d_value),
            )
        )

    def allowed(self):
        """Random, with one row in five empty."""
        random = torch.Generator().manual_seed(self.seed + 1)
        whole = (self.batch, self.kv_heads * self.group, self.queries, self.keys)
        return (torch.rand(whole, generator=random) < 0.6) & (torch.rand(*whole[:3], 1, generator=random) > 0.2)

    def bias(self):
        random = torch.Generator().manual_seed(self.seed + 2)
        return torch.randn(self.kv_heads * self.group, self.queries, self.keys, generator=random, dtype=torch.float64)


cases = st.builds(
    Case,
    batch=st.integers(0, 3),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    queries=st.integers(0, 7),
    keys=st.integers(0, 11),
    d_head=st.integers(1, 5),
    d_value=st.integers(1, 5),
    seed=st.integers(0, 10**6),
)
SOME = Case(batch=2, kv_heads=3, group=2, queries=7, keys=11, d_head=5, d_value=3, seed=17)


def dense(mask, whole):
    return mask.materialize(Region(whole, device=torch.device("cpu"))).expand(whole)


@given(case=cases, masked=st.booleans(), biased=st.booleans(), softcap=st.sampled_from([None, 2.5]))
def test_attend_is_the_loop(case, masked, biased, softcap):
    Q, K, V = case.tensors()
    allowed, bias = case.allowed() if masked else None, case.bias() if biased else None
    found = transom.attend(Q, K, V, allowed=allowed, bias=bias, softcap=softcap, scale=0.7)
    spread = None if bias is None else bias[None].expand(case.batch, -1, -1, -1)
    output, _, _ = by_loops(Q, K, V, allowed, spread, scale=0.7, softcap=softcap)
    assert found.shape == (case.batch, Q.shape[1], case.queries, case.d_value)
    assert torch.allclose(found, torch.tensor(output, dtype=torch.float64).reshape(found.shape), atol=1e-11)


SDPA_TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@pytest.mark.parametrize("dtype", SDPA_TOLERANCE)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [1, 31, 193, 1031])
def test_attend_is_sdpa(dtype, causal, tokens):
    torch.manual_seed(tokens)
    Q, K, V = (torch.randn(2, 3, tokens, 17).to(dtype) for _ in range(3))
    expected = F.scaled_dot_product_attention(Q.double(), K.double(), V.double(), is_causal=causal)
    assert (transom.attend(Q, K, V, causal=causal) - expected).abs().max() < SDPA_TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", SDPA_TOLERANCE)
def test_tiles_are_sdpa_where_the_fused_kernel_is_not_used(dtype):
    Q, K, V = (torch.randn(2, 3, 197, 17).to(dtype) for _ in range(3))
    expected = F.scaled_dot_product_attention(Q.double(), K.double(), V.double(), is_causal=True)
    output, _ = tiled_attention.tiled_attention(build_problem(Q, K, V, causal=True))
    assert (output - expected).abs().max() < SDPA_TOLERANCE[dtype]


def masks(case):
    """Every kind of mask that this case can have, by name."""
    real = torch.rand(case.batch, case.keys, generator=torch.Generator().manual_seed(1)) < 0.7
    ids = torch.arange(case.keys) // 4
    found = {
        "causal": transom.causal(),
        "padding": transom.padding(real),
        "causal & padding": transom.causal() & transom.padding(real),
        "window": transom.sliding_window(3),
        "causal & window": transom.causal() & transom.sliding_window(3),
        "causal | padding": transom.causal() | transom.padding(real),
    }
    if case.queries <= case.keys:
        found["documents"] = transom.same_document(ids)
        found["all four"] = (
            transom.causal() & transom.sliding_window(5) & transom.same_document(ids) & transom.padding(real)
        )
    return found


@pytest.mark.parametrize("queries", [1, 7, 13, 17])
@pytest.mark.parametrize("biased", [False, True])
def test_mask_objects_do_what_a_dense_mask_does(queries, biased):
    case = Case(batch=2, kv_heads=3, group=2, queries=queries, keys=13, d_head=5, d_value=3, seed=queries)
    Q, K, V = case.tensors()
    bias = case.bias() if biased else None
    for name, mask in masks(case).items():
        allowed = dense(mask, (2, 6, queries, 13))
        spread = None if bias is None else bias[None].expand(2, -1, -1, -1)
        expected = torch.tensor(by_loops(Q, K, V, allowed, spread)[0], dtype=torch.float64)
        problem = build_problem(Q, K, V, mask, bias)
        assert torch_engine.fused_applies(problem)
        assert torch.allclose(transom.attend(Q, K, V, mask, bias), expected, atol=1e-12), name
        assert torch.allclose(tiled_attention.solve_tiled(problem)[0], expected, atol=1e-12), name


@pytest.mark.parametrize("name", ["causal", "causal & padding", "causal & window", "documents", "all four"])
def test_masks_over_many_blocks(name, monkeypatch):
    """Long enough that the fused kernel works in blocks and the float mask in bands."""
    monkeypatch.setattr(torch_engine, "MASK_NUMBERS", 2**16)
    case = Case(batch=2, kv_heads=1, group=2, queries=1031, keys=1543, d_head=5, d_value=7, seed=3)
    Q, K, V = case.tensors()
    for queries in (1031, 1543):
        Q = torch.randn(2, 2, queries, 5, dtype=torch.float64)
        mask = masks(Case(2, 1, 2, queries, 1543, 5, 7, 3))[name]
        allowed = dense(mask, (2, 2, queries, 1543))
        scores = (Q @ K.mT / 5**0.5).masked_fill(~allowed, -torch.inf)
        expected = torch.softmax(scores, -1).nan_to_num(0.0) @ V
        for output, lse in (
            torch_engine.solve_fused(build_problem(Q, K, V, mask)),
            tiled_attention.solve_tiled(build_problem(Q, K, V, mask)),
        ):
            assert torch.allclose(output, expected, atol=1e-11)
            assert torch.allclose(lse.exp(), scores.logsumexp(-1).exp(), rtol=1e-11)


def test_causal_goes_by_position_as_a_cache_needs():
    Q, K, V = Case(2, 3, 2, 11, 11, 5, 3, 5).tensors()
    whole = transom.attend(Q, K, V, causal=True)
    for split in range(1, 11):
        later = transom.attend(Q[:, :, split:], K, V, causal=True)
        assert torch.allclose(later, whole[:, :, split:], atol=1e-13)


@given(case=cases)
def test_empty_rows_are_zero_and_nothing_is_nan(case):
    Q, K, V = case.tensors(torch.float32)
    allowed = case.allowed()
    found = transom.attend(Q, K, V, allowed=allowed)
    assert found.isfinite().all()
    assert torch.equal(found[~allowed.any(-1)], torch.zeros_like(found[~allowed.any(-1)]))


@pytest.mark.parametrize("softcap", [None, 20.0])
def test_a_row_of_minus_infinity_in_the_bias_is_empty_too(softcap):
    Q, K, V = SOME.tensors()
    bias = torch.zeros(7, 11, dtype=torch.float64)
    bias[3] = -torch.inf
    sight = transom.sight(Q, K, V, bias=bias, softcap=softcap)
    assert torch.equal(sight.output[:, :, 3], torch.zeros(2, 6, 3).double())
    assert (sight.lse[:, :, 3] == -torch.inf).all()
    assert sight.lse[:, :, 4].isfinite().all()


def test_a_log_sum_exp_of_exactly_zero_is_not_taken_for_an_empty_row():
    Q, K, V = torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 2, 3)
    sight = transom.sight(Q, K, V, allowed=torch.tensor([[True, False], [False, False]]))
    assert sight.lse.tolist() == [[[0.0, -torch.inf]]]


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf, 3e38])
@pytest.mark.parametrize("where", ["key", "value"])
@pytest.mark.parametrize("softcap", [None, 20.0])
def test_what_is_masked_cannot_leak(poison, where, softcap):
    Q, K, V = Case(2, 3, 2, 13, 13, 5, 3, 9).tensors(torch.float32)
    real = torch.ones(2, 13, dtype=torch.bool)
    real[1, 4:7] = False
    mask = transom.causal() & transom.padding(real)
    clean = transom.attend(Q, K, V, mask, softcap=softcap)
    bad_K, bad_V = K.clone(), V.clone()
    bad = bad_K if where == "key" else bad_V
    bad[1, :, 4:7] = poison
    assert torch.equal(transom.attend(Q, bad_K, bad_V, mask, softcap=softcap), clean)


@pytest.mark.parametrize("softcap", [None, 20.0])
def test_a_poisoned_token_reaches_only_those_who_look_at_it(softcap):
    Q, K, V = Case(2, 3, 2, 13, 13, 5, 3, 9).tensors(torch.float32)
    clean = transom.attend(Q, K, V, causal=True, softcap=softcap)
    bad = V.clone()
    bad[0, 1, 8, 1] = torch.nan
    found = transom.attend(Q, K, bad, causal=True, softcap=softcap)
    reached = torch.zeros_like(found, dtype=torch.bool)
    reached[0, 2:4, 8:, 1] = True
    assert torch.equal(found.isnan(), reached)
    assert torch.allclose(found[~reached], clean[~reached], atol=1e-6)
    assert torch.equal(found[:, :, :8], clean[:, :, :8])
    assert torch.equal(found[1], clean[1])


def test_infinities_that_are_looked_at_keep_their_sign():
    weights = torch.tensor([[[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.2, 0.4, 0.4]]]])
    V = torch.tensor([[[[torch.inf, 1.0], [2.0, -torch.inf], [-torch.inf, torch.nan]]]])
    found = tiled_attention.safe_context(weights, V)[0, 0]
    assert found[0].tolist() == [torch.inf, -torch.inf]
    assert found[1].tolist() == [2.0, -torch.inf]
    assert found[2].isnan().all()


@given(token=st.integers(1, 10), seed=st.integers(0, 10**6))
def test_the_future_changes_nothing_bit_for_bit(token, seed):
    Q, K, V = Case(2, 3, 2, 11, 11, 5, 5, seed).tensors(torch.float32)
    before = transom.attend(Q, K, V, causal=True)
    for tensor in (Q, K, V):
        tensor[:, :, token:] = torch.randn_like(tensor[:, :, token:]) * 100
    assert torch.equal(transom.attend(Q, K, V, causal=True)[:, :, :token], before[:, :, :token])


@pytest.mark.parametrize("softcap", [None, 20.0])
def test_another_batch_entry_changes_nothing_bit_for_bit(softcap):
    case = Case(3, 3, 2, 11, 11, 5, 5, 21)
    Q, K, V = case.tensors(torch.float32)
    real = torch.rand(3, 11) < 0.7
    before = transom.attend(Q, K, V, transom.causal() & transom.padding(real), softcap=softcap)
    for tensor in (Q, K, V):
        tensor[1] = torch.randn_like(tensor[1])
    real[1] = ~real[1]
    after = transom.attend(Q, K, V, transom.causal() & transom.padding(real), softcap=softcap)
    assert torch.equal(after[[0, 2]], before[[0, 2]])


@given(case=cases, seed=st.integers(0, 10**6))
def test_the_order_of_keys_does_not_matter(case, seed):
    Q, K, V = case.tensors()
    allowed = case.allowed()
    order = torch.randperm(case.keys, generator=torch.Generator().manual_seed(seed))
    moved = transom.attend(Q, K[:, :, order], V[:, :, order], allowed=allowed[..., order])
    assert torch.allclose(moved, transom.attend(Q, K, V, allowed=allowed), atol=1e-12)


@given(case=cases)
def test_the_output_lies_within_the_values(case):
    Q, K, V = case.tensors()
    if 0 in (case.batch, case.keys):
        return
    found = transom.attend(Q * 3, K, V)
    values = V.repeat_interleave(case.group, dim=1)
    assert (found <= values.amax(2, keepdim=True) + 1e-12).all()
    assert (found >= values.amin(2, keepdim=True) - 1e-12).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("softcap", [None, 1e4])
def test_half_precision_with_large_scores_does_not_overflow(dtype, softcap):
    Q, K = (torch.full((1, 1, 3, 64), 60.0, dtype=dtype) for _ in range(2))
    V = torch.randn(1, 1, 3, 64).to(dtype)
    found = transom.attend(Q, K, V, softcap=softcap)
    assert torch.allclose(found.float(), V.float().mean(2, keepdim=True).expand(1, 1, 3, 64), atol=2e-2)


def test_tensors_that_the_fused_kernel_misreads_are_straightened_first():
    Q, K, V = SOME.tensors()
    expected = transom.attend(Q, K, V)
    odd = [x.mT.contiguous().mT for x in (Q, K, V)]
    assert all(x.stride(-1) != 1 for x in odd)
    assert torch.allclose(transom.attend(*odd), expected, atol=1e-12)
    one = K[:1].expand(2, -1, -1, -1)
    assert torch.allclose(transom.attend(Q, one, V), transom.attend(Q, one.clone(), V), atol=1e-12)


@pytest.mark.parametrize("sizes", list(itertools.product([0, 1], repeat=4)))
def test_sizes_of_nothing_and_one_keep_their_shape(sizes):
    batch, queries, keys, heads = sizes
    Q, K, V = torch.ones(batch, heads, queries, 5), torch.ones(batch, heads, keys, 5), torch.ones(batch, heads, keys, 3)
    for causal in (False, True):
        found = transom.attend(Q, K, V, causal=causal)
        assert found.shape == (batch, heads, queries, 3)
        assert torch.equal(found, torch.full_like(found, float(keys)))


def test_dropout_keeps_the_mean_and_follows_the_seed():
    Q, K, V = torch.randn(1, 2, 3, 5), torch.randn(1, 2, 4001, 5), torch.ones(1, 2, 4001, 2)
    torch.manual_seed(5)
    first = transom.attend(Q, K * 0, V, dropout=0.3)
    second = transom.attend(Q, K * 0, V, dropout=0.3)
    torch.manual_seed(5)
    assert torch.equal(transom.attend(Q, K * 0, V, dropout=0.3), first)
    assert not torch.equal(first, second)
    assert torch.allclose(first, torch.ones_like(first), atol=0.06)


BIASES = {
    "alibi": lambda: DistanceBias(torch.rand(6, dtype=torch.float64)),
    "table": lambda: RelativeBias(torch.randn(6, 9, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", BIASES)
def test_bias_objects_are_their_dense_bias(name):
    Q, K, V = SOME.tensors()
    bias = BIASES[name]()
    whole = (2, 6, 7, 11)
    added = torch.empty(whole, dtype=torch.float64)
    for h, i, j in itertools.product(range(6), range(7), range(11)):
        away = j - (i + 4)
        by_distance = -bias.source[h] * abs(away) if name == "alibi" else bias.source[h, max(-4, min(4, away)) + 4]
        added[:, h, i, j] = by_distance
    for softcap in (None, 5.0):
        expected = torch.tensor(by_loops(Q, K, V, None, added, softcap=softcap)[0], dtype=torch.float64)
        assert torch.allclose(transom.attend(Q, K, V, bias=bias, softcap=softcap), expected, atol=1e-12)
