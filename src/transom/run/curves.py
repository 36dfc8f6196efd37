"""A run's curves for TensorBoard: its loss, rate and gradient norm at each update, and every judgement."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transom.names import Misfit
from transom.run.task import Measures
from transom.run.training import Callback, Step, Training

Point = tuple[float, int, str, float]  # wall time, update, name, value


class Curves(Callback):
    """Event files in a folder, in order and each update once, also after a run was stopped and went on.

    Each start writes a new file: what the ones before held up to the update it goes on from, then what comes. A
    TensorBoard that is looking on forgets the earlier file when it reads the mark at the beginning.
    """

    def __init__(self, folder: Path) -> None:
        check_installed()
        self.folder = folder

    def started(self, training: Training) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.summary.writer.record_writer import RecordWriter

        done = training.standing.place.updates
        earlier = sorted(self.folder.glob("*tfevents*")) if self.folder.is_dir() else []
        points = ((at, update, name, value) for at, update, name, value in read(earlier) if update <= done)
        kept = {(update, name): (at, update, name, value) for at, update, name, value in points}
        self.folder.mkdir(parents=True, exist_ok=True)
        now = time.time_ns()
        self.file = RecordWriter((self.folder / f"events.out.tfevents.{now:020d}").open("wb"))
        self.write(Event(wall_time=now / 1e9, file_version="brain.Event:2"))
        self.write(Event(wall_time=now / 1e9, step=0, session_log=SessionLog(status=SessionLog.START)))
        for point in kept.values():
            self.write(event(*point))
        for path in earlier:
            path.unlink()

    def updated(self, training: Training, step: Step) -> None:
        self.add(step.update, {"loss": step.loss, "rate": step.rate, "norm": step.norm})

    def judged(self, training: Training, update: int, measures: Measures) -> None:
        self.add(update, {f"judged/{name}": value for name, value in measures.numbers.items()})

    def ended(self, training: Training) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def add(self, update: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self.write(event(time.time(), update, name, value))

    def write(self, what: Any) -> None:
        """At once, as the log: no checkpoint is ahead of the curves."""
        self.file.write(what.SerializeToString())
        self.file.flush()


def event(at: float, update: int, name: str, value: float) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]

    return Event(wall_time=at, step=update, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))


def read(files: list[Path]) -> Iterator[Point]:
    """Every number in event files; the last record of each may have been cut by a kill."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for path in files:
        for found in LegacyEventFileLoader(str(path)).Load():
            for one in found.summary.value:
                yield found.wall_time, found.step, one.tag, one.simple_value


def check_installed() -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError as error:
        raise Misfit(
            "train.tensorboard needs tensorboard, which is not installed; pip install 'transom[log]', or leave it out:"
            " log.jsonl holds the same numbers"
        ) from error
