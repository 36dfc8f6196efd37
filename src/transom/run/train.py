"""A whole training run: from a recipe to a model in a folder, going on where an earlier start was stopped."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch

from transom.run import checkpoint, kept, precision
from transom.run.checkpoint import Checkpoints, averaged
from transom.run.curves import Curves
from transom.run.inputs import Inputs, hash_tokenizer
from transom.run.journal import Journal
from transom.run.parallel import World, shared_like
from transom.run.recipe import Recipe
from transom.run.resume import check_inputs, choose_precision, find_checkpoint
from transom.run.states import check_parameters
from transom.run.task import Measures, Task
from transom.run.tasks import TASKS
from transom.run.training import Callback, Training
from transom.run.unfinished import MODEL, STEPS

__all__ = ["CURVES", "LOG", "MODEL", "STEPS", "train"]
LOG, CURVES = "log.jsonl", "tensorboard"


def train(recipe: Recipe, world: World | None = None, callbacks: Sequence[Callback] = ()) -> Path:
    """Train by a recipe; gives the folder of the model. Stopped at any moment, the same call goes on from there."""
    world = World() if world is None else world
    precision.check(recipe.train.precision, world.device)
    if recipe.train.tensorboard and world.leads:
        callbacks = [*callbacks, Curves(Path(recipe.folder) / CURVES)]
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)

    def note(text: str) -> None:
        for callback in callbacks if world.leads else ():
            callback.noted(text)

    folder, kept_steps = Path(recipe.folder), max(recipe.train.keep, recipe.train.average)
    with ExitStack() as opened:
        # Only the process that leads writes; the others have neither checkpoints nor a log.
        steps = opened.enter_context(Checkpoints(folder / STEPS, kept_steps)) if world.leads else None
        found = find_checkpoint(steps, folder / STEPS, world, note)
        recipe = choose_precision(recipe, found, world, note)
        files = check_inputs(recipe, found, folder, note)
        training = Training(recipe, built(recipe, folder, world, note), world, callbacks)
        training.inputs = Inputs(files, hash_tokenizer(folder))
        if found is not None:
            kept.put_back(training, found)
            note(f"going on from update {found.step}")
        done = training.standing.place.updates
        run(training, steps, opened.enter_context(Journal(folder / LOG, done)) if world.leads else None)
        return finish(training, steps, folder / MODEL)


def built(recipe: Recipe, folder: Path, world: World, note: Callable[[str], None]) -> Task:
    """The task with its data; the process that leads goes first, because it may learn the tokenizer for all."""
    if not world.leads:
        world.wait("the tokenizer")
    task = TASKS[recipe.task](recipe, folder, note)
    if world.leads:
        world.wait("the tokenizer")
    return task


def run(training: Training, steps: Checkpoints | None, journal: Journal | None) -> None:
    """Update until the run is done, judging and keeping on the way."""
    try:
        for callback in training.callbacks:
            callback.started(training)
        update_all(training, steps, journal)
    finally:
        for callback in training.callbacks:
            callback.ended(training)


def update_all(training: Training, steps: Checkpoints | None, journal: Journal | None) -> None:
    asked = training.recipe.train
    while not training.finished:
        step = training.update()
        if journal is not None:
            journal.write(step.update, epoch=step.epoch, loss=step.loss, rate=step.rate, norm=step.norm)
        for callback in training.callbacks:
            callback.updated(training, step)
        last = step.update >= training.updates
        best = False
        if last or step.update % asked.judge_every == 0:
            best = judge(training, step.update, journal)
        if last or best or training.finished or step.update % asked.checkpoint_every == 0:
            keep(training, steps, best)


def judge(training: Training, update: int, journal: Journal | None) -> bool:
    """Judge the model; whether it is the best so far."""
    measures: Measures = training.judged()
    if journal is not None:
        journal.write(update, judged=measures.numbers)
    for callback in training.callbacks:
        callback.judged(training, update, measures)
    return training.standing.best_update == update


def keep(training: Training, steps: Checkpoints | None, best: bool) -> None:
    tensors = kept.tensors(training)
    if steps is not None:
        steps.save(training.standing.place.updates, tensors, kept.state(training), best)
    training.world.wait("a checkpoint")


def finish(training: Training, steps: Checkpoints | None, folder: Path) -> Path:
    """Save the model: the mean of the last checkpoints where the recipe asks for it, otherwise the best one."""
    world, count = training.world, training.recipe.train.average
    with world.whole(training.wrapped), torch.no_grad():
        if steps is not None:
            final = chosen(steps, count)
            check_parameters(training.model, final)
            for name, parameter in training.model.named_parameters():
                parameter.copy_(shared_like(final[name], parameter))
            training.model.eval()
            training.task.save(training.model, folder)
    world.wait("the end")
    return folder


def chosen(steps: Checkpoints, count: int) -> dict[str, torch.Tensor]:
    """The parameters that a run ends with."""
    if count > 1:
        return averaged([steps.path(step) for step in checkpoint.steps(steps.folder)[-count:]])
    best = steps.best().checkpoint or steps.newest().checkpoint
    assert best is not None
    return kept.group(best, "model")
