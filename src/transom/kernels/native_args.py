"""An attention as the arguments of the native engine: masks and biases as tensors and numbers, or why it cannot."""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from transom.equations.biases import DistanceBias, RelativeBias, TensorBias
from transom.equations.masks import AndMask, Causal, Mask, OrMask, SameDocument, SlidingWindow, TensorMask
from transom.kernels.problem import Problem

FAR = 2**40  # farther than any key
EMPTY_WINDOW = (-FAR, FAR)
DTYPE_CODES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}  # `enum Dtype` of native/params.hpp
BY_POSITION = (Causal, SlidingWindow, SameDocument)  # the masks that differ by row and need no tensor
Clause = tuple[Mask, ...]  # masks of which one is enough
Window = tuple[int, int]  # of row 0: before which key it ends, and at which key it begins


class NativeArgs(NamedTuple):
    """What the engine takes after Q, K and V: first tensors, None if there is no such mask or bias, then numbers."""

    key_mask: Tensor | None  # bool, (batch or 1, heads or 1, keys): False for keys that no row may attend to
    documents: Tensor | None  # any numbers, (batch or 1, keys)
    mask: Tensor | None  # bool, four axes
    bias: Tensor | None  # float32, four axes
    distance_bias: Tensor | None  # float32, (heads, queries + keys − 1): added for each query minus key
    # Masks joined by |, one entry for each such mask; a key is visible if one of the three allows it.
    or_key_masks: Tensor | None  # bool, (masks, batch or 1, heads or 1, keys)
    or_documents: Tensor | None  # any numbers, (masks, batch or 1, keys)
    or_windows: Tensor | None  # int64, (masks, 3): window_end, window_begin, and whether its documents count
    window_end: int  # row i sees keys from i + window_begin on and before i + window_end
    window_begin: int
    scale: float
    softcap: float  # 0 for none
    dropout: float
    seed: int

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        return self[:8]

    @property
    def numbers(self) -> tuple[float, ...]:
        return self[8:]


def why_unsupported(problem: Problem) -> str | None:
    """What the native engine does not support here; None if it supports all. Much cheaper than `to_native_args`."""
    Q, V = problem.Q, problem.V
    if Q.device.type != "cpu":
        return f"tensors on {Q.device.type}"
    if Q.dtype not in DTYPE_CODES:
        return f"{Q.dtype}"
    if 0 in (*problem.shape, Q.shape[3], V.shape[3]):
        return "axes of size 0"
    functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    if not torch.compiler.is_compiling() and functorch.peek_interpreter_stack() is not None:
        return "torch.func transforms such as vmap"
    return why_bias_unsupported(problem) or why_mask_unsupported(problem)


def why_bias_unsupported(problem: Problem) -> str | None:
    bias = problem.bias
    if bias is None:
        return None
    if bias.source.requires_grad and torch.is_grad_enabled():
        return "a bias that learns"
    if isinstance(bias, TensorBias):
        return "a bias that is the same for all keys" if bias.source.shape[3] != problem.shape[3] else None
    return None if isinstance(bias, DistanceBias | RelativeBias) else f"a bias of kind {type(bias).__name__}"


def why_mask_unsupported(problem: Problem) -> str | None:
    for clause in clauses(problem.mask):
        if has_full_tensor(clause):
            continue
        unknown = [type(mask).__name__ for mask in clause if mask.by_row and not isinstance(mask, BY_POSITION)]
        if unknown:
            return f"a mask of kind {unknown[0]}"
        if sum(isinstance(mask, SameDocument) for mask in clause) > 1:
            return "documents of two kinds joined by |"
        if window_union(problem, clause) is None:
            return "masks joined by | that leave a gap between them"
    return None


def clauses(mask: Mask | None) -> list[Clause]:
    """The mask as clauses that must all allow an edge: (a & b) | c becomes (a | c) & (b | c)."""
    if mask is None:
        return []
    if isinstance(mask, AndMask):
        return clauses(mask.left) + clauses(mask.right)
    if isinstance(mask, OrMask):
        return [left + right for left in clauses(mask.left) for right in clauses(mask.right)]
    return [(mask,)]


def to_native_args(problem: Problem) -> NativeArgs:
    """The problem as the engine's arguments; only if `why_unsupported` gives None."""
    by_kind: dict[str, list[Clause]] = {"tensor": [], "by key": [], "single": [], "or": []}
    for clause in clauses(problem.mask):
        by_kind[clause_kind(clause)].append(clause)
    single = [clause[0] for clause in by_kind["single"]]
    window_end, window_begin = FAR, -FAR
    for end, begin in windows(problem, single):
        window_end, window_begin = min(window_end, end), max(window_begin, begin)
    or_key_masks, or_documents, or_windows = or_tensors(problem, by_kind["or"])
    return NativeArgs(
        key_mask=all_of([any_of(problem, clause)[:, :, 0] for clause in by_kind["by key"]], problem),
        documents=combine_documents([mask.ids for mask in single if isinstance(mask, SameDocument)]),
        mask=all_of([any_of(problem, clause) for clause in by_kind["tensor"]], problem),
        bias=bias_tensor(problem),
        distance_bias=distance_bias(problem),
        or_key_masks=or_key_masks,
        or_documents=or_documents,
        or_windows=or_windows,
        window_end=window_end,
        window_begin=window_begin,
        scale=problem.scale,
        softcap=problem.softcap or 0.0,
        dropout=problem.dropout,
        seed=problem.seed,
    )


def clause_kind(clause: Clause) -> str:
    """How the engine reads a clause."""
    if has_full_tensor(clause):
        return "tensor"
    if not any(mask.by_row for mask in clause):
        return "by key"
    return "single" if len(clause) == 1 else "or"


def has_full_tensor(clause: Clause) -> bool:
    """Whether one of its masks is a queries × keys tensor."""
    return any(isinstance(mask, TensorMask) and mask.by_row for mask in clause)


def windows(problem: Problem, masks: Iterable[Mask]) -> Iterator[Window]:
    """The window that each causal mask and each sliding window allows."""
    first = problem.shape[3] - problem.shape[2]
    for mask in masks:
        if isinstance(mask, Causal):
            yield (first if mask.start is None else mask.start) + 1, -FAR
        if isinstance(mask, SlidingWindow):
            yield first + mask.width, first - mask.width + 1


def window_union(problem: Problem, masks: Iterable[Mask]) -> Window | None:
    """What the windows of these masks allow together; None if there is a gap between them."""
    by_begin = sorted(windows(problem, masks), key=lambda window: window[1])
    if not by_begin:
        return EMPTY_WINDOW
    end, begin = by_begin[0]
    for next_end, next_begin in by_begin[1:]:
        if next_begin > end:
            return None
        end = max(end, next_end)
    return end, begin


def or_tensors(problem: Problem, joined: list[Clause]) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """What each of these clauses allows by key, by document and by position."""
    if not joined:
        return None, None, None
    no_key = torch.zeros(1, 1, 1, problem.shape[3], dtype=torch.bool)
    by_key = [any_of(problem, [mask for mask in clause if not mask.by_row], no_key)[:, :, 0] for clause in joined]
    ids = [[mask.ids for mask in clause if isinstance(mask, SameDocument)] for clause in joined]
    documents = [own[0] if own else torch.zeros(1, problem.shape[3]) for own in ids]
    unions = [window_union(problem, clause) or EMPTY_WINDOW for clause in joined]
    return (
        torch.stack(torch.broadcast_tensors(*by_key)),
        torch.stack(torch.broadcast_tensors(*documents)),
        torch.tensor([(*union, len(own)) for union, own in zip(unions, ids, strict=True)]),
    )


def any_of(problem: Problem, masks: Iterable[Mask], *tensors: Tensor) -> Tensor:
    """True where one of the masks or tensors is."""
    return reduce(torch.logical_or, [*tensors, *(mask.materialize(problem.region()) for mask in masks)])


def all_of(masks: list[Tensor], problem: Problem) -> Tensor | None:
    """True where all masks are, with a dense last axis of all keys."""
    if not masks:
        return None
    combined = reduce(torch.logical_and, masks)
    return combined.expand(*combined.shape[:-1], problem.shape[3]).contiguous()


def combine_documents(documents: list[Tensor]) -> Tensor | None:
    """One numbering for several kinds of documents: tokens share a number if they share every document."""
    if len(documents) < 2:
        return documents[0] if documents else None
    combined, *others = (ids.unique(return_inverse=True)[1] for ids in documents)
    for ids in others:
        combined = (combined * ids.numel() + ids).unique(return_inverse=True)[1]
    return combined


def bias_tensor(problem: Problem) -> Tensor | None:
    if not isinstance(problem.bias, TensorBias):
        return None
    source = problem.bias.source.detach().float()
    return source if source.stride(-1) == 1 else source.contiguous()


def distance_bias(problem: Problem) -> Tensor | None:
    """A bias that depends on query minus key alone, lowest first: the first row reversed, then the first column."""
    if not isinstance(problem.bias, DistanceBias | RelativeBias):
        return None
    region = problem.region()
    row = problem.bias.materialize(region.narrow(rows=slice(0, 1)))[0, :, 0]
    column = problem.bias.materialize(region.narrow(columns=slice(0, 1)))[0, :, 1:, 0]
    return torch.cat([row.flip(-1), column], dim=-1).detach().float().contiguous()
