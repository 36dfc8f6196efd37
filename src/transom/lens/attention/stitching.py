"""The steps of a generation as one attention: all rows over all keys, as if the model had read the text at once."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations.biases import Bias, HeadBias, TensorBias
from transom.equations.edges import EdgeMask
from transom.equations.masks import Causal, Mask, TensorMask
from transom.lens.attention.kv_history import KVHistory, KVSlice
from transom.lens.attention.sight import AnySight, Sight
from transom.names import Misfit, check_index

JOINED = "its heads were joined by W_O in the same step; the receipt of each step proves them"
DROPPED = "its dropout follows from a seed for each step; the receipt of each step proves it"


def group_runs(steps: Sequence[AnySight]) -> list[list[AnySight]]:
    """The steps in groups that continue one another: one generated text, or one beam until beams change."""
    runs: list[list[AnySight]] = []
    for step in steps:
        if runs and history_of(runs[-1][-1]) is history_of(step) is not None:
            runs[-1].append(step)
        else:
            runs.append([step])
    return runs


def history_of(step: AnySight) -> KVHistory | None:
    return None if step.kv_slice is None else step.kv_slice.history


def select_run(name: str, steps: Sequence[AnySight], run: int | None) -> list[AnySight]:
    """The steps of one run; of the only one by default."""
    runs = group_runs(steps)
    if run is None and len(runs) > 1:
        raise Misfit(
            f"the {len(steps)} attentions of {name!r} do not continue one another: they are {len(runs)} runs"
            " (several texts, or beams that changed places); take stitched(run=-1) for the last, generate with"
            " num_beams=1, or watch the model read the finished text"
        )
    return runs[check_index(run or 0, "runs", len(runs))]


def stitch_steps(views: list[AnySight]) -> AnySight:
    """One Sight with the rows of all steps in order, over the keys of the longest."""
    if len(views) == 1:
        return views[0]
    steps = [view.require_full() for view in views]
    history = history_of(steps[0])
    assert history is not None  # steps of one run share it
    keys = history.visible_end if history.fixed else history.length
    problem = replace(
        steps[0].problem,
        Q=torch.cat([step.Q for step in steps], dim=2),
        K=history.K[:, :, :keys],
        V=history.V[:, :, :keys],
        mask=stitched_mask(steps, keys),
        bias=stitched_bias(steps, keys),
        dropout=0.0,
    )
    output, lse = (torch.cat(parts, dim=2) for parts in zip(*((step.output, step.lse) for step in steps), strict=True))
    sight = Sight(problem, output, lse, unproved=unproved_reason(steps), weight_mask=stitched_weight_mask(steps))
    sight.kv_slice = KVSlice(history, 0, keys)
    return sight


def first_rows(steps: Sequence[Sight]) -> list[int]:
    """The number of each step's first row among all rows."""
    return [0, *accumulate(step.shape[2] for step in steps[:-1])]


def stitched_weight_mask(steps: Sequence[Sight]) -> EdgeMask | None:
    """The weights that were set to 0 after the softmax, at their rows and keys among all."""
    boxes = []
    for row, step in zip(first_rows(steps), steps, strict=True):
        if isinstance(step.weight_mask, EdgeMask):
            _, _, queries, keys = step.shape
            rows, columns = range(row, row + queries), range(step.first_key, step.first_key + keys)
            boxes += step.weight_mask.shifted_boxes(rows, columns)
    return EdgeMask(tuple(boxes)) if boxes else None


def unproved_reason(steps: Sequence[Sight]) -> str:
    """Why the receipt of all steps together cannot be checked; "" if it can."""
    reasons = [step.unproved for step in steps if step.unproved]
    if any(step.joined_output is not None for step in steps):
        reasons.append(JOINED)
    if any(step.problem.dropout for step in steps):
        reasons.append(DROPPED)
    return reasons[0] if reasons else ""


def stitched_mask(steps: Sequence[Sight], keys: int) -> Mask | None:
    """The mask of all rows: none or causal if it is that, otherwise a tensor."""
    # Each part is made again when it is needed: together they have the size of all weights.
    if all(bool(allowed_rows(step, keys).all()) for step in steps):
        return None
    rows = first_rows(steps)
    if rows[-1] + steps[-1].shape[2] == keys and all(
        is_causal(allowed_rows(step, keys), row) for row, step in zip(rows, steps, strict=True)
    ):
        return Causal()
    return TensorMask(concatenate_rows([allowed_rows(step, keys) for step in steps]))


def allowed_rows(step: Sight, keys: int) -> Bool[Tensor, "#batch #heads rows keys"]:
    """Which of all keys the rows of a step may see."""
    allowed = step.problem.allowed_mask(step.problem.region())
    if allowed is None:
        allowed = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=step.Q.device)
    return pad_to_keys(allowed, step, keys)


def is_causal(allowed: Bool[Tensor, "#batch #heads rows keys"], row: int) -> bool:
    """Whether rows from number `row` on see their own position and all before it, and no more."""
    rows = torch.arange(row, row + allowed.shape[2], device=allowed.device)[:, None]
    expected = torch.arange(allowed.shape[3], device=allowed.device) <= rows
    return bool((allowed == expected).all())


def stitched_bias(steps: Sequence[Sight], keys: int) -> Bias | None:
    """The bias of all rows: the steps' own formula if they share one, otherwise a tensor."""
    biases = [step.problem.bias for step in steps]
    if all(bias is None for bias in biases):
        return None
    if biases[0] is not None and all(same_formula(biases[0], bias) for bias in biases):
        return biases[0]
    return TensorBias(concatenate_rows([bias_rows(step, keys) for step in steps]))


def same_formula(bias: Bias, other: Bias | None) -> bool:
    """Whether two biases follow from positions by the same numbers."""
    if not isinstance(bias, HeadBias) or not isinstance(other, HeadBias) or type(bias) is not type(other):
        return False
    return torch.equal(bias.source, other.source)


def bias_rows(step: Sight, keys: int) -> Float[Tensor, "#batch #heads rows keys"]:
    """What is added to the scores of a step's rows, over all keys."""
    problem = step.problem
    added = problem.Q.new_zeros((1, 1, 1, 1)) if problem.bias is None else problem.bias.materialize(problem.region())
    return pad_to_keys(added, step, keys)


def pad_to_keys(part: Tensor, step: Sight, keys: int) -> Tensor:
    """A step's rows over all keys: its own from `first_key` on, False or 0 beside them."""
    part = part.expand(*part.shape[:2], *step.shape[2:])
    return F.pad(part, (step.first_key, keys - step.first_key - step.shape[3]))


def concatenate_rows(parts: list[Tensor]) -> Tensor:
    """The rows of all parts, which may have one batch entry or head for all."""
    sizes = [max(part.shape[axis] for part in parts) for axis in (0, 1)]
    return torch.cat([part.expand(*sizes, -1, -1) for part in parts], dim=2)
