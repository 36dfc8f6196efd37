"""What can be learned, by name: `TASKS[recipe.task](recipe, folder, note, tested)`."""

from collections.abc import Callable

from transom.run.task import Task
from transom.run.tasks.classify import Classify
from transom.run.tasks.translate import Translate
from transom.run.tasks.write import Write

TASKS: dict[str, Callable[..., Task]] = {"translate": Translate, "write": Write, "classify": Classify}

__all__ = ["TASKS", "Classify", "Translate", "Write"]
