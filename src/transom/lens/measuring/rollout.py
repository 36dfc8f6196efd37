"""Rollout: through all layers, how much of each input token an output row may hold (Abnar & Zuidema 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transom.lens.asked import Asked, places
from transom.lens.measuring.chain import SOURCE, TARGET, Chain, Link, chained, heads_of
from transom.lens.measuring.row_bands import mean_weights
from transom.lens.trace import Trace
from transom.names import Misfit

Layers = Sequence[str | int] | str | int | None


@dataclass(frozen=True, eq=False)
class Rollout:
    """For each asked row its share of each token; a row sums to 1, over `keys` and `sources` together.

    rows      which rows of the last layer
    keys      the tokens of the sequence itself; in an encoder–decoder those the decoder reads
    sources   the tokens of the source, in an encoder–decoder
    layers    the attentions it went through, from the last to the first
    """

    rows: list[int]
    keys: Float[Tensor, "rows keys"]
    sources: Float[Tensor, "rows source"] | None
    layers: list[str]

    def __repr__(self) -> str:
        sources = "" if self.sources is None else f", sources={self.sources.shape[1]}"
        return f"Rollout(rows={len(self.rows)}, keys={self.keys.shape[1]}{sources}, layers={len(self.layers)})"


def rollout(
    trace: Trace,
    rows: Asked = None,
    layers: Layers = None,
    heads: Asked | dict[str, Asked] = None,
    batch: int = 0,
    residual: float = 0.5,
) -> Rollout:
    """The weights of all layers multiplied, each as residual · I + (1 − residual) · A (arXiv 2005.00928, section 3.2).

    rows       those asked for, of the last layer; all by default. Each costs one vector per layer, never a matrix
    layers     as in `watch`: only these attentions; all by default
    heads      whose mean is taken: all by default, the same ones in every layer, or a dict by name
    batch      which sequence
    residual   the share that stays with the token itself

    What a row gives to no key at all (it may look nowhere, or a sink without a key takes it) stays with itself too.
    """
    check_residual(residual)
    chain = chained(trace, layers)
    chosen = places(rows, "queries", chain.target, torch.device("cpu"))
    picked = torch.arange(chain.target)[chosen]
    shares = {
        TARGET: one_hot(picked, chain.target),
        SOURCE: torch.zeros((len(picked), chain.source), dtype=torch.float64),
    }
    for link in chain.links:
        step(shares, link, heads_of(heads, link.name), batch, residual)
    sources = shares[SOURCE] if chain.source else None
    return Rollout(picked.tolist(), shares[TARGET], sources, names(chain))


def names(chain: Chain) -> list[str]:
    return [link.name for link in chain.links]


def check_residual(residual: float) -> None:
    if not 0.0 <= residual <= 1.0:
        raise Misfit(f"residual is a share from 0 to 1, but got {residual}; 0.5 weighs both alike")


def one_hot(picked: Tensor, size: int) -> Float[Tensor, "rows keys"]:
    found = torch.zeros((len(picked), size), dtype=torch.float64)
    found[range(len(picked)), picked] = 1.0
    return found


def step(shares: dict[str, Tensor], link: Link, heads: Asked, batch: int, residual: float) -> None:
    """One layer down: what the rows held goes to the keys they looked at, but for the residual's part."""
    held = shares[link.rows_of]
    moved, left = through(held, link, heads, batch)
    shares[link.rows_of] = residual * held + (1.0 - residual) * left
    shares[link.keys_of] = shares[link.keys_of] + (1.0 - residual) * moved


def through(
    held: Float[Tensor, "rows queries"], link: Link, heads: Asked, batch: int
) -> tuple[Float[Tensor, "rows keys"], Float[Tensor, "rows queries"]]:
    """held @ A, a run of rows at a time, and what the rows gave to no key."""
    moved = held.new_zeros((len(held), link.sight.problem.whole[3]))
    left = held.clone()
    for band, weights in mean_weights(link.sight, batch, heads):
        part = held[:, band.rows]
        if part.any():  # rows that nothing comes from are not worked out further
            weights = weights.cpu()
            moved[:, band.columns] += part @ weights
            left[:, band.rows] = part * (1.0 - weights.sum(dim=1)).clamp_min(0.0)
    return moved, left
