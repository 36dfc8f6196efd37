"""The final evaluation of a model, on the test examples that its recipe held out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from msgspec.structs import replace

from transom.layers.lora import add_lora, merge_lora
from transom.models import EncoderDecoder, Model
from transom.names import Misfit
from transom.text.everyday import EverydaySentence, list_failures, rates_by_kind, read_everyday
from transom.text.tokenizer import Tokenizer
from transom.training.checkpoint_files import Checkpoint
from transom.training.dataset import TOKENIZER, check_tokenizer
from transom.training.inference import load_for_task, translate
from transom.training.recipe import Recipe, adopts_model, list_files
from transom.training.resume import parse_checkpoint
from transom.training.task import EvaluationResult
from transom.training.tasks import TASKS
from transom.training.training_state import restore_model

Note = Callable[[str], None]


@dataclass(frozen=True)
class EverydayResult:
    """The translations of one list of everyday sentences: how many pass, by kind, and those that do not."""

    file: str
    rates: dict[str, tuple[int, int]]  # of each kind: passed, all
    failures: list[tuple[EverydaySentence, str]]

    @property
    def total(self) -> tuple[int, int]:
        passed, counts = zip(*self.rates.values(), strict=True)
        return sum(passed), sum(counts)

    def to_dict(self) -> dict[str, object]:
        failed = [
            {"kind": sentence.kind, "source": sentence.source, "translation": translation}
            for sentence, translation in self.failures
        ]
        passed, count = self.total
        return {"file": self.file, "passed": passed, "of": count, "kinds": self.rates, "failures": failed}


def evaluate(recipe: Recipe, folder: Path, beams: int, note: Note) -> EvaluationResult:
    """A model on the test examples of a recipe, or on the held-out ones if it has no test examples."""
    # The model's folder has the tokenizer that it was trained with.
    return evaluate_model(recipe, load_for_task(folder, TASKS[recipe.task].model_kind).model, folder, beams, note)


def evaluate_checkpoint(recipe: Recipe, checkpoint: Checkpoint, beams: int, note: Note) -> EvaluationResult:
    """The same for a checkpoint in the folder of a run."""
    run = checkpoint.path.parent.parent
    return evaluate_model(recipe, load_from_checkpoint(recipe, checkpoint, run), run, beams, note)


def evaluate_everyday(recipe: Recipe, folder: Path, beams: int) -> list[EverydayResult]:
    """A model on the everyday sentences of a recipe, list by list."""
    return translate_everyday(recipe, *load_for_task(folder, "encoder_decoder"), beams)


def evaluate_everyday_checkpoint(recipe: Recipe, checkpoint: Checkpoint, beams: int) -> list[EverydayResult]:
    """The same for a checkpoint in the folder of a run."""
    run = checkpoint.path.parent.parent
    return translate_everyday(
        recipe, load_from_checkpoint(recipe, checkpoint, run), Tokenizer.load(run / TOKENIZER), beams
    )


def translate_everyday(recipe: Recipe, model: Model, tokenizer: Tokenizer, beams: int) -> list[EverydayResult]:
    assert isinstance(model, EncoderDecoder)
    results: list[EverydayResult] = []
    for file in list_files(recipe.data.everyday):
        sentences = read_everyday(file)
        translations = translate(model, tokenizer, [sentence.source for sentence in sentences], beams)
        rates, failed = rates_by_kind(sentences, translations), list_failures(sentences, translations)
        results.append(EverydayResult(file, rates, failed))
    return results


def load_from_checkpoint(recipe: Recipe, checkpoint: Checkpoint, run: Path) -> Model:
    """The model of a run at a checkpoint, with the sizes in the run's own recipe, which may have changed since."""
    saved = parse_checkpoint(checkpoint)
    own = saved.recipe
    if own.task != recipe.task:
        raise Misfit(f"{run} holds a run of task {own.task!r}, but the recipe has {recipe.task!r}; name its own recipe")
    if not (run / TOKENIZER).exists():
        raise Misfit(f"{run} should hold the {TOKENIZER} of its run, but there is none; restore it")
    if saved.inputs is not None:
        check_tokenizer(saved.inputs, run)
    train = replace(recipe.train, block=own.train.block)
    # A model that was adopted has the sizes of the one it started from; otherwise the recipe has them.
    start = own.start if adopts_model(own) else None
    parts = {"model": own.model, "tokens": own.tokens, "lora": own.lora}
    recipe = replace(recipe, **parts, vectors=None, start=start, train=train)
    model = TASKS[recipe.task](recipe, run, lambda text: None, on_test_set=True).new_model()
    if own.lora is not None:
        add_lora(model, own.lora.names, own.lora.rank, own.lora.alpha)
    restore_model(model, checkpoint.group("model"))
    merge_lora(model)
    return model.eval()


def evaluate_model(recipe: Recipe, model: Model, folder: Path, beams: int, note: Note) -> EvaluationResult:
    """A model on the test examples of a recipe, with the tokenizer in a folder."""
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    judge = replace(recipe.judge, examples=0, write=True, beams=beams)
    # Training may leave out long examples; the final evaluation uses all that the model can take.
    data = replace(recipe.data, longest=model.config.longest)
    task = TASKS[recipe.task](replace(recipe, judge=judge, data=data), folder, note, on_test_set=True)
    with torch.no_grad():
        return task.evaluate(model)
