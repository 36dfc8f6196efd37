"""Sets of keys as people write them: a run of positions, or single ones."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from transom.names import Misfit, check_index, integer_or_none

KeySet = tuple[int, int] | range | slice | list[int]


def set_members(spans: Sequence[KeySet], keys: int, device: torch.device) -> Bool[Tensor, "any keys"]:
    """True for each key of each set."""
    if isinstance(spans, str | tuple) or not isinstance(spans, Iterable) or not len(spans):
        raise Misfit(f"spans are a list of sets of keys, but got {spans!r:.60}; [(0, 5)] is the first five keys")
    members = torch.zeros((len(spans), keys), dtype=torch.bool, device=device)
    for row, span in zip(members, spans, strict=True):
        row[span_positions(span, keys)] = True
    return members


def span_positions(span: object, keys: int) -> list[int]:
    """The positions of a set of keys, each from 0 on; an error if it is empty or reaches beyond the keys."""
    positions = list_span(span, keys)
    if not positions:
        raise Misfit(
            f"a span is (first, one past the last), a range, a slice or a list of keys among keys={keys}, but got"
            f" {span!r:.60}; (0, 5) is the first five keys"
        )
    return [check_index(position, "keys", keys) for position in positions]


def list_span(span: object, keys: int) -> list[int]:
    if isinstance(span, slice):
        return list(range(*span.indices(keys)))
    if isinstance(span, range | list):
        return list(span)
    first, last = (integer_or_none(end) for end in span) if isinstance(span, tuple) and len(span) == 2 else (None, None)
    return [] if first is None or last is None else list(range(first, last))
