"""An attention in the native engine's terms: masks and biases as the few kinds of numbers it reads, or why not."""

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from transom.equations.biases import DistanceBias, GivenBias, TableBias
from transom.equations.masks import Causal, Given, Mask, SameDocument, SlidingWindow
from transom.kernels.problem import Problem

FAR = 2**40  # farther than any key
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False)
class Terms:
    """Row i sees keys from i + behind on and before i + ahead; what else there is, is None or a tensor."""

    ahead: int = FAR
    behind: int = -FAR
    real: Tensor | None = None  # bool, (batch or 1, heads or 1, keys): who may be looked at at all
    documents: Tensor | None = None  # int32, (batch or 1, keys)
    given: Tensor | None = None  # bool, four axes
    bias: Tensor | None = None  # float32, four axes
    by_distance: Tensor | None = None  # float32, (heads, queries + keys − 1): added for each query minus key


def refusal(problem: Problem) -> str | None:
    """What the native engine does not do of this, in words; None if it does it all. Costs nothing like the terms do."""
    Q, V = problem.Q, problem.V
    if Q.device.type != "cpu":
        return f"tensors on {Q.device.type}"
    if Q.dtype not in DTYPES:
        return f"{Q.dtype}"
    if 0 in (*problem.whole, Q.shape[3], V.shape[3]):
        return "axes of size 0"
    if not torch.compiler.is_compiling() and transformed():
        return "torch.func transforms such as vmap"
    return bias_refusal(problem) or mask_refusal(problem)


def transformed() -> bool:
    """Whether a transform of torch.func is under way: its tensors stand for many."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]


def bias_refusal(problem: Problem) -> str | None:
    bias = problem.bias
    if bias is None:
        return None
    if bias.source.requires_grad and torch.is_grad_enabled():
        return "a bias that learns"
    if isinstance(bias, GivenBias):
        return "a bias that is the same for all keys" if bias.source.shape[3] != problem.whole[3] else None
    return None if isinstance(bias, DistanceBias | TableBias) else f"a bias of kind {type(bias).__name__}"


def mask_refusal(problem: Problem) -> str | None:
    parts = conjuncts(problem)
    if sum(isinstance(part, SameDocument) for part in parts) > 1:
        return "two masks of documents at once"
    known = (Causal, SlidingWindow, SameDocument, Given)
    other = [type(part).__name__ for part in parts if part.by_row and not isinstance(part, known)]
    return f"a mask of kind {other[0]}" if other else None


def conjuncts(problem: Problem) -> list[Mask]:
    return [] if problem.mask is None else list(problem.mask.conjuncts())


def terms(problem: Problem) -> Terms:
    """The problem's mask and bias, put so; only for what `refusal` lets pass."""
    parts = conjuncts(problem)
    ahead, behind = reach(problem)
    documents = [part.ids for part in parts if isinstance(part, SameDocument)]
    real = [part.seen(problem.block())[:, :, 0] for part in parts if not part.by_row]
    given = [part.allowed for part in parts if isinstance(part, Given) and part.by_row]
    return Terms(
        ahead=ahead,
        behind=behind,
        real=None if not real else spread(reduce(torch.logical_and, real), problem),
        documents=documents[0].unique(return_inverse=True)[1].to(torch.int32) if documents else None,
        given=None if not given else spread(reduce(torch.logical_and, given), problem),
        bias=given_bias(problem),
        by_distance=line(problem),
    )


def reach(problem: Problem) -> tuple[int, int]:
    """How far the masks by position let row 0 look: before which key, and from which on."""
    first = problem.whole[3] - problem.whole[2]
    ahead, behind = FAR, -FAR
    for part in conjuncts(problem):
        if isinstance(part, Causal):
            ahead = min(ahead, (first if part.start is None else part.start) + 1)
        if isinstance(part, SlidingWindow):
            ahead, behind = min(ahead, first + part.width), max(behind, first - part.width + 1)
    return ahead, behind


def spread(seen: Tensor, problem: Problem) -> Tensor:
    """With a dense last axis of all keys."""
    return seen.expand(*seen.shape[:-1], problem.whole[3]).contiguous()


def given_bias(problem: Problem) -> Tensor | None:
    if not isinstance(problem.bias, GivenBias):
        return None
    source = problem.bias.source.detach().float()
    return source if source.stride(-1) == 1 else source.contiguous()


def line(problem: Problem) -> Tensor | None:
    """A bias by distance alone, for each query minus key, the least first: the first row's, then the first key's."""
    if not isinstance(problem.bias, DistanceBias | TableBias):
        return None
    block = problem.block()
    row = problem.bias.added(block.narrowed(rows=slice(0, 1)))[0, :, 0]
    column = problem.bias.added(block.narrowed(columns=slice(0, 1)))[0, :, 1:, 0]
    return torch.cat([row.flip(-1), column], dim=-1).detach().float().contiguous()
