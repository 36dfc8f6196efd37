"""Which engine solves what: TRANSOM_ENGINE is torch, native or auto (which takes the faster one)."""

import math
import os
from collections.abc import Callable

import torch
from torch import Tensor

from transom.kernels import library, torch_engine
from transom.kernels.problem import Problem
from transom.kernels.terms import refusal
from transom.names import Misfit

Solve = Callable[[Problem], tuple[Tensor, Tensor]]
ENGINES = ("torch", "native", "auto")
FEWEST_PRODUCTS = (
    2**21
)  # multiplications below which the call itself is most of the time, and torch's is the cheaper one
FEWEST_QUERIES = 8  # below this most lanes of the native engine would idle, and reading the keys is all there is to it


def wanted() -> str:
    """What TRANSOM_ENGINE says."""
    name = os.environ.get("TRANSOM_ENGINE") or "auto"
    if name not in ENGINES:
        raise Misfit(f"TRANSOM_ENGINE must be one of {', '.join(ENGINES)}, but it is {name!r}; leave it unset for auto")
    return name


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not; −∞ for rows that may look nowhere)."""
    return chosen(problem)(problem)


def chosen(problem: Problem) -> Solve:
    """The engine for this problem."""
    name = wanted()
    if name == "torch" or (name == "auto" and (why_torch(problem) is not None)):
        return torch_engine.solve
    if name == "native" and (refused := refusal(problem)) is not None:
        raise Misfit(
            f"TRANSOM_ENGINE is native, but the native engine does not do {refused};"
            " with auto such attention goes to the torch engine"
        )
    library.loaded()
    from transom.kernels import native_engine

    return native_engine.solve


def why_torch(problem: Problem) -> str | None:
    """Why auto sends this to torch; None where the native engine is there, does it and is faster."""
    if isinstance(missing := library.engine(), str):
        return missing
    return refusal(problem) or slower(problem)


def slower(problem: Problem) -> str | None:
    """Where the native engine is not the faster one (measured by `python -m bench attention`).

    What is exported is one graph for all sizes, and none of them decides.
    """
    if torch.compiler.is_exporting():
        return None
    if problem.Q.shape[2] < FEWEST_QUERIES:
        return f"fewer than {FEWEST_QUERIES} queries"
    if problem.Q.dtype != torch.float32 and not learning(problem):
        return "half precision, in which torch is as fast while nothing learns"
    if math.prod(problem.whole) * (problem.Q.shape[3] + problem.V.shape[3]) < FEWEST_PRODUCTS:
        return "so little to do that the call costs most"
    return None


def learning(problem: Problem) -> bool:
    """Whether gradients are wanted, for which torch takes several times as long in half precision."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in (problem.Q, problem.K, problem.V))


def told() -> dict[str, str]:
    """Which engine runs here, with which instructions, and why."""
    found, name = library.engine(), wanted()
    asked = f"TRANSOM_ENGINE={name}" if os.environ.get("TRANSOM_ENGINE") else "TRANSOM_ENGINE is not set"
    if isinstance(found, str):
        return {"engine": "torch", "instructions": "those of torch", "why": f"there is no native engine: {found}"}
    if name == "torch":
        return {"engine": "torch", "instructions": "those of torch", "why": asked}
    rest = "what it does not do is an error" if name == "native" else "torch for what it does not do, or not faster"
    return {"engine": "native", "instructions": found.instructions, "why": f"{asked}; {rest}"}
