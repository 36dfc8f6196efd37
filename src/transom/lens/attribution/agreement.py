"""How far estimates agree with true knock-outs, measured on edges drawn at random."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.influence import NEAR_ONE
from transom.files.html_table import DisplayedTable
from transom.lens.attribution.attention_influence import AttentionInfluence
from transom.lens.attribution.influence_table import EdgeInfluence, InfluenceTable

MOST_DRAWS = 50  # times the wanted number, before few edges are accepted
TOP_TRUE, TOP_ESTIMATED = 10, 20

SampledEdge = tuple[str, int, int, int]


@dataclass(frozen=True, repr=False)
class Agreement(DisplayedTable):
    """Estimates beside true changes; the correlations are None if either side has fewer than two different numbers."""

    rows: list[EdgeInfluence]
    near_one: int  # edges of the whole run with more than 0.9 of a row's weight: beyond the first order

    @property
    def pearson(self) -> float | None:
        return correlation(*self.columns())

    @property
    def small_steps(self) -> list[EdgeInfluence]:
        """The edges with at most 0.9 of their row's weight: without one of the others a row reads something else."""
        return [row for row in self.rows if row.weight <= NEAR_ONE]

    @property
    def pearson_of_small_steps(self) -> float | None:
        return correlation(*self.columns(self.small_steps))

    @property
    def rank(self) -> float | None:
        """Spearman's correlation of the sizes."""
        return correlation(*(ranks(column.abs()) for column in self.columns()))

    @property
    def worst(self) -> EdgeInfluence | None:
        """The edge whose estimate is furthest from its true change."""
        return max(self.rows, key=lambda row: abs(row.estimate - (row.change or 0.0)), default=None)

    @property
    def top_found(self) -> int:
        """Of the ten largest true changes, how many are among the twenty largest estimates."""
        by_change, by_estimate = (column.abs().argsort(descending=True).tolist() for column in reversed(self.columns()))
        return len(set(by_change[:TOP_TRUE]) & set(by_estimate[:TOP_ESTIMATED]))

    def columns(
        self, rows: Sequence[EdgeInfluence] | None = None
    ) -> tuple[Float[Tensor, " any"], Float[Tensor, " any"]]:
        """Estimates, and true changes, of all edges or of some."""
        rows = self.rows if rows is None else rows
        estimates = torch.tensor([row.estimate for row in rows], dtype=torch.float64)
        return estimates, torch.tensor([row.change for row in rows], dtype=torch.float64)

    def table_cells(self) -> tuple[list[str], list[list[str]]]:
        return InfluenceTable(self.rows, "").table_cells()

    def table_notes(self) -> list[str]:
        return [self.summary()]

    def to_dict(self) -> dict[str, Any]:
        worst = self.worst
        return {
            "samples": len(self.rows),
            "pearson": self.pearson,
            "rank": self.rank,
            "small_steps": len(self.small_steps),
            "pearson_of_small_steps": self.pearson_of_small_steps,
            "worst": None if worst is None else asdict(worst),
            "near_one": self.near_one,
            "rows": [asdict(row) for row in self.rows],
        }

    def summary(self) -> str:
        """One line to print beside every picture."""
        if not self.rows or self.worst is None:
            return "no edge reaches the number, so nothing could be compared with knock-outs"
        pearson, rank = ("–" if number is None else f"{number:.3f}" for number in (self.pearson, self.rank))
        worst, small = self.worst, self.pearson_of_small_steps
        some = small is not None and len(self.small_steps) < len(self.rows)
        without = (
            f" ({small:.3f} of the {len(self.small_steps)} with up to {NEAR_ONE} of a row's weight)" if some else ""
        )
        return (
            f"estimates beside {len(self.rows)} true knock-outs: Pearson {pearson}{without}, rank {rank}, at worst"
            f" {worst.estimate:+.4f} for {worst.change:+.4f}; {self.near_one} edges have over 0.9 of a row's weight"
        )

    __str__ = summary


def correlation(x: Float[Tensor, " any"], y: Float[Tensor, " any"]) -> float | None:
    """Pearson's correlation; None if one of them does not vary."""
    if len(x) < 2 or bool((x == x[0]).all()) or bool((y == y[0]).all()):
        return None
    return float(torch.corrcoef(torch.stack([x, y]))[0, 1])


def correlation_of(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's correlation of pairs of numbers; None if one side does not vary."""
    x, y = torch.tensor(pairs, dtype=torch.float64).reshape(-1, 2).T
    return correlation(x, y)


def ranks(x: Float[Tensor, " any"]) -> Float[Tensor, " any"]:
    """The rank of each number; equal numbers share their mean rank."""
    _, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts - 1) / 2)[inverse]


def draw_edges(attentions: dict[str, AttentionInfluence], samples: int, seed: int) -> Sequence[SampledEdge]:
    """Different edges that reach the number: a head and a row at random, then a key with the chance of its weight."""
    generator = torch.Generator().manual_seed(seed)
    rows = {name: reaching_rows(attention) for name, attention in attentions.items()}
    heads = [(name, head) for name, by_head in rows.items() for head, some in enumerate(by_head) if len(some)]
    edges: dict[SampledEdge, None] = {}
    for _ in range(samples * MOST_DRAWS if heads else 0):
        if len(edges) == samples:
            break
        name, head = heads[int(torch.randint(len(heads), (), generator=generator))]
        some = rows[name][head]
        row = int(some[int(torch.randint(len(some), (), generator=generator))])
        weights = attentions[name].sight.weights(batch=0, head=head, rows=row).double().cpu()
        if bool(weights.isfinite().all()) and bool((weights > 0.0).any()):
            edges[name, head, row, int(torch.multinomial(weights, 1, generator=generator))] = None
    return list(edges)


def reaching_rows(attention: AttentionInfluence) -> list[Tensor]:
    """For each head, the rows with a gradient."""
    return [head.nonzero()[:, 0] for head in (attention.gradient[0] != 0.0).any(dim=-1).cpu()]
