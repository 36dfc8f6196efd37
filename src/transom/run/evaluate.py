"""The last word on a model: judged on what was kept even from judging while it learned."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from transom.models import Model
from transom.names import Misfit
from transom.run import kept
from transom.run.checkpoint import Checkpoint
from transom.run.checkpoint_state import parse_state
from transom.run.examples import TOKENIZER
from transom.run.inputs import check_tokenizer
from transom.run.recipe import Recipe
from transom.run.states import restore_model
from transom.run.task import Measures
from transom.run.tasks import TASKS
from transom.run.texts import ready


def evaluate(recipe: Recipe, folder: Path, beams: int, note: Callable[[str], None]) -> Measures:
    """A model on the test examples of a recipe, or on its held-out ones where it keeps none for a test."""
    # In the model's folder lies the tokenizer that it was trained with.
    return judge_model(recipe, ready(folder, TASKS[recipe.task].model_kind).model, folder, beams, note)


def evaluate_checkpoint(recipe: Recipe, found: Checkpoint, beams: int, note: Callable[[str], None]) -> Measures:
    """The same of a checkpoint in the folder of a run, with the parameters that it holds."""
    run = found.path.parent.parent
    return judge_model(recipe, load_from_checkpoint(recipe, found, run), run, beams, note)


def load_from_checkpoint(recipe: Recipe, found: Checkpoint, run: Path) -> Model:
    """The model of a run as it was at a checkpoint: as large as the run's own recipe said, whatever it says by now."""
    saved = parse_state(found)
    began = saved.recipe
    if began.task != recipe.task:
        raise Misfit(
            f"{run} holds a run of task {began.task!r}, but the recipe has {recipe.task!r}; name its own recipe"
        )
    if not (run / TOKENIZER).exists():
        raise Misfit(f"{run} should hold the {TOKENIZER} of its run, but there is none; restore it")
    if saved.inputs is not None:
        check_tokenizer(saved.inputs, run)
    length = msgspec.structs.replace(recipe.train, block=began.train.block)
    asked = msgspec.structs.replace(recipe, model=began.model, tokens=began.tokens, vectors=None, train=length)
    model = TASKS[recipe.task](asked, run, lambda text: None, tested=True).new_model()
    restore_model(model, kept.group(found, "model"))
    return model.eval()


def judge_model(recipe: Recipe, model: Model, folder: Path, beams: int, note: Callable[[str], None]) -> Measures:
    """A model on what its recipe keeps for a test, with the tokenizer that lies in a folder."""
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    judge = msgspec.structs.replace(recipe.judge, examples=0, write=True, beams=beams)
    # Learning may pass over what is long; the last word may not, as far as the model goes.
    data = msgspec.structs.replace(recipe.data, longest=model.config.longest)
    asked = msgspec.structs.replace(recipe, judge=judge, data=data)
    task = TASKS[recipe.task](asked, folder, note, tested=True)
    with torch.no_grad():
        return task.judged(model, note)
