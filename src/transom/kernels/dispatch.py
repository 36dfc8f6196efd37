"""`attend`: every attention of Transom starts here. It checks the inputs, chooses an engine and calls it."""

import math
import os
from collections.abc import Callable

import torch
from torch import Tensor

from transom.equations.biases import Bias
from transom.equations.masks import Mask
from transom.kernels import native_library, torch_engine
from transom.kernels.native_args import why_unsupported
from transom.kernels.problem import Problem, build_problem
from transom.names import Misfit

Solve = Callable[[Problem], tuple[Tensor, Tensor]]
ENGINES = ("torch", "native", "auto")
FEWEST_PRODUCTS = 2**21  # multiplications; with fewer the call itself takes most of the time, and torch's is cheaper
FEWEST_QUERIES = 8  # with fewer most lanes of the native engine would idle, and reading the keys takes all the time


def requested_engine() -> str:
    """The engine that TRANSOM_ENGINE names."""
    name = os.environ.get("TRANSOM_ENGINE") or "auto"
    if name not in ENGINES:
        raise Misfit(f"TRANSOM_ENGINE must be one of {', '.join(ENGINES)}, but it is {name!r}; leave it unset for auto")
    return name


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (differentiable) and log-sum-exp (not; −∞ for fully masked rows)."""
    return choose_engine(problem)(problem)


def choose_engine(problem: Problem) -> Solve:
    """The engine for this problem."""
    name = requested_engine()
    if name == "torch" or (name == "auto" and why_torch(problem) is not None):
        return torch_engine.solve
    if name == "native" and (unsupported := why_unsupported(problem)) is not None:
        raise Misfit(
            f"TRANSOM_ENGINE is native, but the native engine does not do {unsupported};"
            " with auto such attention goes to the torch engine"
        )
    native_library.require_library()
    from transom.kernels import native_engine

    return native_engine.solve


def why_torch(problem: Problem) -> str | None:
    """Why auto chooses torch; None if the native engine exists, supports the problem and is faster."""
    if isinstance(library := native_library.library_or_reason(), str):
        return library
    return why_unsupported(problem) or why_native_is_slower(problem)


def why_native_is_slower(problem: Problem) -> str | None:
    """Why the native engine would not be faster, by measurements of `python -m bench attention`; None if it is.

    While exporting, sizes do not count: one graph serves all of them.
    """
    if torch.compiler.is_exporting():
        return None
    if problem.Q.shape[2] < FEWEST_QUERIES:
        return f"fewer than {FEWEST_QUERIES} queries"
    if problem.Q.dtype != torch.float32 and not problem.needs_gradient:
        return "half precision, in which torch is as fast if no gradients are needed"
    if math.prod(problem.shape) * (problem.Q.shape[3] + problem.V.shape[3]) < FEWEST_PRODUCTS:
        return "an attention so small that the call costs most"
    return None


def engine_info() -> dict[str, str]:
    """Which engine runs here, with which instructions, and why."""
    library, name = native_library.library_or_reason(), requested_engine()
    setting = f"TRANSOM_ENGINE={name}" if os.environ.get("TRANSOM_ENGINE") else "TRANSOM_ENGINE is not set"
    if isinstance(library, str):
        return {"engine": "torch", "instructions": "those of torch", "why": f"there is no native engine: {library}"}
    if name == "torch":
        return {"engine": "torch", "instructions": "those of torch", "why": setting}
    others = "what it does not do is an error" if name == "native" else "torch for what it does not do, or not faster"
    return {"engine": "native", "instructions": library.instructions, "why": f"{setting}; {others}"}


# While something watches, this is called with each problem and the function that solves it, and returns the result.
listener: Callable[[Problem, Solve], tuple[Tensor, Tensor]] | None = None


def attend(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    allowed: Tensor | Mask | None = None,
    bias: Tensor | Bias | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention: each query gets the values of the keys, weighted by softmax(Q Kᵀ · scale).

    Q is (batch, heads, queries, d_head), K (batch, kv_heads, keys, d_head), V (batch, kv_heads, keys, d_value);
    kv_heads divides heads. Returns (batch, heads, queries, d_value).

    allowed   bool tensor, True = may attend, that broadcasts to (batch, heads, queries, keys), or a mask object such as
              `transom.causal() & transom.padding(real)`. A fully masked row gives zeros.
    bias      float tensor that broadcasts likewise, or a bias object; added to the scores after scale and softcap.
    causal    no query sees later positions; the queries are the last positions of the keys.
    scale     1/√d_head by default.
    softcap   squashes the scaled scores into (−softcap, softcap).
    dropout   share of the weights set to 0; the rest is scaled up. Follows torch's random seed.
    """
    problem = build_problem(Q, K, V, allowed, bias, causal, scale, softcap, dropout)
    current = listener  # read once: another thread may stop watching at any time
    output, _ = solve(problem) if current is None else current(problem, solve)
    return output
