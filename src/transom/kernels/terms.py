"""An attention in the native engine's terms: masks and biases as the few kinds of numbers it reads, or why not."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from transom.equations.biases import DistanceBias, GivenBias, TableBias
from transom.equations.masks import Both, Causal, Either, Given, Mask, SameDocument, SlidingWindow
from transom.kernels.problem import Problem

FAR = 2**40  # farther than any key
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False)
class Terms:
    """Row i sees keys from i + behind on and before i + ahead; what else there is, is None or a tensor."""

    ahead: int = FAR
    behind: int = -FAR
    real: Tensor | None = None  # bool, (batch or 1, heads or 1, keys): who may be looked at at all
    documents: Tensor | None = None  # any numbers, (batch or 1, keys)
    given: Tensor | None = None  # bool, four axes
    bias: Tensor | None = None  # float32, four axes
    by_distance: Tensor | None = None  # float32, (heads, queries + keys − 1): added for each query minus key
    # Of masks joined by |, a row for each such mask; one of the three is enough.
    either_real: Tensor | None = None  # bool, (masks, batch or 1, heads or 1, keys)
    either_documents: Tensor | None = None  # any numbers, (masks, batch or 1, keys)
    reaches: Tensor | None = None  # int64, (masks, 3): ahead, behind, and whether its documents count

    def tensors(self) -> tuple[Tensor | None, ...]:
        own = (self.real, self.documents, self.given, self.bias, self.by_distance)
        return (*own, self.either_real, self.either_documents, self.reaches)


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
    for clause in clauses(problem.mask):
        if is_given(clause):
            continue
        if other := [type(part).__name__ for part in clause if part.by_row and not isinstance(part, KNOWN)]:
            return f"a mask of kind {other[0]}"
        if sum(isinstance(part, SameDocument) for part in clause) > 1:
            return "documents of two kinds joined by |"
        if joined(problem, clause) is None:
            return "masks joined by | that leave a gap between them"
    return None


KNOWN = (Causal, SlidingWindow, SameDocument)
Clause = tuple[Mask, ...]
NOWHERE = (-FAR, FAR)


def clauses(mask: Mask | None) -> list[Clause]:
    """The mask as clauses that must all say yes, each of masks of which one must: (a & b) | c is (a | c) & (b | c)."""
    if mask is None:
        return []
    if isinstance(mask, Both):
        return clauses(mask.left) + clauses(mask.right)
    if isinstance(mask, Either):
        return [left + right for left in clauses(mask.left) for right in clauses(mask.right)]
    return [(mask,)]


def terms(problem: Problem) -> Terms:
    """The problem's mask and bias, put so; only for what `refusal` lets pass."""
    of_kind: dict[str, list[Clause]] = {"given": [], "by key": [], "single": [], "either": []}
    for clause in clauses(problem.mask):
        of_kind[kind(clause)].append(clause)
    given, by_key, either = of_kind["given"], of_kind["by key"], of_kind["either"]
    single = [clause[0] for clause in of_kind["single"]]
    ahead, behind = reach(problem, single)
    return Terms(
        ahead=ahead,
        behind=behind,
        real=every([key_mask(problem, clause) for clause in by_key], problem),
        documents=one_kind([part.ids for part in single if isinstance(part, SameDocument)]),
        given=every([seen_by_one(problem, clause) for clause in given], problem),
        bias=given_bias(problem),
        by_distance=line(problem),
        **(one_enough(problem, either) if either else {}),
    )


def kind(clause: Clause) -> str:
    """How the engine reads a clause."""
    if is_given(clause):
        return "given"
    if not any(part.by_row for part in clause):
        return "by key"
    return "single" if len(clause) == 1 else "either"


def is_given(clause: Clause) -> bool:
    """Whether there is a tensor of queries × keys among its masks already."""
    return any(isinstance(part, Given) and part.by_row for part in clause)


def reach(problem: Problem, parts: Iterable[Mask]) -> tuple[int, int]:
    """How far the masks by position let row 0 look, all of them: before which key, and from which on."""
    ahead, behind = FAR, -FAR
    for its_ahead, its_behind in reaches_of(problem, parts):
        ahead, behind = min(ahead, its_ahead), max(behind, its_behind)
    return ahead, behind


def joined(problem: Problem, parts: Iterable[Mask]) -> tuple[int, int] | None:
    """The same where one of them is enough; None if there is a gap between what they allow."""
    places = sorted(reaches_of(problem, parts), key=lambda place: place[1])
    if not places:
        return NOWHERE
    ahead, behind = places[0]
    for next_ahead, next_behind in places[1:]:
        if next_behind > ahead:
            return None
        ahead = max(ahead, next_ahead)
    return ahead, behind


def reaches_of(problem: Problem, parts: Iterable[Mask]) -> Iterator[tuple[int, int]]:
    """Of each mask by position, before which key and from which on it lets row 0 look."""
    first = problem.whole[3] - problem.whole[2]
    for part in parts:
        if isinstance(part, Causal):
            yield (first if part.start is None else part.start) + 1, -FAR
        if isinstance(part, SlidingWindow):
            yield first + part.width, first - part.width + 1


def one_enough(problem: Problem, either: list[Clause]) -> dict[str, Tensor]:
    """Masks joined by |: what each of these clauses says by key, by document and by position."""
    nobody = torch.zeros(1, 1, problem.whole[3], dtype=torch.bool)
    real = [key_mask(problem, [part for part in clause if not part.by_row], nobody) for clause in either]
    ids = [[part.ids for part in clause if isinstance(part, SameDocument)] for clause in either]
    documents = [own[0] if own else torch.zeros(1, problem.whole[3]) for own in ids]
    reaches = [(*(joined(problem, clause) or NOWHERE), len(own)) for clause, own in zip(either, ids, strict=True)]
    return {
        "either_real": torch.stack(torch.broadcast_tensors(*real)),
        "either_documents": torch.stack(torch.broadcast_tensors(*documents)),
        "reaches": torch.tensor(reaches),
    }


def key_mask(problem: Problem, parts: Iterable[Mask], *more: Tensor) -> Tensor:
    """Which keys one of these masks allows, that are the same for all rows."""
    return reduce(torch.logical_or, [*more, *(part.seen(problem.block())[:, :, 0] for part in parts)])


def seen_by_one(problem: Problem, clause: Clause) -> Tensor:
    """Where one of the masks allows a look, as large as the one among them that was given so."""
    return reduce(torch.logical_or, [part.seen(problem.block()) for part in clause])


def every(seen: list[Tensor], problem: Problem) -> Tensor | None:
    return None if not seen else spread(reduce(torch.logical_and, seen), problem)


def one_kind(documents: list[Tensor]) -> Tensor | None:
    """Of several kinds of documents at once: tokens are together where they are in each."""
    if len(documents) < 2:
        return documents[0] if documents else None
    inverses = [ids.unique(return_inverse=True)[1] for ids in documents]
    return reduce(lambda one, other: (one * other.numel() + other).unique(return_inverse=True)[1], inverses)


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
