"""Every sum and set of `found[name]` against each row computed again in float64, for odd attention."""

import math

import pytest
import torch

import transom
from transom.lens import AttentionInfluence

BATCH, HEADS, KV_HEADS, QUERIES, KEYS, WIDTH = 2, 4, 2, 5, 7, 6
CASES = {
    "batches": {},
    "soft cap": {"softcap": 1.5},
    "causal": {"causal": True},
    "soft cap under a mask": {
        "softcap": 2.0,
        "allowed": torch.rand(QUERIES, KEYS, generator=torch.manual_seed(5)) > 0.3,
    },
}


def make_parts(dtype):
    torch.manual_seed(41)
    Q = torch.randn(BATCH, HEADS, QUERIES, WIDTH) * 1.5
    K, V = torch.randn(2, BATCH, KV_HEADS, KEYS, WIDTH)
    gradient = torch.randn(BATCH, HEADS, QUERIES, WIDTH)
    return Q.to(dtype), K.to(dtype), V.to(dtype), gradient


def output_without(parts, at, removed, how, softcap=None, allowed=None, causal=False):
    """g · output of one row, in float64 and one key after another, without some keys."""
    (Q, K, V, gradient), (entry, head, row) = parts, at
    shared = head // (HEADS // KV_HEADS)
    output, total = 0.0, 0.0
    for key in range(KEYS):
        if allowed is not None and not allowed[row, key]:
            continue
        if causal and key > row + KEYS - QUERIES:
            continue
        score = float(Q[entry, head, row].double() @ K[entry, shared, key].double()) / math.sqrt(WIDTH)
        weight = math.exp(softcap * math.tanh(score / softcap) if softcap else score)
        if key not in removed:
            output += weight * float(gradient[entry, head, row].double() @ V[entry, shared, key].double())
        total += 0.0 if how == "before" and key in removed else weight
    return output / total if total else 0.0


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_every_sum_is_that_of_rows_computed_again(case, how, dtype, error):
    parts = make_parts(dtype)
    found = AttentionInfluence(transom.sight(*parts[:3], **case), parts[3], how)
    rows = [(entry, head, row) for entry in range(BATCH) for head in range(HEADS) for row in range(QUERIES)]
    whole = torch.tensor([output_without(parts, at, (), how, **case) for at in rows]).view(BATCH, HEADS, QUERIES)

    def change_without(removed):
        without = torch.tensor([output_without(parts, at, removed, how, **case) for at in rows])
        return without.view(BATCH, HEADS, QUERIES) - whole

    edges = torch.stack([change_without({key}) for key in range(KEYS)], dim=-1)
    assert torch.allclose(found.edges(), edges, atol=error)
    assert torch.allclose(
        found.edges(batch=1, head=3, rows=[0, 4], keys=slice(2, 5)), edges[1, 3, [0, 4], 2:5], atol=error
    )
    assert torch.allclose(found.per_key(), edges.sum(dim=2), atol=10 * error)
    assert torch.allclose(found.per_row(), edges.sum(dim=3), atol=10 * error)
    assert torch.allclose(found.per_head(), -whole.sum(dim=-1), atol=10 * error)
    top = found.top(3)
    assert torch.allclose(top.changes.abs(), edges.abs().topk(3).values, atol=error)
    assert torch.allclose(found.map(2, cells=KEYS, pool="sum", batch=1).values, edges[1, 2], atol=error)
    sets = [(0, 3), [1, 4, 6], range(KEYS)]
    expected = torch.stack([change_without(set(keys)) for keys in ({0, 1, 2}, {1, 4, 6}, range(KEYS))], dim=-1)
    assert torch.allclose(found.spans(sets), expected, atol=10 * error)
