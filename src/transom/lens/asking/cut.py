"""Edges cut out of an attention: before the softmax, so that the others share their weight, or after it, so that not.

An attention that a kernel computed whole keeps what it gave, but for the rows that lose an edge: these are made anew
from Q, K and V. One that goes through a softmax of its own is cut there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations import attention
from transom.equations.blocks import Block, numbers
from transom.equations.edges import Box, Without
from transom.equations.heads import joined
from transom.equations.masks import Given, Mask
from transom.kernels.problem import Problem
from transom.kernels.tiles import BAND_NUMBERS, safe_context
from transom.lens.hearing.heard import Heard
from transom.lens.kept import Joined

Rows = Bool[Tensor, "batch heads queries"]


@dataclass(frozen=True, eq=False)
class Cut:
    """What is cut out before the softmax, and what after it; `emptied` are rows that lost their last key by it."""

    before: tuple[Box, ...] = ()
    after: tuple[Box, ...] = ()
    emptied: Rows | None = None

    @property
    def boxes(self) -> tuple[Box, ...]:
        return (*self.before, *self.after)

    def __or__(self, other: "Cut") -> "Cut":
        return Cut((*self.before, *other.before), (*self.after, *other.after))

    def within(self, entry: int) -> "Cut":
        """What concerns one entry of the batch."""
        before, after = (
            tuple(box for box in boxes if box.batch is None or entry in box.batch)
            for boxes in (self.before, self.after)
        )
        return Cut(before, after)

    def gone(self, block: Block) -> tuple[Tensor | None, Tensor | None]:
        """True where an edge is cut before the softmax, and where after it; None where none is."""
        before, after = (~Without(boxes).seen(block) if boxes else None for boxes in (self.before, self.after))
        return before, after

    def touched(self, block: Block) -> Rows:
        """Rows that lose an edge."""
        touched = torch.zeros(block.shape[:3], dtype=torch.bool, device=block.device)
        for gone in self.gone(block):
            if gone is not None:
                touched = touched | gone.any(dim=-1)
        return touched


def lowest(dtype: torch.dtype) -> float:
    """A score that no query has with a key: at or below it, a model has written "may not look" as a number."""
    return max(-1e8, torch.finfo(dtype).min / 2.0)


def emptied(scores: Tensor, cut_scores: Tensor) -> Bool[Tensor, "..."]:
    """Rows that may look somewhere before the cut and nowhere after it."""
    least = lowest(scores.dtype)
    return (scores > least).any(dim=-1) & ~(cut_scores > least).any(dim=-1)


def remade(one: Heard, cut: Cut) -> Heard:
    """The same attention with its edges cut: its other rows are those that came, bit for bit."""
    problem = one.problem
    lost = torch.zeros(problem.whole[:3], dtype=torch.bool, device=problem.Q.device)
    if one.joined is not None:
        used, lost = rejoined(problem, cut, one.joined, lost)
        return described(replace(one, joined=used), replace(cut, emptied=lost))
    assert one.output is not None
    output = one.output.clone()
    for block, part in blocks(problem, cut):
        rows, nowhere = rows_anew(problem, part, block)
        place, touched = placed(block), part.touched(block)
        lost[place] = nowhere
        output[place] = torch.where(touched[..., None], rows.to(output.dtype), output[place])
    return described(replace(one, output=output), replace(cut, emptied=lost))


def rejoined(problem: Problem, cut: Cut, used: Joined, lost: Rows) -> tuple[Joined, Rows]:
    """The same where the heads came joined by W_O: all heads of a row that loses an edge are made anew."""
    output = used.output.clone()
    for block, part in blocks(problem, cut):
        block = block.narrowed(heads=slice(0, problem.whole[1]))
        rows, nowhere = rows_anew(problem, part, block)
        lost[placed(block)] = nowhere
        made = joined(rows, used.W_O.mT.to(rows.dtype))
        made = made if used.bias is None else made + used.bias.to(made.dtype)
        batch, _, row = placed(block)
        touched = part.touched(block).any(dim=1)[..., None]
        place = (batch[:, 0], row)
        output[place] = torch.where(touched, made.to(output.dtype), output[place])
    return replace(used, output=output), lost


def blocks(problem: Problem, cut: Cut) -> Iterator[tuple[Block, Cut]]:
    """The rows that lose an edge, in blocks of bounded size, each with the part of the cut that concerns it."""
    entries = {place for box in cut.boxes for place in (box.batch or ())}
    everywhere = any(box.batch is None for box in cut.boxes)
    for entry in [None] if everywhere else sorted(entries):
        part = cut if entry is None else cut.within(entry)
        batch = slice(0, problem.whole[0]) if entry is None else slice(entry, entry + 1)
        heads = union([box.heads for box in part.boxes], problem.whole[1], problem.Q.device)
        rows = union([box.queries for box in part.boxes], problem.whole[2], problem.Q.device)
        wide = (problem.whole[0] if entry is None else 1) * len(heads) * problem.whole[3]
        for some in rows.split(max(1, 8 * BAND_NUMBERS // max(1, wide))):
            yield problem.block().narrowed(batch=batch, heads=heads, rows=some), part


def union(held: list[tuple[int, ...] | None], size: int, device: torch.device) -> Tensor:
    if any(one is None for one in held):
        return torch.arange(size, device=device)
    return torch.tensor(sorted({place for one in held for place in one or ()}), device=device)


def placed(block: Block) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of a block, as an index into (batch, heads, queries)."""
    axes = zip((block.batch, block.heads, block.rows), block.whole[:3], strict=True)
    b, h, q = (numbers(index, size, block.device) for index, size in axes)
    return b[:, None, None], h[:, None], q


def rows_anew(problem: Problem, cut: Cut, block: Block) -> tuple[Tensor, Rows]:
    """What the rows of a block find without the edges; and which of them have no key left."""
    scores = problem.scores(block)
    before, after = cut.gone(block)
    kept = scores if before is None else scores.masked_fill(before, -torch.inf)
    nowhere = emptied(scores, kept)
    weights = attention.softmax(kept).masked_fill(nowhere[..., None], 0.0)
    if after is not None:
        weights = weights.masked_fill(after, 0.0)
    factors = problem.dropout_factors(block)
    return safe_context(weights if factors is None else weights * factors, problem.values_of(block)), nowhere


def described(one: Heard, cut: Cut) -> Heard:
    """What is shown of an attention whose output is already that without the edges."""
    mask: Mask | None = one.problem.mask
    parts: list[Mask] = [Without(cut.before)] if cut.before else []
    if cut.emptied is not None and cut.emptied.any():
        parts.append(Given(~cut.emptied[..., None]))
    for part in parts:
        mask = part if mask is None else mask & part
    problem = replace(one.problem, mask=mask)
    # Weights cut after the softmax are still measured by the sum over all keys, so that sum may be the one that came.
    lse = one.lse if not parts else None
    return replace(one, problem=problem, lse=lse, zeroed=Without(cut.after) if cut.after else None)


def cut_softmax(
    x: Float[Tensor, "batch heads queries any"], run: Callable[[Tensor], Tensor], cut: Cut, keys: int
) -> tuple[Tensor, Cut]:
    """The weights that `run`, a softmax, makes of scores x without the edges; x may have more columns than keys."""
    block = Block((x.shape[0], x.shape[1], x.shape[2], keys), device=x.device)
    before, after = (
        None if gone is None else F.pad(gone.expand(block.shape), (0, x.shape[3] - keys)) for gone in cut.gone(block)
    )
    kept = x if before is None else x.masked_fill(before, -torch.inf)
    nowhere = emptied(x[..., :keys].detach(), kept[..., :keys].detach()) & ~(x[..., keys:] > lowest(x.dtype)).any(-1)
    if nowhere.any():  # a softmax over −∞ alone would be NaN, and a row of "may not look" would look everywhere
        kept = kept.masked_fill(nowhere[..., None], 0.0)
        after = nowhere[..., None] if after is None else after | nowhere[..., None]
    weights = run(kept)
    return (weights if after is None else weights.masked_fill(after, 0.0)), replace(cut, emptied=nowhere)
