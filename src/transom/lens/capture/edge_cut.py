"""Cuts edges out of a running attention: before the softmax (the rest is renormalised) or after it (it is not).

If a kernel computed the attention, only the rows that lose an edge are recomputed, from Q, K and V. If the model calls
a softmax itself, the edges are cut out there.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from transom.equations import attention
from transom.equations.heads import project_heads
from transom.equations.masks import masked_threshold
from transom.equations.region import Region, index_to_tensor
from transom.kernels import BLOCK_SCORES, Problem, safe_context
from transom.lens.capture.call_state import CAPTURE, EagerCall, RepeatedCall, outside_model, own_work
from transom.lens.capture.captured_attention import CapturedAttention, EdgeCut, Rows
from transom.lens.capture.eager_attention import looks_like_attention, problem_from_scores, weights_to_four_axes
from transom.lens.capture.weight_products import WeightsMatch
from transom.names import Misfit


def cut_captured(captured: CapturedAttention) -> tuple[CapturedAttention, EdgeCut | None]:
    """An attention that a kernel computed, without the edges to cut, and those edges."""
    cut = CAPTURE.edges_to_cut(captured.problem)
    return (captured, None) if cut is None else (apply_cut(captured, cut), cut)


def cut_sdpa(output: Tensor, captured: CapturedAttention, run: Callable[[], Tensor], rng_state: Tensor) -> Tensor:
    """The output of PyTorch's function without the edges to cut; its dropout was drawn from `rng_state`."""
    cut = CAPTURE.edges_to_cut(captured.problem)
    if cut is not None:
        captured = rerun_cut(captured, cut, run, rng_state) if captured.unproved else apply_cut(captured, cut)
        assert captured.output is not None
        output = captured.output.reshape(output.shape)
    output = CAPTURE.patch(output, lambda: captured)
    output = CAPTURE.track(output, lambda gradient: gradient)
    CAPTURE.publish(lambda: captured)
    return output


def rerun_cut(
    captured: CapturedAttention, cut: EdgeCut, run: Callable[[], Tensor], rng_state: Tensor
) -> CapturedAttention:
    """An attention with dropout, run again with the same random numbers, to cut the edges out of its softmax."""
    problem = captured.problem
    torch.set_rng_state(rng_state)
    with CAPTURE.enter(RepeatedCall(problem.shape, cut)) as call:
        output = run()
    if call.cut is None:
        raise Misfit(
            f"edges were to be knocked out of attention with dropout in {innermost_module()}, but its softmax was not"
            " seen; call model.eval()"
        )
    output = output.reshape((*problem.shape[:3], problem.V.shape[3]))
    return replace(captured, output=output).with_cut(call.cut)


def cut_native(
    outputs: tuple[Tensor, Tensor | None], read: Callable[[], CapturedAttention]
) -> tuple[Tensor, Tensor | None]:
    """Output (nested if it was) and weights of the fast path of `nn.MultiheadAttention` without the edges to cut."""
    with outside_model():
        captured = read()
    captured, cut = cut_captured(captured)
    CAPTURE.publish(lambda: captured)
    if cut is None or captured.joined_output is None:
        return outputs
    output, weights = captured.joined_output.output, outputs[1]
    if outputs[0].is_nested:
        lengths = [len(row) for row in outputs[0].unbind()]
        output = torch.nested.nested_tensor([row[:n] for row, n in zip(output, lengths, strict=True)])
    if weights is not None and weights.numel():
        weights = update_weights(weights, captured, cut)
    return output, weights


def update_weights(weights: Tensor, captured: CapturedAttention, cut: EdgeCut) -> Tensor:
    """Weights that a kernel returned, of all heads or their mean, with the rows that lost an edge recomputed."""
    new_weights = replace(captured, output=None, lse=None).to_sight().weights().to(weights.dtype)
    changed = cut.changed_rows(captured.problem.region())
    if weights.dim() == 3:
        new_weights, changed = new_weights.mean(dim=1), changed.any(dim=1)
    return torch.where(changed[..., None], new_weights, weights)


def find_softmax_cut(x: Tensor) -> tuple[Tensor, EdgeCut, Region] | None:
    """Scores x as (batch, heads, queries, columns), the edges to cut, and the region of all keys among the columns."""
    attention, module_call = CAPTURE.attention, CAPTURE.module_call
    if isinstance(attention, RepeatedCall):
        return x.reshape(attention.shape), attention.to_cut, Region(attention.shape, device=x.device)
    if isinstance(attention, EagerCall):
        scores, keys = x, attention.keys
    elif attention is None and module_call is not None and looks_like_attention(module_call.module):
        scores, keys = weights_to_four_axes(x, module_call.module), x.shape[-1]
    else:
        return None
    if scores is None or scores.dim() != 4:
        return None
    problem = problem_from_scores(scores.detach()[..., :keys])
    cut = CAPTURE.edges_to_cut(problem)
    return None if cut is None else (scores, cut, problem.region())


def run_cut_softmax(x: Tensor, run: Callable[[Tensor], Tensor], differentiable: bool) -> Tensor:
    """The softmax of x without the edges to cut."""
    found = find_softmax_cut(x) if CAPTURE.cutters else None
    if found is None:
        CAPTURE.record_cut(None)
        return run(x)
    scores, cut, region = found
    # Autograd derives the gradient from the weights that come out: right for edges cut before, wrong for those after.
    if cut.after and not differentiable and x.requires_grad and torch.is_grad_enabled():
        raise Misfit(
            f"gradients through the dropout of {innermost_module()} cannot follow an edge knocked out after the"
            ' softmax; call model.eval(), or use how="before"'
        )
    run_four_axes = lambda scores: run(scores.reshape(x.shape)).reshape(scores.shape)  # noqa: E731
    with own_work():
        weights, emptied = cut_softmax(scores, run_four_axes, cut, region)
    CAPTURE.record_cut(replace(cut, emptied=emptied))
    return weights.reshape(x.shape)


def cut_weights(left: Tensor, match: WeightsMatch, right: Tensor) -> Tensor:
    """The weights (batch · heads, queries, keys) of a product without the edges to cut; a row may become 0."""
    with outside_model():
        logs, V = left.detach().log(), right.detach()
        problem = problem_from_scores(logs.unflatten(0, match.sizes), V.unflatten(0, match.sizes))
    cut = CAPTURE.edges_to_cut(problem, match.modules)
    if cut is None:
        return left
    before, after = cut.removed_masks(problem.region())
    weights = left.unflatten(0, match.sizes)
    if before is not None:
        kept = weights.masked_fill(before, 0.0)
        total = kept.sum(dim=-1, keepdim=True)
        shared = kept / total.masked_fill(total == 0, 1.0)
        weights = torch.where(before.any(dim=-1, keepdim=True), shared, weights)
    if after is not None:
        weights = weights.masked_fill(after, 0.0)
    return weights.reshape(left.shape)


def innermost_module() -> str:
    """The class of the innermost module, for an error."""
    call = CAPTURE.module_call
    return "no module" if call is None else type(call.module).__name__


def apply_cut(captured: CapturedAttention, cut: EdgeCut) -> CapturedAttention:
    """The same attention without the edges; rows that lose no edge stay bit-identical.

    If W_O has joined the heads, all heads of a row that loses an edge are recomputed.
    """
    problem, joined = captured.problem, captured.joined_output
    used = captured.output if joined is None else joined.output
    assert used is not None
    output = used.clone()
    emptied = torch.zeros(problem.shape[:3], dtype=torch.bool, device=problem.Q.device)
    with own_work():
        for region, part in changed_regions(problem, cut):
            if joined is not None:
                region = region.narrow(heads=slice(0, problem.shape[1]))
            rows, empty = recompute_cut_rows(problem, part, region)
            index, changed = row_index(region), part.changed_rows(region)
            emptied[index] = empty
            if joined is not None:
                rows = project_heads(rows, joined.W_O.mT.to(rows.dtype))
                rows = rows if joined.bias is None else rows + joined.bias.to(rows.dtype)
                index, changed = (index[0][:, 0], index[2]), changed.any(dim=1)
            output[index] = torch.where(changed[..., None], rows.to(output.dtype), output[index])
    if joined is None:
        captured = replace(captured, output=output)
    else:
        captured = replace(captured, joined_output=replace(joined, output=output))
    return captured.with_cut(replace(cut, emptied=emptied))


def changed_regions(problem: Problem, cut: EdgeCut) -> Iterator[tuple[Region, EdgeCut]]:
    """The rows that lose an edge, in regions of bounded size, each with the edges that concern it."""
    batch, heads, queries, keys = problem.shape
    in_all_entries = any(box.batch is None for box in cut.boxes)
    entries = {entry for box in cut.boxes for entry in box.batch or ()}
    for entry in [None] if in_all_entries else sorted(entries):
        part = cut if entry is None else cut.for_batch_entry(entry)
        in_batch = slice(0, batch) if entry is None else slice(entry, entry + 1)
        in_heads = union_indices([box.heads for box in part.boxes], heads, problem.Q.device)
        rows = union_indices([box.queries for box in part.boxes], queries, problem.Q.device)
        numbers_per_row = (batch if entry is None else 1) * len(in_heads) * keys
        for block in rows.split(max(1, 8 * BLOCK_SCORES // max(1, numbers_per_row))):
            yield problem.region().narrow(batch=in_batch, heads=in_heads, rows=block), part


def union_indices(indices: list[tuple[int, ...] | None], size: int, device: torch.device) -> Tensor:
    """All indices in any of the tuples, sorted; None stands for all of the axis."""
    if any(some is None for some in indices):
        return torch.arange(size, device=device)
    return torch.tensor(sorted({index for some in indices for index in some or ()}), device=device)


def row_index(region: Region) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of a region, as an index into (batch, heads, queries)."""
    axes = zip((region.batch, region.heads, region.rows), region.full_shape[:3], strict=True)
    b, h, q = (index_to_tensor(index, size, region.device) for index, size in axes)
    return b[:, None, None], h[:, None], q


def recompute_cut_rows(problem: Problem, cut: EdgeCut, region: Region) -> tuple[Tensor, Rows]:
    """The output of the rows of a region without the edges, and which of the rows lost their last key."""
    weights, emptied = cut_softmax(problem.scores(region), attention.softmax, cut, region)
    factors = problem.dropout_factors(region)
    return safe_context(weights if factors is None else weights * factors, problem.values_in(region)), emptied


def cut_softmax(
    scores: Float[Tensor, "batch heads queries any"], softmax: Callable[[Tensor], Tensor], cut: EdgeCut, region: Region
) -> tuple[Tensor, Rows]:
    """The weights of a region without the edges, and which rows lost their last key; scores may have sinks behind."""
    keys = region.shape[3]
    before, after = (
        None if removed is None else F.pad(removed.expand(region.shape), (0, scores.shape[3] - keys))
        for removed in cut.removed_masks(region)
    )
    cut_scores = scores if before is None else scores.masked_fill(before, -torch.inf)
    threshold = masked_threshold(scores.dtype)
    emptied = (scores[..., :keys] > threshold).any(dim=-1) & ~(cut_scores > threshold).any(dim=-1)
    if emptied.any():  # a softmax of −∞ alone is NaN, and one of equal large negative numbers attends to all keys
        cut_scores = cut_scores.masked_fill(emptied[..., None], 0.0)
        after = emptied[..., None] if after is None else after | emptied[..., None]
    weights = softmax(cut_scores)
    return (weights if after is None else weights.masked_fill(after, 0.0)), emptied
