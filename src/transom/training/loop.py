"""The training loop: batches, gradients, updates, evaluations, and callbacks on each."""

import hashlib
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
from transom.training.dataset import InputHashes
from transom.training.distributed import World
from transom.training.fine_tuning import depth_shares, prepare_fine_tuning
from transom.training.optimizers import build_optimizer, rate_share, set_rate
from transom.training.precision import Precision
from transom.training.recipe import Recipe
from transom.training.task import Batch, DataPosition, EvaluationResult, RunState, Task
from transom.training.torch_compile import compile_blocks


def derive_seed(seed: int, *position: int) -> int:
    """A seed for torch from the run's seed and a position in the run: 63 bits, the same everywhere."""
    digest = hashlib.blake2b(":".join(map(str, (seed, *position))).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass(frozen=True)
class UpdateResult:
    """The numbers of one update."""

    update: int
    total_updates: int
    epoch: int
    loss: float  # mean over the targets of the update, in nats
    rate: float
    norm: float  # of the gradient, before clipping
    targets: int
    seconds: float


class Callback:
    """Listens to a run; each method does nothing unless it is overridden."""

    def on_start(self, training: "TrainingLoop") -> None: ...

    def on_update(self, training: "TrainingLoop", result: UpdateResult) -> None: ...

    def on_evaluation(self, training: "TrainingLoop", update: int, result: EvaluationResult) -> None: ...

    def on_note(self, text: str) -> None: ...

    def on_end(self, training: "TrainingLoop") -> None: ...


class TrainingLoop:
    """A model in training: parameters, optimizer, and where the run is."""

    def __init__(self, recipe: Recipe, task: Task, world: World, callbacks: Sequence[Callback] = ()) -> None:
        self.recipe, self.task, self.world, self.callbacks = recipe, task, world, callbacks
        check_processes(recipe, world)
        self.precision = Precision(recipe.train.precision, world.device)
        torch.manual_seed(derive_seed(recipe.seed, 0))
        self.model: Model = task.new_model().to(world.device)
        prepare_fine_tuning(self.model, recipe, self.note)
        if recipe.train.compile:
            compile_blocks(self.model)
        self.wrapped = world.wrap(self.model, recipe.train.wrapping)
        settings = recipe.optimizer
        more = {"betas": tuple(settings.betas), "eps": settings.eps, "shares": self.rate_shares()}
        self.optimizer = build_optimizer(self.wrapped, settings.kind, settings.rate, settings.decay, **more)
        start = DataPosition(epoch=0, batch=0, updates=0)
        self.state = RunState(position=start, best=None, best_update=0, evaluations_without_gain=0)
        self.inputs: InputHashes | None = None  # for the checkpoints

    def rate_shares(self) -> dict[str, float] | None:
        """The share of the rate for each parameter of the wrapped model, if it goes by depth."""
        start = self.recipe.start
        return None if start is None or start.depth_decay == 1.0 else depth_shares(self.wrapped, start.depth_decay)

    @cached_property
    def total_updates(self) -> int:
        """How many updates the whole run has."""
        settings = self.recipe.train
        if settings.updates:
            return settings.updates
        batches = sum(self.task.batches(epoch) for epoch in range(settings.epochs))
        return math.ceil(batches / settings.accumulate)

    @property
    def is_finished(self) -> bool:
        patience = self.recipe.train.patience
        out_of_patience = bool(patience) and self.state.evaluations_without_gain >= patience
        return self.state.position.updates >= self.total_updates or out_of_patience

    def update(self) -> UpdateResult:
        """One update: the gradient of the mean loss over all targets of its batches, over all processes."""
        start = time.perf_counter()
        position = self.state.position
        batches = [self.next_batch() for _ in range(self.recipe.train.accumulate)]
        targets = int(self.world.all_sum(sum(batch.targets for batch in batches)))
        self.model.train()
        loss, norm = self.precision.retry_overflow(
            self.optimizer, lambda: self.gradients(batches, targets), self.clip_gradients
        )
        self.check_finite(loss, norm)
        position.updates += 1
        rate = self.rate(position.updates)
        set_rate(self.optimizer, rate)
        self.optimizer.step()
        self.precision.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - start
        return UpdateResult(position.updates, self.total_updates, position.epoch, loss, rate, norm, targets, seconds)

    def next_batch(self) -> Batch:
        """The next batch of this process; moves the position on."""
        position = self.state.position
        if position.batch >= self.task.batches(position.epoch):
            position.epoch, position.batch = position.epoch + 1, 0
        position.batch += 1
        return self.task.batch(position.epoch, position.batch - 1, self.world.part)

    def gradients(self, batches: list[Batch], targets: int) -> float:
        """Add up the gradients of all batches, each target with the same weight; returns the mean loss."""
        total = 0.0
        for number, batch in enumerate(batches):
            # Dropout depends on the position in the run, so a resumed run draws the same as an uninterrupted one.
            torch.manual_seed(derive_seed(self.recipe.seed, self.state.position.updates + 1, number, self.world.rank))
            with self.world.no_sync(self.wrapped, number + 1 < len(batches)):
                loss = self.summed_loss(batch)
                # Processes average their gradients, so each share is multiplied by their number.
                self.precision.scaler.scale(loss * (self.world.size / max(1, targets))).backward()
            total += float(loss.detach())
        return float(self.world.all_sum(total)) / max(1, targets)

    def summed_loss(self, batch: Batch) -> Tensor:
        with self.precision.autocast():
            return self.world.forward(self.wrapped, self.task.loss, batch, self.recipe.train.smoothing)[0]

    def clip_gradients(self) -> float:
        limit = self.recipe.train.clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.wrapped.parameters(), limit)
        return float(self.world.full(norm))

    def check_finite(self, loss: float, norm: float) -> None:
        """Stop before the update, on all processes, if loss or norm is not finite on one."""
        if not self.world.any(not (math.isfinite(loss) and math.isfinite(norm))):
            return
        position = self.state.position
        bad = [
            name
            for name, parameter in self.model.named_parameters()
            if isinstance(parameter.grad, Tensor) and not bool(self.world.full(parameter.grad.isfinite().all()))
        ]
        raise Misfit(
            f"update {position.updates + 1} (epoch {position.epoch}, batch {position.batch - 1}) has loss {loss} and a"
            f" gradient of norm {norm}, first bad in {bad[0] if bad else 'none'}; nothing was updated and the last"
            " checkpoint is good: lower optimizer.rate or train.clip, or look at that batch"
        )

    def rate(self, update: int) -> float:
        schedule = self.recipe.schedule
        share = rate_share(schedule.kind, update, schedule.warmup, self.total_updates, schedule.final)
        return self.recipe.optimizer.rate * share

    def evaluate(self) -> EvaluationResult:
        """The metrics on held-out data; records whether they are the best so far."""
        self.model.eval()
        # Evaluation is rare and has other shapes, so compiling it would not pay.
        eager = torch.compiler.set_stance("force_eager") if self.recipe.train.compile else nullcontext()
        with torch.no_grad(), self.world.gather_parameters(self.wrapped), eager:
            result = self.task.evaluate(self.model)
        state = self.state
        if result.is_better(state.best):
            state.best, state.best_update = result.metrics[result.main_metric], state.position.updates
            state.evaluations_without_gain = 0
        else:
            state.evaluations_without_gain += 1
        return result

    def note(self, text: str) -> None:
        """Pass a line to the callbacks, once for all processes."""
        for callback in self.callbacks if self.world.leads else ():
            callback.on_note(text)

    def estimate(self, batches: int = 3) -> float:
        """Seconds that the rest of the run will take without evaluations, from a few batches without an update.

        Every process must call this.
        """
        self.model.train()
        seconds = []
        for number in range(batches + 1):
            start = time.perf_counter()
            batch = self.task.batch(0, number % self.task.batches(0), self.world.part)
            self.summed_loss(batch).backward()
            self.optimizer.zero_grad(set_to_none=True)
            seconds.append(time.perf_counter() - start)
        updates_left = self.total_updates - self.state.position.updates
        return updates_left * self.recipe.train.accumulate * sum(seconds[1:]) / batches


def check_processes(recipe: Recipe, world: World) -> None:
    """Raise an error for settings that do not work with several processes."""
    if world.size > 1 and recipe.train.compile:
        raise Misfit(f"train.compile is for one process, but there are {world.size}; leave it out")
    if world.size > 1 and recipe.train.precision == "float16" and recipe.train.wrapping == "fsdp":
        raise Misfit(
            "train.precision = 'float16' needs one loss scale for all processes, which train.wrapping = 'fsdp' does not"
            " have; use bfloat16, or wrapping = 'ddp'"
        )
    if world.size > 1 and recipe.lora is not None and recipe.train.wrapping == "fsdp":
        raise Misfit("[lora] is merged into whole matrices, which train.wrapping = 'fsdp' splits; use wrapping = 'ddp'")
