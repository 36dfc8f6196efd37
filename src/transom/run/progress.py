"""What a person sees of a run: a bar on a terminal, plain lines elsewhere, all on stderr."""

from collections import deque
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from transom.files.terminal import escape_controls
from transom.run.task import Measures
from transom.run.training import Callback, Step, Training


class Lines(Callback):
    """A line every so many updates: loss, targets a second, time left."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.recent: deque[Step] = deque(maxlen=50)

    def say(self, text: str) -> None:
        print(escape_controls(text), file=self.stream, flush=True)

    def started(self, training: Training) -> None:
        place, world = training.standing.place, training.world
        seconds = None if training.finished else training.estimate()  # a matter for all processes
        if not world.leads:
            return
        batches = training.task.batches(place.epoch)
        self.say(
            f"{training.model.count():,} parameters, {training.updates} updates, about {batches} batches an epoch,"
            f" {processes(world.size)}"
        )
        if seconds is not None:
            self.say(f"about {spoken(seconds)} to go, judging aside")

    def updated(self, training: Training, step: Step) -> None:
        self.recent.append(step)
        due = step.update % training.recipe.train.report_every == 0 or step.update == step.updates
        if training.world.leads and due:
            self.say(f"update {step.update}/{step.updates}  {self.told()}")

    def told(self) -> str:
        """The recent updates in a few words."""
        steps, last = self.recent, self.recent[-1]
        seconds, targets = sum(one.seconds for one in steps), sum(one.targets for one in steps)
        loss = sum(one.loss * one.targets for one in steps) / max(1, targets)
        left = (last.updates - last.update) * seconds / len(steps)
        return (
            f"epoch {last.epoch}  loss {loss:.3f}  rate {last.rate:.2e}  {targets / max(1e-9, seconds):,.0f} targets/s"
            f"  {spoken(left)} left"
        )

    def judged(self, training: Training, update: int, measures: Measures) -> None:
        if training.world.leads:
            best = "  (best so far)" if training.standing.best_update == update else ""
            numbers = "  ".join(f"{name} {value:.4g}" for name, value in measures.numbers.items())
            self.say(f"judged after update {update}: {numbers}{best}")

    def noted(self, text: str) -> None:
        self.say(text)


class Bar(Lines):
    """The same on a terminal: a bar that moves, with the lines that matter above it."""

    bar: Progress | None = None

    def started(self, training: Training) -> None:
        super().started(training)
        if not training.world.leads:
            return
        columns = (BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"), TextColumn("{task.fields[told]}"))
        self.bar = Progress(*columns, console=Console(file=self.stream, highlight=False, markup=False))
        self.bar.start()
        done = training.standing.place.updates
        self.row = self.bar.add_task("", total=training.updates, completed=done, told="")

    def updated(self, training: Training, step: Step) -> None:
        self.recent.append(step)
        if self.bar is not None:
            self.bar.update(self.row, completed=step.update, told=self.told())

    def say(self, text: str) -> None:
        if self.bar is None:
            super().say(text)
        else:
            self.bar.console.print(escape_controls(text), soft_wrap=True)

    def ended(self, training: Training) -> None:
        if self.bar is not None:
            self.bar.stop()


def shown(stream: TextIO) -> Callback:
    """What suits the stream."""
    return Bar(stream) if stream.isatty() else Lines(stream)


def processes(count: int) -> str:
    return "one process" if count == 1 else f"{count} processes"


def spoken(seconds: float) -> str:
    """A length of time as one says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
