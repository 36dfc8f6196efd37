"""What is learned: a task turns data into batches, batches into a loss, and judges a model on what was held out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor

from transom.models import Model


@dataclass(frozen=True, eq=False)
class Batch:
    """Tensors of one step, by name, and how many targets count in it."""

    tensors: dict[str, Tensor]
    counted: int


@dataclass(frozen=True)
class Measures:
    """What a model reached on held-out data; `better` compares by the one that matters, `how` says how it was found."""

    numbers: dict[str, float]
    main: str
    higher_is_better: bool
    how: str = ""

    def better(self, than: float | None) -> bool:
        value = self.numbers[self.main]
        return than is None or (value > than if self.higher_is_better else value < than)


@runtime_checkable
class Task(Protocol):
    """Every task of the table TASKS has these, and `model_kind`, the row of MODELS that it trains."""

    def new_model(self) -> Model:
        """The model the recipe describes, with its start parameters."""
        ...

    def batches(self, epoch: int) -> int:
        """How many batches an epoch has."""
        ...

    def batch(self, epoch: int, position: int, part: slice) -> Batch:
        """One batch, or the part of its rows that one process takes: a pure function of the seed and these."""
        ...

    def loss(self, model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
        """The sum of the losses of all targets, and their count."""
        ...

    def judged(self, model: Model, note: Callable[[str], None]) -> Measures:
        """The model on held-out data."""
        ...

    def save(self, model: Model, folder: Path) -> None:
        """The model as a folder that can be loaded and run."""
        ...


@dataclass
class Place:
    """Where a run stands in its data: three whole numbers that cannot go stale."""

    epoch: int = 0
    position: int = 0
    updates: int = 0

    def taken(self, task: Task) -> tuple[int, int]:
        """The epoch and position of the next batch, and one step on."""
        if self.position >= task.batches(self.epoch):
            self.epoch, self.position = self.epoch + 1, 0
        found = (self.epoch, self.position)
        self.position += 1
        return found


@dataclass
class Standing:
    """What a run knows of itself beside its parameters."""

    place: Place = field(default_factory=Place)
    best: float | None = None
    best_update: int = 0
    judged_without_gain: int = 0
