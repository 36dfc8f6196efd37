"""The last word on a model: judged on what was kept even from judging while it learned."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from transom.run.recipe import Recipe
from transom.run.task import Measures
from transom.run.tasks import TASKS
from transom.run.texts import ready


def evaluate(recipe: Recipe, folder: Path, beams: int, note: Callable[[str], None]) -> Measures:
    """A model on the test examples of a recipe, or on its held-out ones where it keeps none for a test."""
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    kind = TASKS[recipe.task]
    found = ready(folder, kind.model_kind)
    judge = msgspec.structs.replace(recipe.judge, examples=0, write=True, beams=beams)
    # Learning may pass over what is long; the last word may not, as far as the model goes.
    data = msgspec.structs.replace(recipe.data, longest=found.model.config.longest)
    asked = msgspec.structs.replace(recipe, judge=judge, data=data)
    # In the model's folder lies the tokenizer that it was trained with.
    task = kind(asked, folder, note, tested=True)
    with torch.no_grad():
        return task.judged(found.model, note)
