"""The last word on a model: judged on what was kept even from judging while it learned."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from transom.models import MODELS
from transom.models.folder import header_of
from transom.models.strict import chosen
from transom.run.recipe import Recipe
from transom.run.task import Measures
from transom.run.tasks import TASKS


def evaluate(recipe: Recipe, model: Path, beams: int, note: Callable[[str], None]) -> Measures:
    """A model on the test examples of a recipe, or on its held-out ones where it keeps none for a test."""
    kind = str(header_of(model)["model"])
    chosen(f"{model}: the model", kind, MODELS)
    judge = msgspec.structs.replace(recipe.judge, examples=0, write=True, beams=beams)
    # The tokenizer that the run began with lies in the model's folder too.
    task = TASKS[recipe.task](msgspec.structs.replace(recipe, judge=judge), model, note, tested=True)
    with torch.no_grad():
        return task.judged(MODELS[kind].from_pretrained(model), note)
