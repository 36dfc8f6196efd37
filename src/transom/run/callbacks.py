"""What may listen to a run: the progress shown, the log kept, and whatever a user hands in."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transom.run.task import Measures

if TYPE_CHECKING:
    from transom.run.training import Training


@dataclass(frozen=True)
class Step:
    """What one update came to."""

    update: int
    updates: int
    epoch: int
    loss: float  # mean over the targets of the update, in nats
    rate: float
    norm: float  # of the gradient, before clipping
    targets: int
    seconds: float


class Callback:
    """Listens to a run; each method does nothing unless it is overridden."""

    def started(self, training: "Training") -> None: ...

    def updated(self, training: "Training", step: Step) -> None: ...

    def judged(self, training: "Training", update: int, measures: Measures) -> None: ...

    def noted(self, text: str) -> None: ...

    def ended(self, training: "Training") -> None: ...
