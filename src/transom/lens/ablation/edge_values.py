"""What one attention tells of its edges without another run: weight, norm, contribution, local change."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transom.lens.attention.sight import Sight
from transom.lens.capture.output_projection import OutputProjection

NO_SINK = 1e-5  # rows that sum to 1 but for rounding give no weight to a sink


class EdgeValues(NamedTuple):
    """One edge by the numbers of its attention alone; None if the values, or for `pull` the gradient, are unknown."""

    weight: float
    norm: float | None = None  # ‖weight · value W_O‖: what it moved
    contribution: float | None = None  # weight · ⟨value, output⟩ / ‖output‖²: its signed share of the head's output
    pull: float | None = None  # weight · ⟨value, gradient⟩: what it adds to the target, to first order
    local_change: float | None = None  # ‖(output without it − output) W_O‖


class LayerEdges:
    """The edges of one attention, of its first sequence; `projection` is its W_O, or None if that is unknown."""

    def __init__(self, sight: Sight, projection: OutputProjection | None) -> None:
        self.sight, self.projection = sight, projection
        self.gradient: Float[Tensor, "queries any"] | None = None  # of the target, by the joined output of all heads
        self.has_values = sight.V.shape[3] > 0

    def through_projection(self, head: int, vectors: Float[Tensor, "any d_value"]) -> Float[Tensor, "any any2"]:
        """Vectors of a head after W_O; unchanged if W_O is unknown."""
        if self.projection is None:
            return vectors.double()
        width = vectors.shape[1]
        joined = vectors.new_zeros((len(vectors), self.sight.problem.shape[1] * width))
        joined[:, head * width : (head + 1) * width] = vectors
        with torch.no_grad():
            return self.projection.project(joined)

    def values(self, head: int) -> Float[Tensor, "keys d_value"]:
        return self.sight.V[0, head // self.sight.problem.group].double()

    def edge_values(self, head: int, query: int, key: int, how: str) -> EdgeValues:
        row = self.sight.weights(batch=0, head=head, rows=query).double()
        weight = row[key]
        if not self.has_values:
            return EdgeValues(float(weight))
        if weight == 0.0:
            return EdgeValues(0.0, 0.0, 0.0, None if self.gradient is None else 0.0, 0.0)
        V, output = self.values(head), self.sight.output[0, head, query].detach().double()
        value = V[key]
        change = -weight * value if how == "after" else removal_change(row, key, V, output)
        length = output.square().sum()
        share = weight * (value @ output) / length if length > 0 else torch.zeros(())
        norms = self.through_projection(head, torch.stack([weight * value, change])).norm(dim=-1)
        pull, width = None, len(value)
        if self.gradient is not None:
            pull = float(self.gradient[query, head * width : (head + 1) * width] @ (weight * value))
        return EdgeValues(float(weight), float(norms[0]), float(share), pull, float(norms[1]))

    def row_values(self, query: int) -> tuple[Float[Tensor, "heads keys"], Float[Tensor, "heads keys"] | None]:
        """All weights of a row, and all norms ‖weight · value W_O‖, head by head."""
        weights = self.sight.weights(batch=0, rows=query).double()
        if not self.has_values:
            return weights, None
        lengths = [self.through_projection(head, self.values(head)).norm(dim=-1) for head in range(weights.shape[0])]
        return weights, weights * torch.stack(lengths)


def removal_change(
    row: Float[Tensor, " keys"], key: int, V: Float[Tensor, "keys d_value"], output: Float[Tensor, " d_value"]
) -> Float[Tensor, " d_value"]:
    """How the output changes when a key is masked and the others share its weight.

    In closed form w / (1 − w) · (output − value), after Geva et al. 2023. Here the other keys are summed, because for a
    weight near 1 output and value are nearly the same. A row without another key gives zeros.
    """
    others = row.clone()
    others[key] = 0.0
    sink = 1.0 - row.sum()  # what the row gives to no key, if the model has sinks
    rest = others.sum() + (sink if abs(float(sink)) > NO_SINK else 0.0)
    return -output if rest <= 0.0 else others @ V / rest - output
