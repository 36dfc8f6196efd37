"""What the native engine tells about weights: with the output in one pass, or later from Q, K and the log-sum-exp."""

from ctypes import byref
from dataclasses import dataclass
from math import inf

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels import engines, library, native_engine, operators
from transom.kernels.library import Attention, Found, Window
from transom.kernels.problem import Problem
from transom.kernels.terms import refusal

MOST = 32  # keys that can be asked for as the strongest
IN_ONE_PASS = 2**15  # keys up to which the weights of a block of rows stay in a cache until their columns are summed up
Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Looked:
    """Statistics of all weights; the strongest k keys of each row, where k is not 0."""

    entropy: Float[Tensor, "batch heads queries"]
    peak: Float[Tensor, "batch heads queries"]
    distance: Float[Tensor, "batch heads queries"]
    received: Float[Tensor, "batch heads keys"]
    top_weights: Float[Tensor, "batch heads queries any"]
    top_keys: Int[Tensor, "batch heads queries any"]

    @classmethod
    def room(cls, problem: Problem, k: int) -> "Looked":
        batch, heads, queries, keys = problem.whole
        rows = (batch, heads, queries)
        return cls(
            entropy=torch.empty(rows),
            peak=torch.empty(rows),
            distance=torch.empty(rows),
            received=torch.empty(batch, heads, keys),
            top_weights=torch.empty(*rows, k),
            top_keys=torch.empty(*rows, k, dtype=torch.long),
        )

    def wanted(self) -> Found:
        found = Found(k=self.top_weights.shape[3])
        for name in ("entropy", "peak", "distance", "received", "top_weights", "top_keys"):
            setattr(found, name, getattr(self, name).data_ptr())
        return found


def looks(problem: Problem, lse: Tensor | None = None) -> bool:
    """Whether the native engine is to look at this attention."""
    name = engines.wanted()
    if name == "torch" or isinstance(library.engine(), str) or refusal(problem) is not None:
        return False
    return lse is None or (lse.dtype == torch.float32 and bool((lse.abs() < LARGE).logical_or(lse == -inf).all()))


LARGE = 4e-6 / torch.finfo(torch.float32).eps  # a log-sum-exp above this is too coarse to take weights from


def solved(problem: Problem, k: int, start: int | None) -> tuple[Tensor, Tensor, Looked]:
    """Output, log-sum-exp and everything about the weights, in one pass; nothing of it is differentiable."""
    problem = problem.detached()
    if problem.whole[3] > IN_ONE_PASS:
        output, lse = native_engine.solve(problem)
        return output, lse, statistics(problem, lse, k, start)
    attention, kept = described(problem, problem.V, start)
    looked = Looked.room(problem, k)
    output, lse = operators.empty_output(problem.Q, problem.V), torch.empty(problem.whole[:3])
    found, wild = looked.wanted(), torch.zeros((), dtype=torch.int32)
    found.output, found.lse, found.wild = output.data_ptr(), lse.data_ptr(), wild.data_ptr()
    found.output_strides = library.strides(output)
    run("forward", attention, found, problem.Q.shape[3] + problem.V.shape[3])
    del kept
    if wild:
        output, lse = native_engine.solve(problem)
    return output.to(problem.Q.dtype), lse, without_places(looked, start)


def statistics(problem: Problem, lse: Float[Tensor, "batch heads queries"], k: int, start: int | None) -> Looked:
    """Everything about weights whose log-sum-exp is known; `start` is the position of the first query."""
    attention, kept = described(problem.detached(), None, start)
    looked, sums = Looked.room(problem, k), lse.contiguous()
    found = looked.wanted()
    found.lse = sums.data_ptr()
    run("statistics", attention, found, problem.Q.shape[3])
    del kept
    return without_places(looked, start)


def described(problem: Problem, V: Tensor | None, start: int | None) -> tuple[Attention, operators.Kept]:
    """The problem as the library reads it; without values where none are needed."""
    K = operators.dense(problem.K)
    attention, kept = operators.described(problem.Q, K, K if V is None else V, *native_engine.arguments(problem))
    attention.start = 0 if start is None else start
    return attention, kept


def run(name: str, attention: Attention, found: Found, widths: int) -> None:
    """A pass that also sums up columns, a chunk of rows at a time."""
    native = library.loaded().native
    given = byref(attention), byref(found)
    chunks = getattr(native, f"transom_{name}_chunks")(*given)
    partial = torch.empty(attention.batch * attention.heads, chunks, attention.keys)
    found.partial = partial.data_ptr()
    units = getattr(native, f"transom_{name}_units")(*given)
    numbers = operators.products(attention, widths)
    library.run(getattr(native, f"transom_{name}"), units, numbers, attention, found)


def without_places(looked: Looked, start: int | None) -> Looked:
    """Where the queries stand nowhere among the keys, there is no distance."""
    if start is None:
        looked.distance.fill_(torch.nan)
    return looked


def pooled(
    problem: Problem, lse: Tensor, place: tuple[int, int], window: tuple[Span, Span], cell: tuple[int, int], pool: str
) -> Float[Tensor, "rows columns"]:
    """The sum (or the largest, for pool = max) of each cell of a window of one head: place is (batch, head)."""
    values = cells(window, cell)
    fill(problem, lse, place, window, cell, **{"highest" if pool == "max" else "sums": values})
    return values


def mapped(
    problem: Problem, lse: Tensor, place: tuple[int, int], window: tuple[Span, Span], cell: tuple[int, int]
) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, "rows columns"]]:
    """The largest and the sum of each cell, in one pass."""
    highest, sums = cells(window, cell), cells(window, cell)
    fill(problem, lse, place, window, cell, highest=highest, sums=sums)
    return highest, sums


def cells(window: tuple[Span, Span], cell: tuple[int, int]) -> Float[Tensor, "rows columns"]:
    return torch.zeros(*(-(-(last - first) // size) for (first, last), size in zip(window, cell, strict=True)))


def fill(
    problem: Problem,
    lse: Tensor,
    place: tuple[int, int],
    window: tuple[Span, Span],
    cell: tuple[int, int],
    **wanted: Tensor,
) -> None:
    """Put what is wanted of each cell, sums or highest, into its tensor."""
    attention, kept = described(problem.detached(), None, 0)
    (first_row, last_row), (first_key, last_key) = window
    asked = Window(*place, *window[0], *window[1], *cell)
    for name, values in wanted.items():
        setattr(asked, name, values.data_ptr())
    native, sums = library.loaded().native, lse.contiguous()
    units = native.transom_map_units(byref(attention), byref(asked))
    numbers = (last_row - first_row) * (last_key - first_key) * problem.Q.shape[3]
    library.run(native.transom_map, units, numbers, attention, sums.data_ptr(), asked)
    del kept
