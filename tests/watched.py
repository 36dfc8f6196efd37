"""Running a model twice, unwatched and watched, and small models to do it with."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as imported_by_name

import transom


def first_tensor(result):
    """The first tensor of a model's result, whatever it is wrapped in."""
    return (
        result
        if isinstance(result, Tensor)
        else first_tensor(next(iter(result)) if isinstance(result, tuple) else result[0])
    )


def run_twice(model, *args, seed=5, **kwargs):
    """The output unwatched, the output watched, and the trace; the same random numbers for both runs."""
    torch.manual_seed(seed)
    plain = first_tensor(model(*args, **kwargs))
    torch.manual_seed(seed)
    with transom.watch(model) as trace:
        watched = first_tensor(model(*args, **kwargs))
    return plain, watched, trace


class Plain(nn.Module):
    """Self-attention as people write it, its function imported by name."""

    def __init__(self, d_model=14, heads=2, **kwargs):
        super().__init__()
        self.heads, self.kwargs = heads, kwargs
        self.to_all = nn.Linear(d_model, 3 * d_model)

    def project(self, x):
        """Q, K and V, split into heads."""
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.to_all(x).chunk(3, -1)]

    def forward(self, x):
        return imported_by_name(*self.project(x), **self.kwargs).transpose(1, 2).flatten(2)


class Overwriting(Plain):
    """The same, but its inputs and output are overwritten as soon as they are used."""

    def forward(self, x):
        Q, K, V = self.project(x)
        out = F.scaled_dot_product_attention(Q, K, V, **self.kwargs)
        result = out.clone()
        for tensor in (Q, K, V, out):
            tensor.fill_(7.0)
        return result.transpose(1, 2).flatten(2)


class Stack(nn.Module):
    """Layers with residuals, named as in most models."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Projecting(nn.Module):
    """Query, key and value projections, and no softmax: it did attention's work, and cannot be seen."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(14, 14) for _ in range(3))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (2, 7)).transpose(1, 2) for part in (self.q_proj, self.k_proj, self.v_proj))
        return ((q @ k.mT).relu() @ v).transpose(1, 2).flatten(2)
