"""The native engine: attention on CPUs in C++, with the statistics of its weights for little more."""

from torch import Tensor

from transom.kernels import operators
from transom.kernels.problem import Problem
from transom.kernels.terms import terms


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not; −∞ for rows that may look nowhere)."""
    output, lse = operators.called(problem.Q, problem.K, problem.V, *arguments(problem))
    return output.to(problem.Q.dtype), lse.detach()


def arguments(problem: Problem) -> tuple[operators.Parts, operators.Numbers]:
    """What the operators take after Q, K and V."""
    its = terms(problem)
    numbers = (its.ahead, its.behind, problem.scale, problem.softcap or 0.0, problem.dropout, problem.seed)
    return its.tensors(), numbers


__all__ = ["operators", "solve"]
