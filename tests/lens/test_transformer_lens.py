"""Patching and direct logit attribution beside TransformerLens itself, on one small GPT-2 in float64.

TransformerLens has an environment of its own (`make bench-peers`); without it these tests are skipped.
"""

import pytest
import torch

import transom

pytest.importorskip("transformers", reason="the extra hf is not installed")

from bench.peers.contender_process import PeerUnavailable
from bench.peers.environment import require_peer, run_module
from bench.peers.patching import HEAD, LAYER, ROW, TOKEN, build_gpt2, two_texts

SIZES = {"layers": 3, "heads": 5, "d_head": 4, "vocabulary": 31, "seed": 7}
NAME = f"transformer.h.{LAYER}.attn"


@pytest.fixture(scope="module")
def theirs():
    try:
        require_peer("TransformerLens")
    except PeerUnavailable as why:
        pytest.skip(str(why))
    return run_module("patching", SIZES, seconds=300.0)


def patched_logits(kind):
    model, (clean, other) = build_gpt2(SIZES), two_texts(SIZES)
    with torch.no_grad(), transom.watch(model) as trace:
        model(other)
    source = transom.mean_outputs(model, [clean, other]) if kind == "mean" else trace
    place = {"attention": {}, "head": {"head": HEAD}, "row": {"head": HEAD, "query": ROW}, "mean": {"head": HEAD}}
    with torch.no_grad():
        if kind == "clean":
            return model(clean).logits[0]
        with transom.patch(model, source, layer=NAME, **place[kind]):
            return model(clean).logits[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clean", "attention", "head", "row", "mean"])
def test_patching_gives_the_same_logits(theirs, kind):
    expected = torch.tensor(theirs[kind], dtype=torch.float64)
    assert torch.allclose(patched_logits(kind), expected, rtol=0.0, atol=1e-10)
    if kind != "clean":
        clean = torch.tensor(theirs["clean"], dtype=torch.float64)
        assert (expected - clean).abs().max() > 1e-3, "the patch changes something"


@pytest.mark.slow
def test_what_each_part_adds_to_a_logit_is_the_same(theirs):
    model, (clean, _) = build_gpt2(SIZES), two_texts(SIZES)
    found = transom.attribute_logit(model, clean, target=TOKEN)
    assert found.receipt.holds
    ours = {}
    for part in found.parts:
        head = "" if part.head is None else f" {part.head}"
        ours[part.kind if part.layer is None else f"{part.layer} {part.kind}{head}"] = part.value
    assert set(ours) - {"biases"} == set(theirs["parts"]) - {"biases"}
    for name, value in theirs["parts"].items():
        assert ours[name] == pytest.approx(value, abs=1e-12), name
