"""Progress of a run for people, on stderr: a bar on a terminal, otherwise plain lines."""

from collections import deque
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from transom.files.terminal import escape_controls
from transom.training.loop import Callback, TrainingLoop, UpdateResult
from transom.training.task import EvaluationResult


class ProgressLines(Callback):
    """A line every `train.report_every` updates: loss, targets per second, time left."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.recent: deque[UpdateResult] = deque(maxlen=50)

    def print_line(self, text: str) -> None:
        print(escape_controls(text), file=self.stream, flush=True)

    def on_start(self, training: TrainingLoop) -> None:
        seconds = None if training.is_finished else training.estimate()  # every process must call it
        if not training.world.leads:
            return
        batches = training.task.batches(training.state.position.epoch)
        processes = "one process" if training.world.size == 1 else f"{training.world.size} processes"
        self.print_line(
            f"{training.model.count():,} parameters, {training.total_updates} updates, about {batches} batches an"
            f" epoch, {processes}"
        )
        if seconds is not None:
            self.print_line(f"about {format_duration(seconds)} to go, without evaluations")

    def on_update(self, training: TrainingLoop, result: UpdateResult) -> None:
        self.recent.append(result)
        due = result.update % training.recipe.train.report_every == 0 or result.update == result.total_updates
        if training.world.leads and due:
            self.print_line(f"update {result.update}/{result.total_updates}  {self.summary()}")

    def summary(self) -> str:
        """The recent updates in one line."""
        results, last = self.recent, self.recent[-1]
        seconds, targets = sum(result.seconds for result in results), sum(result.targets for result in results)
        loss = sum(result.loss * result.targets for result in results) / max(1, targets)
        left = (last.total_updates - last.update) * seconds / len(results)
        return (
            f"epoch {last.epoch}  loss {loss:.3f}  rate {last.rate:.2e}  {targets / max(1e-9, seconds):,.0f} targets/s"
            f"  {format_duration(left)} left"
        )

    def on_evaluation(self, training: TrainingLoop, update: int, result: EvaluationResult) -> None:
        if training.world.leads:
            best = "  (best so far)" if training.state.best_update == update else ""
            metrics = "  ".join(f"{name} {value:.4g}" for name, value in result.metrics.items())
            self.print_line(f"evaluated after update {update}: {metrics}{best}")

    def on_note(self, text: str) -> None:
        self.print_line(text)


class ProgressBar(ProgressLines):
    """The same on a terminal: a moving bar, with notes and evaluations above it."""

    bar: Progress | None = None

    def on_start(self, training: TrainingLoop) -> None:
        super().on_start(training)
        if not training.world.leads:
            return
        count, summary = TextColumn("{task.completed:.0f}/{task.total:.0f}"), TextColumn("{task.fields[summary]}")
        console = Console(file=self.stream, highlight=False, markup=False)
        self.bar = Progress(BarColumn(), count, summary, console=console)
        self.bar.start()
        done = training.state.position.updates
        self.row = self.bar.add_task("", total=training.total_updates, completed=done, summary="")

    def on_update(self, training: TrainingLoop, result: UpdateResult) -> None:
        self.recent.append(result)
        if self.bar is not None:
            self.bar.update(self.row, completed=result.update, summary=self.summary())

    def print_line(self, text: str) -> None:
        if self.bar is None:
            super().print_line(text)
        else:
            self.bar.console.print(escape_controls(text), soft_wrap=True)

    def on_end(self, training: TrainingLoop) -> None:
        if self.bar is not None:
            self.bar.stop()


def progress_for(stream: TextIO) -> Callback:
    return ProgressBar(stream) if stream.isatty() else ProgressLines(stream)


def format_duration(seconds: float) -> str:
    """Seconds, minutes or hours, as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
