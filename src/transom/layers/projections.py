"""Learned linear maps: of whole vectors, of each head's slice of them, and of low rank."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.layers.checks import check_positive, divide_evenly


class Projection(nn.Linear):
    """x W (+ b), initialised with Xavier's uniform distribution (Glorot & Bengio 2010, equation 16) and b = 0."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class NarrowLinear(nn.Module):
    """One small matrix per head, which reads only that head's slice of the vector: d_in / heads numbers.

    It has 1/heads of the parameters of a full projection.
    """

    def __init__(self, d_in: int, heads: int, d_head: int, bias: bool = True) -> None:
        super().__init__()
        check_positive(d_in=d_in, heads=heads, d_head=d_head)
        self.heads, self.d_slice, self.d_head = heads, divide_evenly(d_in, heads, ("d_in", "heads")), d_head
        self.weight = nn.Parameter(torch.empty(heads, self.d_slice, d_head))
        self.bias = nn.Parameter(torch.empty(heads * d_head)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # Xavier's bound for the matrix of one head; the init function would count all heads as one.
        bound = math.sqrt(6.0 / (self.d_slice + self.d_head))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "batch token any"]) -> Float[Tensor, "batch token any2"]:
        slices = x.unflatten(-1, (self.heads, self.d_slice))
        heads = torch.einsum("bths,hsd->bthd", slices, self.weight).flatten(-2)
        return heads if self.bias is None else heads + self.bias

    def extra_repr(self) -> str:
        return f"heads={self.heads}, d_slice={self.d_slice}, d_head={self.d_head}, bias={self.bias is not None}"


class LowRank(nn.Module):
    """x V_down V_up: a map of rank at most `rank`, with rank · (d_in + d_out) parameters."""

    def __init__(self, d_in: int, rank: int, d_out: int, bias: bool = True) -> None:
        super().__init__()
        check_positive(d_in=d_in, rank=rank, d_out=d_out)
        self.V_down = Projection(d_in, rank, bias=False)
        self.V_up = Projection(rank, d_out, bias=bias)

    def forward(self, x: Float[Tensor, "batch token any"]) -> Float[Tensor, "batch token any2"]:
        return self.V_up(self.V_down(x))
