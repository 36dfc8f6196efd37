"""What is kept of one attention (Q, K, V, log-sum-exp), and the weights of any region computed from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations.masks import Mask
from transom.equations.region import Region
from transom.kernels import BLOCK_SCORES, Problem, row_blocks, safe_context, solve_tiled, weight_stats
from transom.lens.attention.indexing import AxisIndex, resolve_index
from transom.names import check_index


@dataclass(frozen=True, eq=False)
class JoinedOutput:
    """The output of a model that joins its heads through W_O in the same step; only `real` rows count."""

    W_O: Float[Tensor, "d_out any"]
    bias: Float[Tensor, " d_out"] | None
    output: Float[Tensor, "batch token d_out"]
    real: Bool[Tensor, "batch token"] | None = None


class AttentionRecord:
    """Q, K, V with their mask and numbers (the problem), the output, and one log-sum-exp L per row.

    An output per head or an L that the model did not give is computed when it is first needed.

    joined_output   what the model used instead of an output per head
    unproved        why the receipt cannot be checked; "" if it can
    weight_mask     False where a weight was set to 0 after the softmax
    """

    def __init__(
        self,
        problem: Problem,
        output: Tensor | None,
        lse: Float[Tensor, "batch heads queries"] | None,
        joined_output: JoinedOutput | None = None,
        unproved: str = "",
        weight_mask: Mask | None = None,
    ) -> None:
        self.problem = problem.detach()
        self.joined_output, self.unproved, self.weight_mask = joined_output, unproved, weight_mask
        if output is not None:
            self.output = output
        if lse is not None:
            self.lse = lse

    def uses_native(self, lse: Tensor | None = None) -> bool:
        """Whether the native engine computes statistics of the weights; `lse` may be that of some rows."""
        return self.weight_mask is None and weight_stats.native_supports(self.problem, self.lse if lse is None else lse)

    @cached_property
    def tiled_result(self) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp, computed here."""
        with torch.no_grad():
            return solve_tiled(self.problem)

    @cached_property
    def output(self) -> Tensor:
        return self.tiled_result[0] if self.weight_mask is None else self.output_from_weights()

    @cached_property
    def lse(self) -> Float[Tensor, "batch heads queries"]:
        return self.tiled_result[1]

    @cached_property
    def log_normaliser(self) -> tuple[Tensor, Tensor | None]:
        """What is subtracted from the scores of each row: L; or, if L is large, the row's maximum, then the rest of L.

        L is known only to L · ε, and a weight inherits that as a relative error. For such rows (one that is all −1e9,
        say) the maximum and the sum beside it are computed again from the scores.
        """
        level = self.lse.masked_fill(self.lse == -torch.inf, 0.0)
        coarse = level.abs() > 4e-6 / torch.finfo(level.dtype).eps
        if not coarse.any():
            return level, None
        remainder = torch.zeros_like(level)
        for block in row_blocks(self.problem):
            rows = (block.batch, block.heads, block.rows)
            if coarse[rows].any():
                scores = self.problem.scores(block)
                maximum = scores.amax(dim=-1)
                log_sum = (scores - maximum[..., None]).exp().sum(dim=-1).log()
                level[rows] = torch.where(coarse[rows], maximum, level[rows])
                remainder[rows] = torch.where(coarse[rows], log_sum, remainder[rows])
        return level, remainder

    def log_weights(self, block: Region) -> Float[Tensor, "batch heads rows columns"]:
        """The logarithms of a block's weights; −∞ where masked."""
        with torch.no_grad():
            logs = self.problem.scores(block)
            for part in self.log_normaliser:
                if part is not None:
                    logs -= block.crop(part[..., None])
            if self.weight_mask is not None:
                logs.masked_fill_(~self.weight_mask.materialize(block), -torch.inf)
            return logs

    def region_weights(self, block: Region) -> Float[Tensor, "batch heads rows columns"]:
        """A block's weights: exp(score − L)."""
        return self.log_weights(block).exp_()

    def output_from_weights(self) -> Float[Tensor, "batch heads queries d_value"]:
        """The output that the weights make."""
        problem = self.problem
        output = problem.Q.new_zeros((*problem.shape[:3], problem.V.shape[3]), dtype=problem.compute_dtype)
        for block in row_blocks(problem):
            weights, factors = self.region_weights(block), problem.dropout_factors(block)
            weights = weights if factors is None else weights * factors
            output[block.batch, block.heads, block.rows] = safe_context(weights, problem.values_in(block))
        return output.to(problem.Q.dtype)


def head_row_blocks(
    record: AttentionRecord, batch: int, heads: AxisIndex = None, all_keys: bool = False
) -> Iterator[Region]:
    """Rows of one sequence in blocks of about BLOCK_SCORES weights; only keys that they may see, unless `all_keys`."""
    problem = record.problem
    (batches, head_count, queries, keys), mask = problem.shape, None if all_keys else problem.mask
    entry = check_index(batch, "batch", batches)
    chosen = resolve_index(heads, "heads", head_count, problem.Q.device)
    region = problem.region().narrow(batch=slice(entry, entry + 1), heads=chosen)
    rows_at_once = max(1, BLOCK_SCORES // max(1, keys * region.shape[1]))
    for first in range(0, queries, rows_at_once):
        rows = (first, min(first + rows_at_once, queries))
        visible = (0, keys) if mask is None else mask.key_range(rows, problem.shape)
        if all_keys or visible[1] > visible[0]:
            yield region.narrow(rows=slice(*rows), columns=slice(*visible))


def mean_weights(
    record: AttentionRecord, batch: int, heads: AxisIndex
) -> Iterator[tuple[Region, Float[Tensor, "rows columns"]]]:
    """Each block of rows, and its weights averaged over the heads, in float64."""
    for block in head_row_blocks(record, batch, heads):
        yield block, record.region_weights(block)[0].double().mean(dim=0)
