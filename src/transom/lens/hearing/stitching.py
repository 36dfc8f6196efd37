"""The steps of a generation as one attention: all rows over all keys, as if the text had been read whole."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations.biases import Bias, GivenBias
from transom.equations.edges import Without
from transom.equations.masks import Causal, Given, Mask
from transom.lens.hearing.strands import Strand, Stretch
from transom.lens.sight import Sight
from transom.names import Misfit

IN_ONE = "its heads were joined by W_O in the same step; the receipt of each step proves them"
DROPPED = "its dropout follows from a seed for each step; the receipt of each step proves it"


def runs(steps: Sequence[Sight]) -> list[list[Sight]]:
    """The steps in groups that each go on from the one before: one text written, or one beam until beams change."""
    found: list[list[Sight]] = []
    for step in steps:
        if found and strand_of(found[-1][-1]) is strand_of(step) is not None:
            found[-1].append(step)
        else:
            found.append([step])
    return found


def strand_of(step: Sight) -> Strand | None:
    return None if step.stretch is None else step.stretch.strand


def chosen_run(name: str, steps: Sequence[Sight], run: int | None) -> list[Sight]:
    found = runs(steps)
    if run is None and len(found) > 1:
        raise Misfit(
            f"the {len(steps)} attentions of {name!r} do not go on from one another: they are {len(found)} runs"
            " (several texts, or beams that changed places); take stitched(run=-1) for the last, write with"
            " num_beams=1, or watch the model read the written text"
        )
    number = 0 if run is None else run
    if not -len(found) <= number < len(found):
        raise Misfit(f"the attentions of {name!r} are {len(found)} runs, so {number} is none of them; count from 0")
    return found[number]


def stitched(steps: list[Sight]) -> Sight:
    """One Sight with the rows of all steps in order, over the keys of the longest."""
    if len(steps) == 1:
        return steps[0]
    first = steps[0].problem
    stretches = [step.stretch for step in steps if step.stretch is not None]
    strand = stretches[0].strand
    last = strand.reach if strand.fixed else strand.length
    problem = replace(
        first,
        Q=torch.cat([step.Q for step in steps], dim=2),
        K=strand.K[:, :, :last],
        V=strand.V[:, :, :last],
        mask=whole_mask(steps, stretches, last),
        bias=whole_bias(steps, stretches, last),
        dropout=0.0,
    )
    output, lse = torch.cat([step.output for step in steps], dim=2), torch.cat([step.lse for step in steps], dim=2)
    whole = Sight(problem, output, lse, unproved=unproved(steps), zeroed=whole_zeroed(steps, stretches))
    whole.stretch = Stretch(strand, 0, last)
    return whole


def whole_zeroed(steps: Sequence[Sight], stretches: Sequence[Stretch]) -> Without | None:
    """Where weights were set to 0 after the softmax, at the rows and keys of the whole."""
    boxes, row = [], 0
    for step, stretch in zip(steps, stretches, strict=True):
        rows = range(row, row + step.Q.shape[2])
        row = rows.stop
        if isinstance(step.zeroed, Without):
            boxes += step.zeroed.moved(rows, range(stretch.first, stretch.first + stretch.keys))
    return Without(tuple(boxes)) if boxes else None


def unproved(steps: Sequence[Sight]) -> str:
    """Why the receipt of the whole is not checkable, where it is not."""
    reasons = [step.unproved for step in steps if step.unproved]
    if any(step.joined is not None for step in steps):
        reasons.append(IN_ONE)
    if any(step.problem.dropout for step in steps):
        reasons.append(DROPPED)
    return reasons[0] if reasons else ""


def whole_mask(steps: Sequence[Sight], stretches: Sequence[Stretch], keys: int) -> Mask | None:
    """Who may look at whom in the whole: plainly causal where it is, else as a tensor."""
    parts = lambda: seen_by_step(steps, stretches, keys)  # noqa: E731
    if all(bool(part.all()) for part in parts()):
        return None
    if sum(step.Q.shape[2] for step in steps) == keys and all(causal(part, row) for row, part in rows_of(parts())):
        return Causal()
    sizes = [max(part.shape[axis] for part in parts()) for axis in (0, 1)]
    return Given(torch.cat([part.expand(*sizes, -1, -1) for part in parts()], dim=2))


def seen_by_step(
    steps: Sequence[Sight], stretches: Sequence[Stretch], keys: int
) -> Iterator[Bool[Tensor, "#batch #heads rows keys"]]:
    """Where the rows of each step may look, of all keys."""
    for step, stretch in zip(steps, stretches, strict=True):
        problem = step.problem
        seen = problem.seen(problem.block())
        if seen is None:
            seen = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=problem.Q.device)
        yield placed(seen, problem.whole, stretch.first, keys)


def rows_of(parts: Iterator[Tensor]) -> Iterator[tuple[int, Tensor]]:
    """Each part with the number of its first row."""
    row = 0
    for part in parts:
        yield row, part
        row += part.shape[2]


def causal(seen: Bool[Tensor, "#batch #heads rows keys"], row: int) -> bool:
    """Whether rows from number `row` on see their own position and all before it, and no more."""
    rows = torch.arange(row, row + seen.shape[2], device=seen.device)[:, None]
    expected = torch.arange(seen.shape[3], device=seen.device) <= rows
    return bool((seen == expected).all())


def whole_bias(steps: Sequence[Sight], stretches: Sequence[Stretch], keys: int) -> Bias | None:
    """What is added to the scores of the whole: the steps' own formula where they share one, else as a tensor."""
    biases = [step.problem.bias for step in steps]
    first = biases[0]
    if all(bias is None for bias in biases):
        return None
    if first is not None and all(same_formula(first, bias) for bias in biases):
        return first
    parts = list(added_by_step(steps, stretches, keys))
    sizes = [max(part.shape[axis] for part in parts) for axis in (0, 1)]
    return GivenBias(torch.cat([part.expand(*sizes, -1, -1) for part in parts], dim=2))


def same_formula(one: Bias, other: Bias | None) -> bool:
    """Whether two biases follow from positions by the same numbers."""
    return type(one) is type(other) is not GivenBias and other is not None and torch.equal(one.source, other.source)


def added_by_step(
    steps: Sequence[Sight], stretches: Sequence[Stretch], keys: int
) -> Iterator[Float[Tensor, "#batch #heads rows keys"]]:
    for step, stretch in zip(steps, stretches, strict=True):
        problem = step.problem
        added = problem.Q.new_zeros((1, 1, 1, 1)) if problem.bias is None else problem.bias.added(problem.block())
        yield placed(added, problem.whole, stretch.first, keys)


def placed(part: Tensor, whole: tuple[int, int, int, int], first: int, keys: int) -> Tensor:
    """A step's rows over all keys: its own from `first` on, False or 0 beside them."""
    part = part.expand(*part.shape[:2], *whole[2:])
    return F.pad(part, (first, keys - first - whole[3]))
