"""Keys and values that grow from step to step, as with a cache: each is kept once, however many steps look at it."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from transom.equations.biases import Bias, GivenBias
from transom.equations.masks import Given, Mask
from transom.kernels.problem import Problem

NEVER = -1e9  # a score below which no weight is left: how some models write "may not look"


class Strand:
    """The keys and values of one attention, as far as they have grown; the tensors it begins with become its own.

    The next step belongs to it if its keys are the last of those known, with one new key for each query behind them
    (a cache; one that forgets all but a window too), or nothing new (cross-attention to one source). A cache of fixed
    size is known by keys that no step so far could look at, and that are written now.
    """

    def __init__(self, K: Tensor, V: Tensor, fixed: bool = False) -> None:
        self.K, self.V, self.length = K, V, K.shape[2]
        self.fixed = fixed  # whether it is a cache of fixed size
        self.unread: list[Limits] = []
        self.known_reach = 0

    def continued(self, step: Problem) -> int | None:
        """Where the keys of the next step begin, once those that are new have been added; None if it does not go on."""
        step = replace(step, K=as_shared(step.K, self.K.shape[1]), V=as_shared(step.V, self.V.shape[1]))
        if not alike(step.K, self.K) or not alike(step.V, self.V):
            return None
        queries, keys = step.whole[2:]
        if queries == keys > 1:  # a text read at once, whatever was read before
            return None
        first = next((self.length - known for known in (keys, keys - queries) if self.ends_with(step, known)), None)
        if first is not None:
            self.extend(step, self.length - first, self.length)
        elif keys >= self.length and self.reach > 0 and self.holds(step, 0, self.reach):
            first, self.fixed = 0, True
            self.extend(step, self.reach, self.reach)
        return first

    def stretch(self, step: Problem, first: int) -> "Stretch":
        """The keys of a step that begin there."""
        # No keys are remembered with it: they would keep a model's cache alive.
        self.unread.append(Limits(step.mask, step.bias, step.whole))
        return Stretch(self, first, step.K.shape[2])

    def ends_with(self, step: Problem, known: int) -> bool:
        return 0 < known <= self.length and self.holds(step, self.length - known, known)

    def holds(self, step: Problem, first: int, known: int) -> bool:
        """Whether the first `known` keys and values of the step are those held from `first` on."""
        pairs = ((self.K, step.K), (self.V, step.V))
        # One row tells most strangers apart before everything is compared.
        return all(
            torch.equal(held[:, :, first : first + part], new[:, :, :part].to(held.device))
            for part in (min(1, known), known)
            for held, new in pairs
        )

    def extend(self, step: Problem, known: int, behind: int) -> None:
        """Write the keys after the first `known` behind so many that are held; room is doubled when it is full."""
        needed = behind + step.K.shape[2] - known
        if needed > self.K.shape[2]:
            self.K, self.V = (roomier(x, behind, needed) for x in (self.K, self.V))
        for held, new in ((self.K, step.K), (self.V, step.V)):
            held[:, :, behind:needed] = new[:, :, known:]
        self.length = needed

    @property
    def reach(self) -> int:
        """One past the last key that any step so far may look at."""
        self.known_reach = max([self.known_reach, *map(reach, self.unread)])
        self.unread.clear()
        return self.known_reach


class Limits(NamedTuple):
    """What tells how far a step may look."""

    mask: Mask | None
    bias: Bias | None
    whole: tuple[int, int, int, int]


class Stretch(NamedTuple):
    """Which keys of a strand one step looked at: `keys` of them, from `first` on."""

    strand: Strand
    first: int
    keys: int

    @property
    def K(self) -> Tensor:
        return self.strand.K[:, :, self.first : self.first + self.keys]

    @property
    def V(self) -> Tensor:
        return self.strand.V[:, :, self.first : self.first + self.keys]


def as_shared(x: Tensor, heads: int) -> Tensor:
    """Keys of that many heads, where they came with each head repeated; else as they are."""
    if heads in (0, x.shape[1]) or x.shape[1] % heads:
        return x
    groups = x.unflatten(1, (heads, -1))
    return groups[:, :, 0] if bool((groups == groups[:, :, :1]).all()) else x


def alike(x: Tensor, held: Tensor) -> bool:
    return x.dtype == held.dtype and x.shape[:2] == held.shape[:2] and x.shape[3] == held.shape[3]


def roomier(x: Tensor, length: int, needed: int) -> Tensor:
    """A copy of the first `length` keys, with room for as many again."""
    larger = x.new_empty((*x.shape[:2], max(needed, 2 * length), x.shape[3]))
    larger[:, :, :length] = x[:, :, :length]
    return larger


def reach(step: Limits) -> int:
    """One past the last key that any row of the step may look at, as far as its mask and bias are plain to see."""
    keys = last = step.whole[3]
    for mask in () if step.mask is None else step.mask.conjuncts():
        if isinstance(mask, Given):
            last = min(last, one_past(mask.allowed, keys))
        else:
            last = min(last, mask.span((0, step.whole[2]), step.whole)[1])
    if isinstance(step.bias, GivenBias):
        last = min(last, one_past(step.bias.source > NEVER, keys))
    return last


def one_past(seen: Tensor, keys: int) -> int:
    """One past the last column in which anything is True."""
    if seen.shape[3] != keys:
        return keys
    columns = seen.flatten(0, 2).any(dim=0).nonzero()
    return int(columns[-1]) + 1 if len(columns) else 0
