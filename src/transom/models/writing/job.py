"""One call of `generate`, put in order, and what comes of it."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.models.writing.rules import Rules
from transom.models.writing.settings import GenerationConfig
from transom.models.writing.stopping import Stopping


@dataclass(frozen=True)
class Job:
    """What to write after which prompts, under which rules, and for how long."""

    prompt: Int[Tensor, "batch token"]  # padding, where there is any, stands in front
    real: Bool[Tensor, "batch token"] | None
    room: tuple[int, ...]  # new tokens that each prompt may get
    settings: GenerationConfig
    rules: Rules
    stopping: Stopping
    scored: bool

    @property
    def most(self) -> int:
        """New tokens of the row that may have the most."""
        return max(self.room, default=0)

    @property
    def least(self) -> int:
        """New tokens up to which no row is full."""
        return min(self.room, default=0)

    def skipped(self) -> Int[Tensor, " batch"]:
        """How much padding stands in front of each prompt."""
        if self.real is None:
            return torch.zeros(len(self.prompt), dtype=torch.int64, device=self.prompt.device)
        return (~self.real).sum(dim=1)


class Result(NamedTuple):
    """What was written after the prompts, padded behind the ends, how long each row is, and its score."""

    new: Int[Tensor, "batch token"]
    ends: list[int]
    scores: Float[Tensor, " batch"]
