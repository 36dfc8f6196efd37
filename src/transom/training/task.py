"""The interface of a task: it turns data into batches, batches into a loss, and evaluates a model."""

from dataclasses import dataclass
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
from msgspec import Meta, Struct, field
from torch import Tensor

from transom.models import Model
from transom.text.tokenizer import Tokenizer
from transom.training.confusion import ConfusionMatrix

Count = Annotated[int, Meta(ge=0, lt=2**53)]


@dataclass(frozen=True, eq=False)
class Batch:
    """The tensors of a batch by name, and its number of targets."""

    tensors: dict[str, Tensor]
    targets: int


@dataclass(frozen=True)
class EvaluationResult:
    """The metrics of a model on held-out data; `main_metric` decides which model is better."""

    metrics: dict[str, float]
    main_metric: str
    higher_is_better: bool
    signature: str = ""  # of sacreBLEU: how the metrics were computed
    confusion: ConfusionMatrix | None = None  # of a classifier
    hits: np.ndarray | None = None  # of a classifier: which examples are right, in their order
    translations: tuple[str, ...] = ()  # of a translator
    targets: tuple[tuple[str, ...], ...] = ()  # of each translation: what it is compared with

    def is_better(self, best: float | None) -> bool:
        value = self.metrics[self.main_metric]
        return best is None or (value > best if self.higher_is_better else value < best)


@runtime_checkable
class Task(Protocol):
    """Every task in the table TASKS has these, and `model_kind`, the row of MODELS that it trains."""

    tokenizer: Tokenizer

    def new_model(self) -> Model:
        """The model of the recipe, with its initial parameters."""
        ...

    def batches(self, epoch: int) -> int:
        """How many batches an epoch has."""
        ...

    def batch(self, epoch: int, position: int, part: slice) -> Batch:
        """One batch, or the part of its rows for one process: a pure function of the seed and these arguments."""
        ...

    def loss(self, model: Model, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """The sum of the losses of all targets, and their number."""
        ...

    def evaluate(self, model: Model) -> EvaluationResult:
        """The metrics of a model on held-out data."""
        ...


class DataPosition(Struct, forbid_unknown_fields=True):
    """Where a run is in its data."""

    epoch: Count
    batch: Count = field(name="position")  # the next one; in quotes: the name in state.json
    updates: Count


class RunState(Struct, forbid_unknown_fields=True):
    """What a run knows of itself beside its parameters."""

    position: DataPosition = field(name="place")
    best: float | None
    best_update: Count
    evaluations_without_gain: Count = field(name="judged_without_gain")
