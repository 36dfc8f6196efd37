"""Measures of whole sequences, from the attention that each key received."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from transom.equations.region import Region
from transom.lens.attention.sight import Sight
from transom.lens.metrics.head_measures import HEADS
from transom.lens.metrics.head_sums import LayerSums


class ReceivedSums:
    """What each key of an attention received, summed over its rows: those of one call, or of all steps with a cache."""

    def __init__(self, layer: LayerSums, name: str, measures: list[str]) -> None:
        self.layer, self.name, self.measures = layer, name, measures
        self.received = torch.zeros(0)
        self.rows = torch.zeros(0)
        self.batch = self.end = self.first_key = 0  # the sequences, and one past the last key, of the call before

    def begin(self, sight: Sight, start: int | None) -> None:
        """Take up another call; a step that goes on from the call before adds to its sums."""
        batch, heads, queries, keys = sight.shape
        end = sight.first_key + keys
        is_step = queries == 1 and end == self.end if start is None else sight.first_key + start == self.end
        if not (is_step and batch == self.batch and self.end):
            self.finish()
            self.received = torch.zeros((batch, heads, 0), dtype=torch.float64, device=sight.Q.device)
            self.rows = torch.zeros(heads, dtype=torch.long, device=sight.Q.device)
        self.received = F.pad(self.received, (0, max(0, end - self.received.shape[2])))
        self.batch, self.end, self.first_key = batch, end, sight.first_key

    def add(
        self,
        region: Region,
        weights: Float[Tensor, "batch heads rows columns"],
        real: Bool[Tensor, "batch heads rows"],
    ) -> None:
        """Add the rows of a block that are real."""
        sums = weights.double().masked_fill(~real[..., None], 0.0).sum(dim=-2)
        of_call = self.received[:, :, self.first_key : self.end]
        of_call[region.batch, region.heads, region.columns] += sums
        self.rows[region.heads] += real.sum(dim=(0, 2))

    def finish(self) -> None:
        """Write the sums of the measures into those of the layer."""
        if not self.received.numel():
            return
        for measure in self.measures:
            of_received = HEADS[measure].of_received
            assert of_received is not None
            self.layer.add(measure, of_received(self.received).sum(dim=0).tolist(), self.rows.tolist(), self.name)
