"""A Glance: what is kept of an attention when only its statistics are: numbers per row and per key, no Q, K, V."""

import torch

from transom.kernels.problem import Problem
from transom.lens.receipt import Receipt
from transom.lens.sight import AXES, Sight
from transom.lens.statistics import Statistics
from transom.names import Misfit, spelled


class Glance(Sight):
    """A Sight of which only the log-sum-exp, the statistics and the receipt are left, worked out as it went by."""

    def __init__(self, sight: Sight, device: torch.device | None = None) -> None:
        self.whole = sight.problem.whole
        # Never a tensor of the model itself: a copy, wherever it is kept.
        self.lse = sight.lse.to(device, copy=True)
        found = sight.statistics
        self.statistics = Statistics(
            *(x.to(device) for x in (found.entropy, found.peak, found.distance, found.received))
        )
        self.proof = sight.receipt()

    @property
    def problem(self) -> Problem:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise Misfit(
            "this needs Q, K and V, but only statistics of the attention were kept; watch with keep='qkv' to have them"
        )

    def receipt(self) -> Receipt:
        """The receipt as it was when the attention went by."""
        return self.proof

    def __repr__(self) -> str:
        return f"Glance{spelled(self.whole, ' '.join(AXES))}"
