"""Where the queries and keys of one call stand in the whole sequence: what a position names when a text grows by steps.

The queries of self-attention are its last positions: with a cache, keys − queries came before them. Those of
cross-attention stand where the self-attention before them stands, whatever they look at.
"""

import torch
from torch import Tensor, nn

from transom.equations.biases import GivenBias
from transom.equations.blocks import Block
from transom.equations.masks import Causal
from transom.lens.asking.cut import lowest
from transom.lens.hearing.ear import Outline
from transom.lens.labels import is_cross


class Standing:
    """Follows the calls of each attention: the positions of the first query and of the first key."""

    def __init__(self) -> None:
        self.ended: dict[str, tuple[int, int]] = {}  # of each name that began here: one past its last query, its keys
        self.latest: tuple[int, int] | None = None  # of the self-attention that ran last: queries, and the first one

    def firsts(self, name: str, module: nn.Module | None, outline: Outline) -> tuple[int, int]:
        queries, keys = outline.whole[2:]
        if isinstance(module, nn.MultiheadAttention):
            return 0, 0  # it has no cache
        first = None if looks_elsewhere(name, module, outline) else self.own(name, outline)
        if first is None:
            known = self.latest is not None and self.latest[0] == queries
            return (self.latest[1] if known and self.latest is not None else 0), 0
        self.latest = (queries, first[0])
        if queries == keys or name in self.ended:
            self.ended[name] = (first[0] + queries, keys)
        return first

    def own(self, name: str, outline: Outline) -> tuple[int, int] | None:
        """The same for self-attention; None where it can only be cross-attention."""
        queries, keys = outline.whole[2:]
        if queries == keys:
            return 0, 0
        reach = last_seen(outline)
        if queries > 1 and (reach is None or bool((reach == reach[0]).all())):
            return None  # new tokens that all see the same would look ahead
        first = keys - queries if reach is None else int((reach - torch.arange(queries)).max())
        end, before = self.ended.get(name, (0, 0))
        if keys <= before and first == keys - queries and end > first:
            return end, end + queries - keys  # a cache that forgets all but a window
        return first, 0


def looks_elsewhere(name: str, module: nn.Module | None, outline: Outline) -> bool:
    """Whether it is cross-attention, by its name or its sizes."""
    named = is_cross(name) or getattr(module, "is_cross_attention", False) is True
    return named or outline.whole[2] > outline.whole[3]


def last_seen(outline: Outline) -> Tensor | None:
    """The last key that each row may look at, in any head of any sequence; None where nothing is masked."""
    queries, keys = outline.whole[2:]
    seen = None
    if outline.scores is not None:
        seen = outline.scores > lowest(outline.scores.dtype)
    for mask in () if outline.mask is None else outline.mask.conjuncts():
        if isinstance(mask, Causal):
            start = keys - queries if mask.start is None else mask.start
            return torch.arange(start, start + queries)
        here = mask.seen(Block(outline.whole, device=torch.device("cpu")))
        seen = here if seen is None else seen & here
    if isinstance(outline.bias, GivenBias):
        here = outline.bias.source > lowest(outline.bias.source.dtype)
        seen = here if seen is None else seen & here
    if seen is None:
        return None
    seen = seen.expand(*seen.shape[:2], queries, keys).flatten(0, 1).any(dim=0).cpu()
    return torch.where(seen, torch.arange(keys), -1).amax(dim=-1)
