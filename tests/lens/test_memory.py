"""Nothing of size queries × keys is ever allocated, unless it is asked for."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import transom
from transom.equations.biases import DistanceBias
from transom.lens import AttentionInfluence

TOKENS = 4096


class Largest(TorchDispatchMode):
    """Remembers the most numbers any operation put into one tensor's storage."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self.numbers = max(self.numbers, x.untyped_storage().nbytes() // x.element_size())
        return result


def largest_tensor(action) -> int:
    with Largest() as mode:
        action()
    return mode.numbers


SETTINGS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"allowed": transom.causal() & transom.sliding_window(64)},
    "documents": {"allowed": transom.causal() & transom.same_document(torch.arange(TOKENS) // 100)},
    "alibi": {"bias": DistanceBias(torch.tensor([0.5])), "causal": True},
    "capped": {"softcap": 20.0, "causal": True},
    "dropout": {"dropout": 0.1},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_attention_and_looking_stay_linear(name):
    Q, K, V = (torch.randn(1, 1, TOKENS, 8, requires_grad=True) for _ in range(3))

    def act():
        sight = transom.sight(Q, K, V, **SETTINGS[name])
        sight.output.sum().backward()
        for method in (sight.entropy, sight.received, sight.top, sight.receipt):
            method()
        sight.map(0, cells=64)
        sight.weights(rows=slice(-5, None))

    assert largest_tensor(act) <= TOKENS * TOKENS // 4


def test_asking_for_all_weights_would_be_seen():
    Q, K, V = (torch.randn(1, 1, TOKENS, 8) for _ in range(3))
    assert largest_tensor(lambda: transom.sight(Q, K, V).weights()) >= TOKENS * TOKENS


def test_measuring_heads_and_going_through_layers_stay_linear():
    count = TOKENS // 2
    Q, K, V = (torch.randn(1, 1, count, 8) for _ in range(3))
    trace = transom.Trace()
    trace.add("a", transom.sight(Q, K, V, causal=True))
    tokens = (torch.arange(count) % 97)[None]
    words = [" word" if place % 4 == 0 else "s" for place in range(count)]

    def act():
        transom.heads(trace, tokens=tokens)
        transom.rollout(trace, rows=[-1, 5])
        transom.diff(trace, trace).strongest(3)
        transom.by_words(trace["a"], 0, words)

    assert largest_tensor(act) <= count * count // 4


def test_influence_stays_linear():
    Q, K, V, gradient = (torch.randn(1, 1, TOKENS, 8) for _ in range(4))
    Q[..., :64, :] *= 20.0  # rows with a weight near 1 take another way

    def act():
        found = AttentionInfluence(transom.sight(Q, K, V, causal=True), gradient, "before")
        for method in (found.top, found.per_key, found.per_row, lambda: found.spans([(0, 900), (900, 4096)])):
            method()
        found.map(0, cells=64)
        found.edges(rows=slice(-5, None))

    assert largest_tensor(act) <= TOKENS * TOKENS // 4
