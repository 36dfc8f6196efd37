"""What can be learned, by name: `TASKS[recipe.task](recipe, folder, note)`."""

from collections.abc import Callable
from pathlib import Path

from transom.run.recipe import Recipe
from transom.run.task import Task
from transom.run.tasks.classify import Classify
from transom.run.tasks.translate import Translate
from transom.run.tasks.write import Write

TASKS: dict[str, Callable[[Recipe, Path, Callable[[str], None]], Task]] = {
    "translate": Translate,
    "write": Write,
    "classify": Classify,
}

__all__ = ["TASKS", "Classify", "Translate", "Write"]
