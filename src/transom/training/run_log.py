"""The logs of a run, written while it trains: JSON lines, and TensorBoard."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transom.files.documents import MalformedDocument, decode_distinct_json
from transom.files.untrusted_files import read_raw_lines
from transom.names import Misfit
from transom.training.loop import Callback, TrainingLoop, UpdateResult
from transom.training.task import EvaluationResult

Point = tuple[float, int, str, float]  # wall time, update, name, value


class TensorBoardLog(Callback):
    """Event files in a folder, in order and each update once, even if a run was stopped and resumed.

    Each start writes a new file: the old points up to the update it resumes from, then new ones. The session mark at
    its beginning makes a running TensorBoard drop the old file.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import tensorboard  # noqa: F401
        except ImportError as error:
            raise Misfit(
                "train.tensorboard needs tensorboard, which is not installed; pip install 'transom[log]', or leave it"
                " out: log.jsonl holds the same numbers"
            ) from error
        self.folder = folder

    def on_start(self, training: TrainingLoop) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.summary.writer.record_writer import RecordWriter

        resumed_at = training.state.position.updates
        old_files = sorted(self.folder.glob("*tfevents*")) if self.folder.is_dir() else []
        points = {
            (update, name): (at, update, name, value)
            for at, update, name, value in read_events(old_files)
            if update <= resumed_at
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        now = time.time_ns()
        self.file = RecordWriter((self.folder / f"events.out.tfevents.{now:020d}").open("wb"))
        self.write(Event(wall_time=now / 1e9, file_version="brain.Event:2"))
        self.write(Event(wall_time=now / 1e9, step=0, session_log=SessionLog(status=SessionLog.START)))
        for point in points.values():
            self.write(build_event(*point))
        for path in old_files:
            path.unlink()

    def on_update(self, training: TrainingLoop, result: UpdateResult) -> None:
        self.add(result.update, {"loss": result.loss, "rate": result.rate, "norm": result.norm})

    def on_evaluation(self, training: TrainingLoop, update: int, result: EvaluationResult) -> None:
        self.add(update, {f"judged/{name}": value for name, value in result.metrics.items()})

    def on_end(self, training: TrainingLoop) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def add(self, update: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.write(build_event(time.time(), update, name, value))

    def write(self, event: Any) -> None:
        """Write and flush, so that no checkpoint is ahead of the curves."""
        self.file.write(event.SerializeToString())
        self.file.flush()


def build_event(at: float, update: int, name: str, value: float) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]

    return Event(wall_time=at, step=update, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))


def read_events(files: list[Path]) -> Iterator[Point]:
    """Every number in event files; a kill may have cut off the last record of each."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for path in files:
        for event in LegacyEventFileLoader(str(path)).Load():
            for value in event.summary.value:
                yield event.wall_time, event.step, value.tag, value.simple_value


class JsonLinesLog(Callback):
    """A JSON line for each update and each evaluation; a resumed run drops the lines after its checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_start(self, training: TrainingLoop) -> None:
        self.open_file(training.state.position.updates)

    def on_update(self, training: TrainingLoop, result: UpdateResult) -> None:
        self.write(result.update, epoch=result.epoch, loss=result.loss, rate=result.rate, norm=result.norm)

    def on_evaluation(self, training: TrainingLoop, update: int, result: EvaluationResult) -> None:
        self.write(update, judged=result.metrics)

    def on_end(self, training: TrainingLoop) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def open_file(self, resumed_at: int) -> None:
        """Keep the lines up to an update, and open the file for more."""
        lines = [line for line in read_log(self.path) if line["update"] <= resumed_at] if self.path.exists() else []
        # A new file, then renamed: a kill in between leaves the old log intact.
        partial = self.path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        partial.replace(self.path)
        self.file = self.path.open("a", encoding="utf-8")

    def write(self, update: int, **values: Any) -> None:
        self.file.write(json.dumps({"update": update, **values}) + "\n")
        self.file.flush()


def read_log(path: Path) -> list[dict[str, Any]]:
    """All complete lines of a log; a kill may have cut off the last one."""
    lines = []
    for _, line in read_raw_lines(path):
        try:
            lines.append(decode_distinct_json(line, parse_number=float))  # a loss may be NaN
        except MalformedDocument:
            break
    return [line for line in lines if isinstance(line, dict) and isinstance(line.get("update"), int)]
