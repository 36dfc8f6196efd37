"""The tasks by name: `TASKS[recipe.task](recipe, folder, note, on_test_set)`."""

from transom.training.tasks.classification import ClassificationTask
from transom.training.tasks.language_modelling import LanguageModellingTask
from transom.training.tasks.translation import TranslationTask

TASKS: dict[str, type[TranslationTask] | type[LanguageModellingTask] | type[ClassificationTask]] = {
    "translate": TranslationTask,
    "write": LanguageModellingTask,
    "classify": ClassificationTask,
}
