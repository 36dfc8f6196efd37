"""What can be learned, by name: `TASKS[recipe.task](recipe, folder, note, tested)`."""

from transom.run.tasks.classify import Classify
from transom.run.tasks.translate import Translate
from transom.run.tasks.write import Write

TASKS: dict[str, type[Translate] | type[Write] | type[Classify]] = {
    "translate": Translate,
    "write": Write,
    "classify": Classify,
}

__all__ = ["TASKS", "Classify", "Translate", "Write"]
