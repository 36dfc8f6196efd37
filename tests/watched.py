"""Running a model twice, unwatched and watched, and small models to do it with."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as imported_by_name

import transom


def first(result):
    """The tensor a model gives first, whatever it wraps it in."""
    return (
        result if isinstance(result, Tensor) else first(next(iter(result)) if isinstance(result, tuple) else result[0])
    )


def both(model, *given, seed=5, **named):
    """What the model gives unwatched, what it gives watched, and the trace; the same random numbers for both."""
    torch.manual_seed(seed)
    plain = first(model(*given, **named))
    torch.manual_seed(seed)
    with transom.watch(model) as trace:
        seen = first(model(*given, **named))
    return plain, seen, trace


class Plain(nn.Module):
    """Self-attention as people write it, its function imported by name."""

    def __init__(self, d_model=14, heads=2, **named):
        super().__init__()
        self.heads, self.named = heads, named
        self.to_all = nn.Linear(d_model, 3 * d_model)

    def folded(self, x):
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.to_all(x).chunk(3, -1)]

    def forward(self, x):
        return imported_by_name(*self.folded(x), **self.named).transpose(1, 2).flatten(2)


class Overwriting(Plain):
    """The same, but what it got and made is overwritten as soon as it is used."""

    def forward(self, x):
        Q, K, V = self.folded(x)
        out = F.scaled_dot_product_attention(Q, K, V, **self.named)
        kept = out.clone()
        for tensor in (Q, K, V, out):
            tensor.fill_(7.0)
        return kept.transpose(1, 2).flatten(2)


class Stack(nn.Module):
    """Layers with residuals, the way most models are named."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x
