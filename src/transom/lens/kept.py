"""What is kept of one attention, and how any block of its weights follows from it."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations.blocks import Block
from transom.equations.masks import Mask
from transom.kernels import tiles
from transom.kernels.problem import Problem
from transom.kernels.tiles import bands, safe_context
from transom.lens.hearing.strands import Stretch


@dataclass(frozen=True, eq=False)
class Joined:
    """What a model used where it joins its heads in one step: their outputs through W_O, of the `real` rows alone."""

    W_O: Float[Tensor, "d_out any"]
    bias: Float[Tensor, " d_out"] | None
    output: Float[Tensor, "batch token d_out"]
    real: Bool[Tensor, "batch token"] | None = None


class Kept:
    """Q, K, V with their mask and numbers (the problem), the output, and one log-sum-exp L per row.

    Where the model gave no output per head, or no L, they are worked out when they are first asked for. `joined` is
    what the model used in the place of an output per head; `unproved` says why its output cannot be made again, where
    it cannot. `zeroed` is False where a weight was set to 0 after the softmax. `stretch` is where its keys lie among
    those of other steps, where it is one of several.
    """

    stretch: Stretch | None = None

    def __init__(
        self,
        problem: Problem,
        output: Tensor | None,
        lse: Float[Tensor, "batch heads queries"] | None,
        joined: Joined | None = None,
        unproved: str = "",
        zeroed: Mask | None = None,
    ) -> None:
        self.problem = problem.detached()
        self.joined = joined
        self.unproved = unproved
        self.zeroed = zeroed
        if output is not None:
            self.output = output
        if lse is not None:
            self.lse = lse

    @cached_property
    def solved(self) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp, worked out beside the model."""
        with torch.no_grad():
            return tiles.solve(self.problem)

    @cached_property
    def output(self) -> Tensor:
        return self.solved[0] if self.zeroed is None else self.made()

    @cached_property
    def lse(self) -> Float[Tensor, "batch heads queries"]:
        return self.solved[1]

    @cached_property
    def normaliser(self) -> tuple[Tensor, Tensor | None]:
        """What is taken off the scores of each row: L; or, where L is large, the row's maximum and then the rest of L.

        L is known only to L · ε, and a weight inherits that as a relative error; for such rows (one wholly at −1e9,
        say) the maximum and the sum beside it are found again, from the scores.
        """
        base = self.lse.masked_fill(self.lse == -torch.inf, 0.0)
        rough = base.abs() > 4e-6 / torch.finfo(base.dtype).eps
        if not rough.any():
            return base, None
        rest = torch.zeros_like(base)
        for band in bands(self.problem):
            place = (band.batch, band.heads, band.rows)
            if rough[place].any():
                scores = self.problem.scores(band)
                highest = scores.amax(dim=-1)
                beside = (scores - highest[..., None]).exp().sum(dim=-1).log()
                base[place] = torch.where(rough[place], highest, base[place])
                rest[place] = torch.where(rough[place], beside, rest[place])
        return base, rest

    def log_weights(self, block: Block) -> Float[Tensor, "batch heads rows columns"]:
        """The logarithm of a block's weights; −∞ where a row may not look."""
        with torch.no_grad():
            logs = self.problem.scores(block)
            for taken in self.normaliser:
                if taken is not None:
                    logs -= block.part(taken[..., None])
            return logs if self.zeroed is None else logs.masked_fill_(~self.zeroed.seen(block), -torch.inf)

    def block_weights(self, block: Block) -> Float[Tensor, "batch heads rows columns"]:
        """A block's weights: exp(score − L)."""
        return self.log_weights(block).exp_()

    def made(self) -> Float[Tensor, "batch heads queries d_value"]:
        """The output that the weights make."""
        problem = self.problem
        output = torch.zeros((*problem.whole[:3], problem.V.shape[3]), dtype=problem.accurate, device=problem.Q.device)
        for band in bands(problem):
            weights, scaled = self.block_weights(band), problem.dropout_factors(band)
            weights = weights if scaled is None else weights * scaled
            output[band.batch, band.heads, band.rows] = safe_context(weights, problem.values_of(band))
        return output.to(problem.Q.dtype)
