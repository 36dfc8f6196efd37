"""The training loop: batches in, updates out, nothing lost when it is stopped."""

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from transom.models import Model
from transom.names import Misfit
from transom.run.compiled import compile_blocks
from transom.run.inputs import Inputs
from transom.run.optimizers import optimizer, set_rate
from transom.run.parallel import World
from transom.run.precision import Precision
from transom.run.recipe import Recipe
from transom.run.schedules import SCHEDULES
from transom.run.seeds import seed_of
from transom.run.task import Batch, Measures, Standing, Task


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


class Training:
    """A model on its way: parameters, optimizer and where it stands."""

    def __init__(self, recipe: Recipe, task: Task, world: World, callbacks: Sequence[Callback] = ()) -> None:
        self.recipe, self.task, self.world, self.callbacks = recipe, task, world, callbacks
        check_together(recipe, world)
        self.precision = Precision(recipe.train.precision, world.device)
        torch.manual_seed(seed_of(recipe.seed, 0))
        self.model: Model = task.new_model().to(world.device)
        if recipe.train.compile:
            compile_blocks(self.model)
        self.wrapped = world.wrapped(self.model, recipe.train.wrapping)
        chosen = recipe.optimizer
        self.optimizer = optimizer(
            self.wrapped, chosen.kind, chosen.rate, chosen.decay, betas=tuple(chosen.betas), eps=chosen.eps
        )
        self.standing = Standing()
        self.inputs: Inputs | None = None  # for the checkpoints

    @cached_property
    def updates(self) -> int:
        """How many updates the whole run has."""
        asked = self.recipe.train
        if asked.updates:
            return asked.updates
        batches = sum(self.task.batches(epoch) for epoch in range(asked.epochs))
        return math.ceil(batches / asked.accumulate)

    @property
    def finished(self) -> bool:
        patience = self.recipe.train.patience
        out_of_patience = bool(patience) and self.standing.judged_without_gain >= patience
        return self.standing.place.updates >= self.updates or out_of_patience

    def update(self) -> Step:
        """One update: the gradient of the mean loss over all targets of its batches, on all processes together."""
        begun = time.perf_counter()
        place = self.standing.place
        batches = [self.taken() for _ in range(self.recipe.train.accumulate)]
        targets = int(self.world.summed(sum(batch.counted for batch in batches)))
        self.model.train()
        loss, norm = self.precision.measured(self.optimizer, lambda: self.gradients(batches, targets), self.clipped)
        self.check_finite(loss, norm)
        place.updates += 1
        rate = self.rate(place.updates)
        set_rate(self.optimizer, rate)
        self.optimizer.step()
        self.precision.settle()
        self.optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - begun
        return Step(place.updates, self.updates, place.epoch, loss, rate, norm, targets, seconds)

    def taken(self) -> Batch:
        epoch, position = self.standing.place.taken(self.task)
        return self.task.batch(epoch, position, self.world.part)

    def gradients(self, batches: list[Batch], targets: int) -> float:
        """Add up the gradients of all batches, each target weighing the same; gives the mean loss."""
        total = 0.0
        for number, batch in enumerate(batches):
            # Dropout from the place in the run: a resumed run draws what an uninterrupted one would have.
            torch.manual_seed(seed_of(self.recipe.seed, self.standing.place.updates + 1, number, self.world.rank))
            with self.world.quiet(self.wrapped, number + 1 < len(batches)):
                with self.precision.lowered():
                    loss, _ = self.world.forward(self.wrapped, self.task.loss, batch)
                # Processes average their gradients, so each one's share is multiplied up again.
                self.precision.backward(loss * (self.world.size / max(1, targets)))
            total += float(loss.detach())
        return float(self.world.summed(total)) / max(1, targets)

    def clipped(self) -> float:
        limit = self.recipe.train.clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.wrapped.parameters(), limit)
        return float(self.world.full(norm))

    def check_finite(self, loss: float, norm: float) -> None:
        """Stop before the update, on all processes, when a number is no longer one."""
        bad = not (math.isfinite(loss) and math.isfinite(norm))
        if not self.world.any(bad):
            return
        place = self.standing.place
        worst = [
            name
            for name, parameter in self.model.named_parameters()
            if isinstance(parameter.grad, Tensor) and not bool(self.world.full(parameter.grad.isfinite().all()))
        ]
        raise Misfit(
            f"update {place.updates + 1} (epoch {place.epoch}, batch {place.position - 1}) has loss {loss} and a"
            f" gradient of norm {norm}, first bad in {worst[0] if worst else 'none'}; nothing was updated and the last"
            " checkpoint is good: lower optimizer.rate or train.clip, or look at that batch"
        )

    def rate(self, update: int) -> float:
        chosen = self.recipe.schedule
        share = SCHEDULES[chosen.kind](update, chosen.warmup, self.updates, chosen.final)
        return self.recipe.optimizer.rate * share

    def judged(self) -> Measures:
        """The model on held-out data; remembers whether it is the best so far."""
        self.model.eval()
        # Judging is rare and comes in other shapes: it is not worth compiling for.
        as_written = torch.compiler.set_stance("force_eager") if self.recipe.train.compile else nullcontext()
        with torch.no_grad(), self.world.whole(self.wrapped), as_written:
            measures = self.task.judged(self.model, self.noted)
        standing = self.standing
        if measures.better(standing.best):
            standing.best, standing.best_update = measures.numbers[measures.main], standing.place.updates
            standing.judged_without_gain = 0
        else:
            standing.judged_without_gain += 1
        return measures

    def noted(self, text: str) -> None:
        """Tell the callbacks something, once for all processes."""
        for callback in self.callbacks if self.world.leads else ():
            callback.noted(text)

    def estimate(self, batches: int = 3) -> float:
        """Seconds that the rest of the run will take, judging aside, from a few batches tried without an update; every
        process must ask."""
        self.model.train()
        seconds = []
        for position in range(batches + 1):
            begun = time.perf_counter()
            batch = self.task.batch(0, position % self.task.batches(0), self.world.part)
            with self.precision.lowered():
                loss, _ = self.world.forward(self.wrapped, self.task.loss, batch)
            loss.backward()
            self.optimizer.zero_grad(set_to_none=True)
            seconds.append(time.perf_counter() - begun)
        left = self.updates - self.standing.place.updates
        return left * self.recipe.train.accumulate * sum(seconds[1:]) / batches


def check_together(recipe: Recipe, world: World) -> None:
    """Complain about what does not go together on several processes."""
    if world.size > 1 and recipe.train.compile:
        raise Misfit(f"train.compile is for one process, but there are {world.size}; leave it out")
    if world.size > 1 and recipe.train.precision == "float16" and recipe.train.wrapping == "fsdp":
        raise Misfit(
            "train.precision = 'float16' needs one loss scale for all processes, which train.wrapping = 'fsdp' does not"
            " keep; use bfloat16, or wrapping = 'ddp'"
        )
