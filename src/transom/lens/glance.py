"""A Glance: what is kept of an attention when only its statistics are: numbers per row and per key, no Q, K, V."""

import torch
from torch import Tensor

from transom.kernels.problem import Problem
from transom.lens.receipt import Receipt, rows_tried
from transom.lens.sight import AXES, Sight
from transom.lens.statistics import Statistics
from transom.names import Misfit, spelled


class Glance(Sight):
    """A Sight of which only the log-sum-exp, the statistics and the receipt are left, worked out as it went by."""

    def __init__(self, sight: Sight, device: torch.device | None = None) -> None:
        found = sight.statistics
        parts = (found.entropy, found.peak, found.distance, found.received)
        # Never a tensor of the model itself: a copy, wherever it is kept.
        self.hold(
            sight.problem.whole,
            sight.lse.to(device, copy=True),
            Statistics(*(x.to(device) for x in parts)),
            sight.receipt(rows_tried(sight.problem.whole)),
        )

    @classmethod
    def of(cls, whole: tuple[int, int, int, int], lse: Tensor, statistics: Statistics, proof: Receipt) -> "Glance":
        """One of numbers that are known."""
        self = cls.__new__(cls)
        self.hold(whole, lse, statistics, proof)
        return self

    def hold(self, whole: tuple[int, int, int, int], lse: Tensor, statistics: Statistics, proof: Receipt) -> None:
        self.whole, self.lse, self.statistics, self.proof = whole, lse, statistics, proof

    @property
    def problem(self) -> Problem:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise Misfit(
            "this needs Q, K and V, but only statistics of the attention were kept; watch with keep='qkv' to have them"
        )

    def receipt(self, rows: int | None = None) -> Receipt:
        """The receipt as it was when the attention went by."""
        return self.proof

    def __repr__(self) -> str:
        return f"Glance{spelled(self.whole, ' '.join(AXES))}"
