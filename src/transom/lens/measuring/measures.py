"""What can be measured of a head: one small function per measure, and the table HEADS that one can add to.

Each takes a look at a band of rows and gives a number per row, and which rows count; a head's measure is the mean over
all rows that do. Padded rows, and rows that may look nowhere, never count.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transom.lens.glance import Glance
from transom.lens.measuring.look import Look

# What an attention must have for a measure to mean anything, and what is said where it has not.
NEEDS = {
    "line": "it looks from one sequence at another, so that positions and tokens of the two do not compare",
    "tokens": "it compares tokens, and none are known; give tokens",
    "values": "its values were not seen",
}
STATISTICS = "it needs the weights, of which only statistics were kept; watch with keep='qkv'"


class Tally(NamedTuple):
    """A number per row, and which rows count; None for all of them."""

    values: Float[Tensor, "batch heads rows"]
    counted: Bool[Tensor, "#batch #heads rows"] | None = None


class Measure(NamedTuple):
    """What it means in one line, how a band tells it, what it needs, and how kept statistics tell it if they can."""

    meaning: str
    of_band: Callable[[Look], Tally]
    needs: tuple[str, ...] = ()
    of_statistics: Callable[[Glance], Tally] | None = None


def entropy(look: Look) -> Tally:
    """H = −Σ A log A, over the log of the number of keys the row may see; rows with one key have no choice."""
    return evenness(look.logs, look.visible)


def entropy_without_sink(look: Look) -> Tally:
    """The same without the first key, the rest of the weights made to sum to 1 again."""
    rest = look.logs.masked_fill(look.at_first, -torch.inf)
    rest = rest - rest.logsumexp(dim=-1, keepdim=True).clamp_min(-1e30)
    return evenness(rest, look.visible - (look.seen & look.at_first).sum(dim=-1))


def evenness(logs: Float[Tensor, "batch heads rows columns"], visible: Tensor) -> Tally:
    spread = -torch.linalg.vecdot(logs.exp(), logs.clamp_min(-1e30)).clamp_max(0.0)
    return Tally(spread / visible.clamp_min(2).to(spread.dtype).log(), visible >= 2)


def sink(look: Look) -> Tally:
    """The weight on the first key (Xiao et al. 2023, arXiv 2309.17453)."""
    return Tally(look.weight_at(look.line.first[look.band.batch][:, None]))


def previous(look: Look) -> Tally:
    """A at (i, i − 1), of the rows that have a token before them."""
    before = look.query_positions[:, 0] - 1
    real = look.line.real
    there = real[look.band.batch][:, before.clamp(0, real.shape[1] - 1)] & (before >= 0)
    return Tally(look.weight_at(before[None]), there[:, None])


def induction(look: Look) -> Tally:
    """The weight on tokens that came after an earlier copy of the row's own (Olsson et al. 2022, arXiv 2209.11895)."""
    return matched(look, look.key_tokens(later=-1) == look.row_tokens)


def duplicate(look: Look) -> Tally:
    """The weight on earlier copies of the row's own token."""
    return matched(look, look.key_tokens() == look.row_tokens)


def matched(look: Look, alike: Bool[Tensor, "batch rows columns"]) -> Tally:
    """The weight on the earlier keys marked, of the rows that may see one."""
    wanted = (alike & look.earlier)[:, None]
    return Tally((look.weights * wanted).sum(dim=-1), (look.seen & wanted).any(dim=-1))


def distance(look: Look) -> Tally:
    """Σ A |i − j|."""
    away = (look.key_positions - look.query_positions).abs().to(look.weights.dtype)
    return Tally(torch.linalg.vecdot(look.weights, away))


def confidence(look: Look) -> Tally:
    """The largest weight of the row (Voita et al. 2019, arXiv 1905.09418)."""
    return Tally(look.weights.amax(dim=-1))


def value_norm(look: Look) -> Tally:
    """Σ A ‖v‖: what the row moves, before W_O (after Kobayashi et al. 2020, arXiv 2004.10102)."""
    return Tally(look.moved)


HEADS: dict[str, Measure] = {
    "entropy": Measure("how evenly a row spreads over what it may see: 0 one key alone, 1 all alike", entropy),
    "entropy_without_sink": Measure("the same without the first key", entropy_without_sink, ("line",)),
    "sink": Measure("the share the first key gets", sink, ("line",)),
    "previous": Measure("the weight on the token before", previous, ("line",)),
    "induction": Measure("the weight on what came after an earlier copy", induction, ("line", "tokens")),
    "duplicate": Measure("the weight on earlier copies", duplicate, ("line", "tokens")),
    "distance": Measure(
        "how many tokens away a row looks", distance, ("line",), lambda kept: Tally(kept.statistics.distance)
    ),
    "confidence": Measure("the largest weight", confidence, (), lambda kept: Tally(kept.statistics.peak)),
    "value_norm": Measure("how long the values are that it moves, by weight", value_norm, ("values",)),
}
# What people read instead, where the bare name would be taken for something else: Sight.entropy is in nats.
SPOKEN = {"entropy": "entropy (of log n)", "entropy_without_sink": "entropy without sink (of log n)"}


def spoken(measure: str) -> str:
    """The name of a measure as people read it."""
    return SPOKEN.get(measure, measure.replace("_", " "))
