"""A training run from a recipe to a saved model; it resumes from the last checkpoint."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from transom.files.atomic_files import sha256_of
from transom.layers.lora import merge_lora
from transom.training import precision, training_state
from transom.training.checkpoint import MODEL, STEPS, Checkpoints, list_steps
from transom.training.checkpoint_files import average_checkpoints
from transom.training.dataset import TOKENIZER, InputHashes
from transom.training.distributed import World, shard_like
from transom.training.loop import Callback, TrainingLoop
from transom.training.recipe import Recipe
from transom.training.resume import check_inputs, choose_precision, find_saved_run
from transom.training.run_log import JsonLinesLog, TensorBoardLog
from transom.training.task import Task
from transom.training.tasks import TASKS

BUILD_SECONDS = 86_400  # that the other processes wait while the leading one builds a token store
LOG, CURVES = "log.jsonl", "tensorboard"  # in the folder of a run


def train(recipe: Recipe, world: World | None = None, callbacks: Sequence[Callback] = ()) -> Path:
    """Train by a recipe and return the model's folder; a run that was stopped at any moment is resumed."""
    world, folder = world or World(), Path(recipe.folder)
    precision.check_device(recipe.train.precision, world.device)
    if world.leads:
        curves = [TensorBoardLog(folder / CURVES)] if recipe.train.tensorboard else []
        callbacks = [JsonLinesLog(folder / LOG), *callbacks, *curves]
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)

    def note(text: str) -> None:
        for callback in callbacks if world.leads else ():
            callback.on_note(text)

    keep = max(recipe.train.keep, recipe.train.average)
    # Only the leading process writes; the others have neither checkpoints nor a log.
    with Checkpoints(folder / STEPS, keep) if world.leads else nullcontext() as checkpoints:
        saved = find_saved_run(checkpoints, folder / STEPS, world, note)
        recipe = choose_precision(recipe, saved, world, note)
        files = check_inputs(recipe, saved, folder, note)
        training = TrainingLoop(recipe, build_task(recipe, folder, world, note), world, callbacks)
        training.inputs = InputHashes(files, sha256_of(folder / TOKENIZER))
        if saved is not None:
            training_state.restore(training, saved)
            note(f"resuming from update {saved.checkpoint.step}")
        try:
            for callback in callbacks:
                callback.on_start(training)
            while not training.is_finished:
                run_update(training, checkpoints)
        finally:
            for callback in callbacks:
                callback.on_end(training)
        return finish(training, checkpoints, folder / MODEL)


def build_task(recipe: Recipe, folder: Path, world: World, note: Callable[[str], None]) -> Task:
    """The task with its data; the leading process goes first, because it may train the tokenizer for all."""
    if not world.leads:
        world.wait("the tokenizer", BUILD_SECONDS)
    task = TASKS[recipe.task](recipe, folder, note)
    if world.leads:
        world.wait("the tokenizer", BUILD_SECONDS)
    return task


def run_update(training: TrainingLoop, checkpoints: Checkpoints | None) -> None:
    """One update, and an evaluation and a checkpoint if they are due."""
    settings = training.recipe.train
    result = training.update()
    for callback in training.callbacks:
        callback.on_update(training, result)
    last = result.update >= training.total_updates
    best = (last or result.update % settings.judge_every == 0) and evaluate_update(training, result.update)
    if last or best or training.is_finished or result.update % settings.checkpoint_every == 0:
        save_checkpoint(training, checkpoints, best)


def evaluate_update(training: TrainingLoop, update: int) -> bool:
    """Evaluate the model; whether it is the best so far."""
    result = training.evaluate()
    for callback in training.callbacks:
        callback.on_evaluation(training, update, result)
    return training.state.best_update == update


def save_checkpoint(training: TrainingLoop, checkpoints: Checkpoints | None, best: bool) -> None:
    tensors = training_state.checkpoint_tensors(training)
    if checkpoints is not None:
        checkpoints.save(training.state.position.updates, tensors, training_state.checkpoint_state(training), best)
    training.world.wait("a checkpoint")


def finish(training: TrainingLoop, checkpoints: Checkpoints | None, folder: Path) -> Path:
    """Save the model: the mean of the last checkpoints if the recipe asks for it, otherwise the best one."""
    model = training.model
    with training.world.gather_parameters(training.wrapped), torch.no_grad():
        if checkpoints is not None:
            final = final_parameters(checkpoints, training.recipe.train.average)
            training_state.check_parameters(model, final)
            for name, parameter in model.named_parameters():
                parameter.copy_(shard_like(final[name], parameter))
            merge_lora(model)
            model.eval()
            model.save_pretrained(folder, tokenizer=training.task.tokenizer)
    training.world.wait("the end")
    return folder


def final_parameters(checkpoints: Checkpoints, count: int) -> dict[str, torch.Tensor]:
    """The parameters that a run ends with."""
    if count > 1:
        return average_checkpoints([checkpoints.path(step) for step in list_steps(checkpoints.folder)[-count:]])
    best = checkpoints.best().checkpoint or checkpoints.newest().checkpoint
    assert best is not None
    return best.group("model")
