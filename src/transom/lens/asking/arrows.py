"""What one attention tells of its arrows without running the model again: weight, norm, contribution, local change."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transom.lens.asking.projections import Projection
from transom.lens.sight import Sight

WHOLE = 1e-5  # rows that sum to 1 but for rounding


@dataclass(frozen=True)
class Arrow:
    """One head's look from a query at a key, by numbers of that attention alone; None where its values are unknown."""

    weight: float
    norm: float | None  # ‖weight · value W_O‖: what it moved
    contribution: float | None  # weight · ⟨value, output⟩ / ‖output‖²: its share of what the head found, signed
    local_change: float | None  # ‖(output without it − output) W_O‖
    pull: float | None = None  # weight · ⟨value, gradient⟩: what it adds to the target, to first order


class Arrows:
    """The arrows of one attention, its first sequence; `projection` is its W_O, or None where that is not known."""

    def __init__(self, sight: Sight, projection: Projection | None) -> None:
        self.sight, self.projection = sight, projection
        self.project = None if projection is None else projection.project
        self.gradient: Float[Tensor, "queries any"] | None = None  # of the target, by all heads' output side by side
        self.blind = sight.V.shape[3] == 0

    def through(self, head: int, vectors: Float[Tensor, "any d_value"]) -> Float[Tensor, "any any2"]:
        """Vectors of a head as they leave the layer; as they are, where W_O is not known."""
        if self.project is None:
            return vectors.double()
        width = vectors.shape[1]
        wide = vectors.new_zeros((len(vectors), self.sight.problem.whole[1] * width))
        wide[:, head * width : (head + 1) * width] = vectors
        with torch.no_grad():
            return self.project(wide)

    def values(self, head: int) -> Float[Tensor, "keys d_value"]:
        return self.sight.V[0, head // self.sight.problem.group].double()

    def one(self, head: int, query: int, key: int, how: str) -> Arrow:
        row = self.sight.weights(batch=0, head=head, rows=query).double()
        weight = row[key]
        if self.blind:
            return Arrow(float(weight), None, None, None)
        if weight == 0.0:
            return Arrow(0.0, 0.0, 0.0, 0.0, None if self.gradient is None else 0.0)
        V, output = self.values(head), self.sight.output[0, head, query].detach().double()
        value = V[key]
        change = -weight * value if how == "after" else removed(row, key, V, output)
        length = output.square().sum()
        share = weight * (value @ output) / length if length > 0 else torch.zeros(())
        norms = self.through(head, torch.stack([weight * value, change])).norm(dim=-1)
        return Arrow(
            float(weight), float(norms[0]), float(share), float(norms[1]), self.pull(head, query, weight * value)
        )

    def pull(self, head: int, query: int, moved: Float[Tensor, " d_value"]) -> float | None:
        if self.gradient is None:
            return None
        width = len(moved)
        return float(self.gradient[query, head * width : (head + 1) * width] @ moved)

    def of_row(self, query: int) -> tuple[Float[Tensor, "heads keys"], Float[Tensor, "heads keys"] | None]:
        """All weights of a row, and all norms ‖weight · value W_O‖, head by head."""
        weights = self.sight.weights(batch=0, rows=query).double()
        if self.blind:
            return weights, None
        lengths = [self.through(head, self.values(head)).norm(dim=-1) for head in range(weights.shape[0])]
        return weights, weights * torch.stack(lengths)


def removed(
    row: Float[Tensor, " keys"], key: int, V: Float[Tensor, "keys d_value"], output: Float[Tensor, " d_value"]
) -> Float[Tensor, " d_value"]:
    """How the output changes when a key is masked and the others share its weight.

    In closed form w / (1 − w) · (output − value), after Geva et al. 2023; summed over the other keys here, as for a
    weight near 1 output and value are nearly the same. A row that has no other key gives nothing instead.
    """
    others = row.clone()
    others[key] = 0.0
    sink = 1.0 - row.sum()  # what a row gives to no key, where a model has that
    rest = others.sum() + (sink if abs(float(sink)) > WHOLE else 0.0)
    return -output if rest <= 0.0 else others @ V / rest - output
