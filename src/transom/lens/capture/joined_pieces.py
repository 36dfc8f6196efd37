"""Attention by hand that ran in pieces: chunks of queries, single rows or single heads, joined to one attention.

Pieces are joined only if what took their output (W_O, or the caller of the module) proves their order.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from transom.lens.capture.weight_products import WeightedSum

IN_PIECES = "it is computed in pieces, and which queries they belong to is not known"
CUT_IN_PIECES = "it is computed in pieces"
IN_BLOCKS = "it attends within blocks of the text"
SELECTED = "only some of its queries attend, and they were reordered"


def group_pieces(
    sums: list[WeightedSum], belongs: Callable[[WeightedSum, WeightedSum], bool]
) -> Iterator[list[WeightedSum]]:
    """Consecutive sums that belong to the first of their group together, each other one alone."""
    group: list[WeightedSum] = []
    for one in sums:
        if group and not belongs(group[0], one):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def has_other_queries(first: WeightedSum, one: WeightedSum) -> bool:
    """Whether two sums may be some of the queries of one attention each: they share their values."""
    if first.weights.shape[:2] != one.weights.shape[:2] or first.V.shape[3] != one.V.shape[3]:
        return False
    if all(piece.weights.shape[2] == piece.weights.shape[3] for piece in (first, one)):
        return False  # each has all queries
    keys = min(first.V.shape[2], one.V.shape[2])
    return torch.equal(first.V[:, :, :keys], one.V[:, :, :keys])


def has_other_heads(first: WeightedSum, one: WeightedSum) -> bool:
    """Whether two sums may be a head of one attention each: they have the same shape, and other values."""
    return first.weights.shape == one.weights.shape and first.V.shape == one.V.shape


def drop_rearranged(sums: list[WeightedSum]) -> list[WeightedSum]:
    """The sums without those that repeat the weights of another in other places: terms of relative positions, say."""
    if len({one.weights.shape for one in sums}) < 2:
        return sums
    return [one for one in sums if not any(repeats(one, other) for other in sums if other is not one)]


def repeats(one: WeightedSum, first: WeightedSum) -> bool:
    """Whether a sum has more keys than another, and in each row the same weights, elsewhere and beside zeros."""
    if one.weights.shape[:3] != first.weights.shape[:3] or one.weights.shape[3] <= first.weights.shape[3]:
        return False
    more, fewer = (piece.weights.sort(dim=-1, descending=True).values for piece in (one, first))
    keys = fewer.shape[3]
    return torch.equal(more[..., :keys], fewer) and not bool(more[..., keys:].any())


def join_queries(pieces: list[WeightedSum]) -> WeightedSum:
    """Chunks of queries, in order, over the same values."""
    longest = max(pieces, key=lambda piece: piece.weights.shape[3])
    keys = longest.weights.shape[3]
    weights = torch.cat([F.pad(piece.weights, (0, keys - piece.weights.shape[3])) for piece in pieces], dim=2)
    return replace_parts(pieces, weights, longest.V, torch.cat([piece.output for piece in pieces], dim=2))


def join_heads(pieces: list[WeightedSum]) -> WeightedSum:
    """Single heads, or groups of them, in order."""
    weights, V, output = (
        torch.cat([getattr(piece, part) for piece in pieces], dim=1) for part in ("weights", "V", "output")
    )
    return replace_parts(pieces, weights, V, output)


def replace_parts(pieces: list[WeightedSum], weights: Tensor, V: Tensor, output: Tensor) -> WeightedSum:
    unproved = next((piece.unproved for piece in pieces if piece.unproved), "")
    tentative, count = all(piece.tentative for piece in pieces), sum(piece.pieces for piece in pieces)
    parts = {"weights": weights, "V": V, "output": output}
    return replace(pieces[0], **parts, unproved=unproved, tentative=tentative, pieces=count)


def join_proven(sums: list[WeightedSum], x: Tensor) -> list[WeightedSum]:
    """The sums of one module, those whose output x holds in order joined to one; x is what something took."""
    by_query = [group[0] if len(group) == 1 else join_queries(group) for group in group_pieces(sums, has_other_queries)]
    for index, one in enumerate(by_query):
        proven = prove_order(one, x)
        if proven is not None:
            return [*by_query[:index], proven, *by_query[index + 1 :]]
    if len(by_query) > 1 and all(has_other_heads(by_query[0], one) for one in by_query):
        for count in split_candidates(by_query[0], x):
            proven = prove_order(join_heads([split_heads(one, count) for one in by_query]), x)
            if proven is not None:
                return [proven]
    return [put_back(sums[0], x)] if len(sums) == 1 else sums


def split_candidates(one: WeightedSum, x: Tensor) -> list[int]:
    """How many sequences the matrices of a sum may belong to, if nothing says so but x."""
    if one.split_known:
        return [one.weights.shape[0]]
    batch, heads = one.weights.shape[:2]
    sizes = [size for size in x.shape[:2] if size and (batch * heads) % size == 0]
    return [*sizes, batch]


def split_heads(one: WeightedSum, batch: int) -> WeightedSum:
    """The same with its matrices split into that many sequences."""
    if batch == one.weights.shape[0]:
        return one
    weights, V, output = (y.flatten(0, 1).unflatten(0, (batch, -1)) for y in (one.weights, one.V, one.output))
    return replace(one, weights=weights, V=V, output=output)


def prove_order(one: WeightedSum, x: Tensor) -> WeightedSum | None:
    """The same, split into batch and heads so that x holds its output in order; None if x does not."""
    for batch in split_candidates(one, x):
        split = split_heads(one, batch)
        if is_joined(x, split.output):
            in_blocks = (one.split_known or one.axes > 4) and x.dim() == 3 and batch not in x.shape[:2]
            return replace(split, in_order=True, split_known=True, refused=IN_BLOCKS if in_blocks else "")
    return None


def is_joined(x: Tensor, output: Tensor) -> bool:
    """Whether x holds the output (batch, heads, queries, d_value) of all heads, in the order of the queries."""
    if x.numel() != output.numel() or x.dtype != output.dtype:
        return False
    layouts = (output.transpose(1, 2), output, output.permute(2, 0, 1, 3))
    return any(torch.equal(x.detach().reshape(layout.shape), layout) for layout in layouts)


def put_back(one: WeightedSum, x: Tensor) -> WeightedSum:
    """The same with its rows where x, what took the output, has them; refused if x has more rows than these."""
    batch, heads, queries, width = one.output.shape
    if x.dim() != 3 or x.shape[0] != batch or x.shape[2] != heads * width or x.dtype != one.output.dtype:
        return one
    used = x.detach().unflatten(2, (heads, width)).transpose(1, 2)
    if not (used[0, 0][None] == one.output[0, 0][:, None]).all(dim=-1).any(dim=-1).all():
        return one  # x is something else, or was computed from the output
    found = (used[:, :, None] == one.output[:, :, :, None]).all(dim=-1)  # (batch, heads, queries, rows of x)
    places = found.int().argmax(dim=-1)[..., None]
    if bool((places[..., 0] == torch.arange(queries, device=x.device)).all()):
        return replace(one, in_order=True)  # others come after them
    if x.shape[1] != queries or not bool((found.sum(dim=-1) == 1).all()):
        return replace(one, refused=SELECTED)
    weights, output = (torch.zeros_like(y).scatter_(2, places.expand_as(y), y) for y in (one.weights, one.output))
    return replace(one, weights=weights, output=output, in_order=True)
