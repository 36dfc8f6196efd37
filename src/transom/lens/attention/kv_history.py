"""Keys and values that grow from step to step, as with a cache: each is stored once, however many steps use it."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from transom.equations.biases import Bias, TensorBias
from transom.equations.masks import UNWRITTEN_BIAS, Mask, TensorMask
from transom.kernels import Problem


class KVHistory:
    """The keys and values of one attention, as far as they have grown; it writes into the tensors it begins with.

    The next step belongs to it if its keys are the last ones known, followed by one new key for each query (a cache,
    also one that forgets all but a window), or by nothing new (cross-attention to one source). A cache of fixed size is
    recognised by keys that no step so far could see, and that are written now.
    """

    def __init__(self, K: Tensor, V: Tensor, fixed: bool = False) -> None:
        self.K, self.V, self.length = K, V, K.shape[2]
        self.fixed = fixed  # whether it is a cache of fixed size
        self.new_steps: list[StepVisibility] = []  # whose last visible key is not known yet
        self.known_end = 0

    def match_step(self, step: Problem) -> int | None:
        """Where the keys of the next step begin, after its new keys were added; None if it is not the next step."""
        step = replace(step, K=unrepeat_heads(step.K, self.K.shape[1]), V=unrepeat_heads(step.V, self.V.shape[1]))
        if not same_layout(step.K, self.K) or not same_layout(step.V, self.V):
            return None
        queries, keys = step.shape[2:]
        if queries == keys > 1:  # a text that is read at once, whatever was read before
            return None
        for known in (keys, keys - queries):
            if 0 < known <= self.length and self.contains(step, self.length - known, known):
                first = self.length - known
                self.extend(step, known, self.length)
                return first
        if keys >= self.length and self.visible_end > 0 and self.contains(step, 0, self.visible_end):
            self.fixed = True
            self.extend(step, self.visible_end, self.visible_end)
            return 0
        return None

    def slice_for(self, step: Problem, first: int) -> "KVSlice":
        """The keys of a step that begin there."""
        # The step's K and V are not remembered: they would keep a model's cache alive.
        self.new_steps.append(StepVisibility(step.mask, step.bias, step.shape))
        return KVSlice(self, first, step.K.shape[2])

    def contains(self, step: Problem, first: int, count: int) -> bool:
        """Whether the first `count` keys and values of the step are those held from `first` on."""
        pairs = ((self.K, step.K), (self.V, step.V))
        # One key is enough to reject most other steps before everything is compared.
        return all(
            torch.equal(held[:, :, first : first + length], new[:, :, :length].to(held.device))
            for length in (min(1, count), count)
            for held, new in pairs
        )

    def extend(self, step: Problem, known: int, length: int) -> None:
        """Write the step's keys after its first `known` ones behind `length` held ones; a full tensor is doubled."""
        needed = length + step.K.shape[2] - known
        if needed > self.K.shape[2]:
            self.K, self.V = (grow(x, length, needed) for x in (self.K, self.V))
        for held, new in ((self.K, step.K), (self.V, step.V)):
            held[:, :, length:needed] = new[:, :, known:]
        self.length = needed

    @property
    def visible_end(self) -> int:
        """One past the last key that any step so far may see."""
        self.known_end = max([self.known_end, *(step.visible_end() for step in self.new_steps)])
        self.new_steps.clear()
        return self.known_end


class StepVisibility(NamedTuple):
    """What limits the keys that a step may see."""

    mask: Mask | None
    bias: Bias | None
    shape: tuple[int, int, int, int]

    def visible_end(self) -> int:
        """One past the last key that any row may see, as far as mask and bias show it."""
        queries, keys = self.shape[2:]
        ends = [keys]
        for mask in () if self.mask is None else self.mask.conjuncts():
            if isinstance(mask, TensorMask):
                ends.append(end_of_true(mask.allowed, keys))
            else:
                ends.append(mask.key_range((0, queries), self.shape)[1])
        if isinstance(self.bias, TensorBias):
            ends.append(end_of_true(self.bias.source > UNWRITTEN_BIAS, keys))
        return min(ends)


class KVSlice(NamedTuple):
    """Which keys of a history one step used: `keys` of them, from `first` on."""

    history: KVHistory
    first: int
    keys: int

    @property
    def K(self) -> Tensor:
        return self.history.K[:, :, self.first : self.first + self.keys]

    @property
    def V(self) -> Tensor:
        return self.history.V[:, :, self.first : self.first + self.keys]


def unrepeat_heads(x: Tensor, heads: int) -> Tensor:
    """Keys of that many heads, if each head was only repeated; otherwise as they are."""
    if heads in (0, x.shape[1]) or x.shape[1] % heads:
        return x
    groups = x.unflatten(1, (heads, -1))
    return groups[:, :, 0] if bool((groups == groups[:, :, :1]).all()) else x


def same_layout(x: Tensor, held: Tensor) -> bool:
    return x.dtype == held.dtype and x.shape[:2] == held.shape[:2] and x.shape[3] == held.shape[3]


def grow(x: Tensor, length: int, needed: int) -> Tensor:
    """A copy of the first `length` keys, with room for as many again."""
    larger = x.new_empty((*x.shape[:2], max(needed, 2 * length), x.shape[3]))
    larger[:, :, :length] = x[:, :, :length]
    return larger


def end_of_true(allowed: Tensor, keys: int) -> int:
    """One past the last column in which anything is True."""
    if allowed.shape[3] != keys:
        return keys
    columns = allowed.flatten(0, 2).any(dim=0).nonzero()
    return int(columns[-1]) + 1 if len(columns) else 0
