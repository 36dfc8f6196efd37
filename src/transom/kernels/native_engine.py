"""The native engine: attention on CPUs in C++, with the statistics of its weights for little more."""

import torch
from torch import Tensor

from transom.kernels import operators
from transom.kernels.problem import Problem
from transom.kernels.terms import Terms, terms


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not; −∞ for rows that may look nowhere); half precision is widened."""
    Q, K, V = (x.float() for x in (problem.Q, problem.K, problem.V))
    output, lse = torch.ops.transom.attention(Q, K, V, *arguments(problem, terms(problem)))
    return output.to(problem.Q.dtype), lse.detach()


def arguments(problem: Problem, its: Terms) -> tuple:
    """What the operators take after Q, K and V."""
    parts = (its.real, its.documents, its.given, its.bias, its.by_distance)
    return (*parts, its.ahead, its.behind, problem.scale, problem.softcap or 0.0, problem.dropout, problem.seed)


__all__ = ["operators", "solve"]
