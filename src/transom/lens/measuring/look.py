"""A look: one band of an attention's weights with all that a measure of heads may ask about it."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.equations.blocks import Block
from transom.kernels.tiles import safe_context
from transom.lens.positions import NEVER
from transom.lens.sight import Sight


@dataclass(frozen=True, eq=False)
class Line:
    """The sequence that an attention looks along, beyond its weights.

    start     the place of the first query among the keys; None where it looks at another sequence
    tokens    a number per token, alike where the tokens are; None if they are not known
    real      False for padding
    """

    start: int | None
    tokens: Int[Tensor, "batch token"] | None
    real: Bool[Tensor, "batch keys"]
    real_rows: Bool[Tensor, "batch queries"]

    @cached_property
    def first(self) -> Int[Tensor, " batch"]:
        """The first real key of each sequence."""
        return self.real.int().argmax(dim=1)


@dataclass(frozen=True, eq=False)
class Look:
    """A band of rows with the keys they may look at."""

    sight: Sight
    line: Line
    band: Block
    logs: Float[Tensor, "batch heads rows columns"]

    @cached_property
    def weights(self) -> Float[Tensor, "batch heads rows columns"]:
        return self.logs.exp()

    @cached_property
    def seen(self) -> Bool[Tensor, "batch heads rows columns"]:
        """Where a row may look."""
        return self.logs > NEVER

    @cached_property
    def visible(self) -> Int[Tensor, "batch heads rows"]:
        """How many keys each row may look at."""
        return self.seen.sum(dim=-1)

    @cached_property
    def query_positions(self) -> Int[Tensor, "rows 1"]:
        assert self.line.start is not None
        return self.band.query_positions(self.line.start)

    @cached_property
    def key_positions(self) -> Int[Tensor, "1 columns"]:
        return self.band.key_positions()

    @cached_property
    def row_tokens(self) -> Int[Tensor, "batch rows 1"]:
        return self.tokens_at(self.query_positions[:, 0])[:, :, None]

    def key_tokens(self, later: int = 0) -> Int[Tensor, "batch 1 columns"]:
        """The tokens of the columns, or those `later` places behind each; −1 where there is none."""
        return self.tokens_at(self.key_positions[0] + later)[:, None, :]

    def tokens_at(self, places: Int[Tensor, " any"]) -> Int[Tensor, "batch any"]:
        assert self.line.tokens is not None
        tokens = self.line.tokens[self.band.batch]
        known = (places >= 0) & (places < tokens.shape[1])
        return tokens[:, places.clamp(0, tokens.shape[1] - 1)].masked_fill(~known, -1)

    @cached_property
    def earlier(self) -> Bool[Tensor, "batch rows columns"]:
        """Real keys that stand before the row."""
        return (self.key_positions < self.query_positions) & self.line.real[self.band.batch][:, None, self.band.columns]

    @cached_property
    def at_first(self) -> Bool[Tensor, "batch 1 1 columns"]:
        """The column of the first real key."""
        return (self.key_positions == self.line.first[self.band.batch][:, None])[:, None, None, :]

    def weight_at(self, places: Int[Tensor, "#batch #rows"]) -> Float[Tensor, "batch heads rows"]:
        """Each row's weight on the key at a place; 0 where the band does not reach it."""
        columns = self.key_positions[0]
        if not len(columns):
            return self.weights.sum(dim=-1)
        at = places - columns[0]
        inside = (at >= 0) & (at < len(columns))
        batch, heads, rows, _ = self.weights.shape
        index = at.clamp(0, len(columns) - 1)[:, None, :, None].expand(batch, heads, rows, 1)
        return self.weights.gather(-1, index)[..., 0] * inside[:, None]

    @cached_property
    def moved(self) -> Float[Tensor, "batch heads rows"]:
        """Σⱼ weight · ‖value of j‖."""
        norms = torch.linalg.vector_norm(self.sight.problem.values_of(self.band), dim=-1, keepdim=True)
        return safe_context(self.weights, norms)[..., 0]
