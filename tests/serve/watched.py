"""A small trace of any words."""

import torch

import transom


def watched(words, heads=3, layers=2):
    made = torch.Generator().manual_seed(5)
    trace = transom.Trace(list(words))
    for layer in range(layers):
        Q, K, V = (torch.randn(1, heads, len(words), 7, generator=made) for _ in range(3))
        trace.add(f"blocks.{layer}.attention", transom.sight(2 * Q, K, V, causal=True))
    return trace
