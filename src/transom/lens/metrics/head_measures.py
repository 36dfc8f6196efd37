"""The measures of a head: a number for each row, from its weights and the tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.equations.masks import NO_WEIGHT
from transom.equations.region import Region
from transom.kernels import safe_context
from transom.lens.attention.sight import AttentionView, Sight


@dataclass(frozen=True, eq=False)
class SequenceInfo:
    """What is known of the sequence that an attention looks along, beyond its weights.

    start       the position of the first query among the keys; None for attention to another sequence
    tokens      a number per token, equal where the tokens are; None if they are not known
    real        False for keys that are padding
    real_rows   False for queries that are padding
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
class MeasureInput:
    """A block of rows with the keys they may see."""

    sight: Sight
    sequence: SequenceInfo
    region: Region
    logs: Float[Tensor, "batch heads rows columns"]

    @cached_property
    def weights(self) -> Float[Tensor, "batch heads rows columns"]:
        return self.logs.exp()

    @cached_property
    def allowed(self) -> Bool[Tensor, "batch heads rows columns"]:
        """True where a row may see a key."""
        return self.logs > NO_WEIGHT

    @cached_property
    def visible(self) -> Int[Tensor, "batch heads rows"]:
        """How many keys each row may see."""
        return self.allowed.sum(dim=-1)

    @cached_property
    def query_positions(self) -> Int[Tensor, "rows 1"]:
        assert self.sequence.start is not None
        return self.region.query_positions(self.sequence.start)

    @cached_property
    def key_positions(self) -> Int[Tensor, "1 columns"]:
        return self.region.key_positions()

    @cached_property
    def row_tokens(self) -> Int[Tensor, "batch rows 1"]:
        return self.tokens_at(self.query_positions[:, 0])[:, :, None]

    def key_tokens(self, offset: int = 0) -> Int[Tensor, "batch 1 columns"]:
        """The tokens of the columns, or those `offset` positions after each; −1 where there is none."""
        return self.tokens_at(self.key_positions[0] + offset)[:, None, :]

    def tokens_at(self, positions: Int[Tensor, " any"]) -> Int[Tensor, "batch any"]:
        assert self.sequence.tokens is not None
        tokens = self.sequence.tokens[self.region.batch]
        inside = (positions >= 0) & (positions < tokens.shape[1])
        return tokens[:, positions.clamp(0, tokens.shape[1] - 1)].masked_fill(~inside, -1)

    @cached_property
    def earlier(self) -> Bool[Tensor, "batch rows columns"]:
        """Real keys before the row."""
        real = self.sequence.real[self.region.batch][:, None, self.region.columns]
        return (self.key_positions < self.query_positions) & real

    @cached_property
    def at_first(self) -> Bool[Tensor, "batch 1 1 columns"]:
        """The column of the first real key."""
        return (self.key_positions == self.sequence.first[self.region.batch][:, None])[:, None, None, :]

    def weight_at(self, positions: Int[Tensor, "#batch #rows"]) -> Float[Tensor, "batch heads rows"]:
        """Each row's weight on the key at a position; 0 where the block does not hold that key."""
        return self.take_at(self.weights, positions)

    def allowed_at(self, positions: Int[Tensor, "#batch #rows"]) -> Bool[Tensor, "batch heads rows"]:
        """Whether each row may see the key at a position."""
        return self.take_at(self.allowed, positions)

    def take_at(self, values: Tensor, positions: Int[Tensor, "#batch #rows"]) -> Tensor:
        """Each row's value at the key at a position; 0 or False where the block does not hold that key."""
        columns = self.key_positions[0]
        if not len(columns):
            return values.new_zeros(values.shape[:-1])
        column = positions - columns[0]
        inside = (column >= 0) & (column < len(columns))
        batch, heads, rows, _ = values.shape
        index = column.clamp(0, len(columns) - 1)[:, None, :, None].expand(batch, heads, rows, 1)
        return values.gather(-1, index)[..., 0] * inside[:, None]


# What a measure may need of an attention, and the reason that is given if the attention does not have it.
NEEDS = {
    "sequence": "it looks from one sequence at another, so that positions and tokens of the two do not compare",
    "tokens": "it compares tokens, and none are known; give tokens",
    "values": "its values were not seen",
}
NEEDS_WEIGHTS = "it needs the weights, of which only statistics were kept; watch with keep='qkv'"


class RowValues(NamedTuple):
    """A number per row, and which rows count; None for all of them."""

    values: Float[Tensor, "batch heads rows"]
    counted: Bool[Tensor, "#batch #heads rows"] | None = None


class Measure(NamedTuple):
    """What it means in one line, how to compute it from a row block or from statistics alone, and what it needs.

    A measure of whole sequences has `of_received` in place of `of_block`: from the attention that each key received to
    a number for each sequence and head, which is then divided by the number of rows.
    """

    meaning: str
    of_block: Callable[[MeasureInput], RowValues] | None
    needs: tuple[str, ...] = ()
    of_statistics: Callable[[AttentionView], RowValues] | None = None
    of_received: Callable[[Float[Tensor, "batch heads keys"]], Float[Tensor, "batch heads"]] | None = None


def entropy(block: MeasureInput) -> RowValues:
    """H = −Σ A log A, over the log of the number of keys the row may see; rows with one key have no choice."""
    return evenness(block.logs, block.visible)


def entropy_without_sink(block: MeasureInput) -> RowValues:
    """The same without the first key, the other weights renormalised."""
    logs = block.logs.masked_fill(block.at_first, -torch.inf)
    logs = logs - logs.logsumexp(dim=-1, keepdim=True).clamp_min(-1e30)
    return evenness(logs, block.visible - (block.allowed & block.at_first).sum(dim=-1))


def evenness(logs: Float[Tensor, "batch heads rows columns"], visible: Tensor) -> RowValues:
    """Entropy as a share of the largest that so many visible keys allow."""
    spread = -torch.linalg.vecdot(logs.exp(), logs.clamp_min(-1e30)).clamp_max(0.0)
    return RowValues(spread / visible.clamp_min(2).to(spread.dtype).log(), visible >= 2)


def sink(block: MeasureInput) -> RowValues:
    """The weight on the first key (Xiao et al. 2023, arXiv 2309.17453)."""
    return RowValues(block.weight_at(block.sequence.first[block.region.batch][:, None]))


def largest_sink(received: Float[Tensor, "batch heads keys"]) -> Float[Tensor, "batch heads"]:
    """max over keys j of Σᵢ A at (i, j): a sink may stand anywhere (Gu et al. 2024, arXiv 2410.10781)."""
    return received.amax(dim=-1)


def own_token(block: MeasureInput) -> RowValues:
    """A at (i, i)."""
    positions = block.query_positions[:, 0][None]
    return RowValues(block.weight_at(positions), block.allowed_at(positions))


def next_token(block: MeasureInput) -> RowValues:
    """A at (i, i + 1), of the rows that may see it."""
    positions = block.query_positions[:, 0][None] + 1
    return RowValues(block.weight_at(positions), block.allowed_at(positions))


def previous(block: MeasureInput) -> RowValues:
    """A at (i, i − 1), of the rows that have a token before them."""
    before = block.query_positions[:, 0] - 1
    real = block.sequence.real[block.region.batch]
    has_previous = real[:, before.clamp(0, real.shape[1] - 1)] & (before >= 0)
    return RowValues(block.weight_at(before[None]), has_previous[:, None])


def induction(block: MeasureInput) -> RowValues:
    """The weight on tokens that came after an earlier copy of the row's own (Olsson et al. 2022, arXiv 2209.11895)."""
    return weight_on(block, block.key_tokens(offset=-1) == block.row_tokens)


def duplicate(block: MeasureInput) -> RowValues:
    """The weight on earlier copies of the row's own token."""
    return weight_on(block, block.key_tokens() == block.row_tokens)


def weight_on(block: MeasureInput, matches: Bool[Tensor, "batch rows columns"]) -> RowValues:
    """The weight on matching earlier keys, of the rows that may see one."""
    wanted = (matches & block.earlier)[:, None]
    return RowValues((block.weights * wanted).sum(dim=-1), (block.allowed & wanted).any(dim=-1))


def retrieval(block: MeasureInput) -> RowValues:
    """1 where the largest weight is on a copy of the token that comes next (after Wu et al. 2024, arXiv 2404.15574).

    Of the rows whose next token is known, which may see a copy of it, and not that token itself.
    """
    after = block.query_positions[:, 0] + 1
    real = block.sequence.real[block.region.batch]
    known = real[:, after.clamp(0, real.shape[1] - 1)] | (after >= real.shape[1])
    copies = block.key_tokens() == block.tokens_at(after)[:, :, None]
    copies = copies & (block.key_positions < after[:, None]) & real[:, None, block.region.columns]
    wanted = copies[:, None] & block.allowed
    hits = wanted.gather(-1, block.weights.argmax(dim=-1, keepdim=True))[..., 0]
    counted = wanted.any(dim=-1) & known[:, None] & ~block.allowed_at(after[None])
    return RowValues(hits.to(block.weights.dtype), counted)


def distance(block: MeasureInput) -> RowValues:
    """Σ A |i − j|."""
    away = (block.key_positions - block.query_positions).abs().to(block.weights.dtype)
    return RowValues(torch.linalg.vecdot(block.weights, away))


def confidence(block: MeasureInput) -> RowValues:
    """The largest weight of the row (Voita et al. 2019, arXiv 1905.09418)."""
    return RowValues(block.weights.amax(dim=-1))


def value_norm(block: MeasureInput) -> RowValues:
    """Σ A ‖v‖: what the row moves, before W_O (after Kobayashi et al. 2020, arXiv 2004.10102)."""
    norms = torch.linalg.vector_norm(block.sight.problem.values_in(block.region), dim=-1, keepdim=True)
    return RowValues(safe_context(block.weights, norms)[..., 0])


HEADS: dict[str, Measure] = {
    "entropy": Measure("how evenly a row spreads over what it may see: 0 one key alone, 1 all alike", entropy),
    "entropy_without_sink": Measure("the same without the first key", entropy_without_sink, ("sequence",)),
    "sink": Measure("the share the first key gets", sink, ("sequence",)),
    "largest_sink": Measure(
        "the share of all attention that one key gets, the one with the most", None, of_received=largest_sink
    ),
    "own": Measure("the weight on the row's own token", own_token, ("sequence",)),
    "previous": Measure("the weight on the token before", previous, ("sequence",)),
    "next": Measure("the weight on the token after", next_token, ("sequence",)),
    "induction": Measure("the weight on what came after an earlier copy", induction, ("sequence", "tokens")),
    "duplicate": Measure("the weight on earlier copies", duplicate, ("sequence", "tokens")),
    "retrieval": Measure(
        "how often the largest weight is on a copy of the token that comes next", retrieval, ("sequence", "tokens")
    ),
    "distance": Measure(
        "how many tokens away a row looks", distance, ("sequence",), lambda view: RowValues(view.statistics.distance)
    ),
    "confidence": Measure("the largest weight", confidence, (), lambda view: RowValues(view.statistics.peak)),
    "value_norm": Measure("how long the values are that it moves, by weight", value_norm, ("values",)),
}
# The names that people read, where the bare one could be misunderstood: Sight.entropy is in nats.
DISPLAY_NAMES = {"entropy": "entropy (of log n)", "entropy_without_sink": "entropy without sink (of log n)"}


def display_name(measure: str) -> str:
    """The name of a measure as people read it."""
    return DISPLAY_NAMES.get(measure, measure.replace("_", " "))
