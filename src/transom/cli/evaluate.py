"""`transom evaluate`: evaluate a trained model on its recipe's test examples."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from transom.cli.cli_io import AsJson, Settings, print_json, print_note, print_picture, print_text
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.training.checkpoint_files import Checkpoint
    from transom.training.confusion import ConfusionMatrix
    from transom.training.evaluate import EverydayResult
    from transom.training.paired_bootstrap import Comparison
    from transom.training.recipe import Recipe
    from transom.training.task import EvaluationResult

BEAMS = 4
MOST_DRAWN = 20  # labels of a confusion matrix on the terminal


def run(
    recipe: Annotated[Path, typer.Argument(help="The recipe that the model was trained with.")],
    sets: Settings = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder of the model; by default the recipe's own.")
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Beams for translations; 4 by default.")] = None,
    beside: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Another model, compared on the same examples by paired bootstrap."),
    ] = None,
    confusion: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the confusion matrix: .svg, .html, .json, .pdf or .png.")
    ] = None,
    everyday: Annotated[
        bool, typer.Option("--everyday", help="Only the recipe's everyday sentences; print those that fail.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a trained model on the test examples of its recipe, or on the held-out ones.

    Example: transom evaluate recipes/reference.toml --json

    FOLDER may also be a checkpoint, such as out/run/checkpoints/step-00000500. With --beside, a second model is
    evaluated too, and the difference comes with its probability under chance.

    If the recipe has lists of everyday sentences, the share that passes is printed for each kind. If the run is not
    finished, its newest intact checkpoint is evaluated.
    """
    from transom.training.checkpoint import MODEL
    from transom.training.recipe import load_recipe

    loaded = load_recipe(recipe, sets or [])
    folder = Path(loaded.folder) / MODEL if model is None else model
    if beams is not None and loaded.task != "translate":
        print_note(f"--beams is for translations, but the task is {loaded.task}; leave it out")
    if everyday and loaded.data.everyday is None:
        raise Misfit(f"--everyday needs lists of sentences, but {recipe} has no data.everyday; name files there")
    if everyday and (beside or confusion):
        raise Misfit("--everyday evaluates nothing else, but there is --beside or --confusion too; leave it out")
    found = evaluate_folder(loaded, folder, beams or BEAMS, recipe, everyday)
    comparisons = list["Comparison"]()
    if beside is not None and found.evaluation is not None:
        other = evaluate_folder(loaded, beside, beams or BEAMS, recipe, False).evaluation
        comparisons = compare(found.evaluation, other, loaded.task)
    if confusion is not None:
        save_confusion(found.evaluation, confusion, str(folder))
    report(found, comparisons, everyday, as_json)


def report(found: "FolderEvaluation", comparisons: "list[Comparison]", everyday: bool, as_json: bool) -> None:
    """Print everything as JSON, or for people."""
    evaluation = found.evaluation
    if as_json:
        compared = {"compared": [one.to_dict() for one in comparisons]} if comparisons else {}
        lists = everyday_of(found.lists)
        print_json({**found.about, **metrics_of(evaluation), **labels_of(evaluation), **lists, **compared})
        return
    print_results(evaluation, found.lists, everyday)
    for comparison in comparisons:
        print_text(comparison.summary())


class FolderEvaluation(NamedTuple):
    """What was evaluated, its metrics, and the lists of everyday sentences."""

    about: dict[str, object]
    evaluation: "EvaluationResult | None"
    lists: "list[EverydayResult]"


def evaluate_folder(recipe: "Recipe", folder: Path, beams: int, path: Path, only_everyday: bool) -> FolderEvaluation:
    """The model in a folder, a checkpoint, or the newest checkpoint of a run that is not finished."""
    from transom.training.checkpoint import find_unfinished
    from transom.training.checkpoint_files import STATE, load_checkpoint
    from transom.training.evaluate import evaluate, evaluate_checkpoint, evaluate_everyday, evaluate_everyday_checkpoint

    checkpoint = load_checkpoint(folder) if (folder / STATE).is_file() else None
    unfinished = find_unfinished(folder) if checkpoint is None else None
    if checkpoint is None and unfinished is None:
        evaluation = None if only_everyday else evaluate(recipe, folder, beams, report_progress)
        lists = evaluate_everyday(recipe, folder, beams) if recipe.data.everyday else []
        return FolderEvaluation({"model": str(folder)}, evaluation, lists)
    about: dict[str, object] = {}
    if checkpoint is None:
        assert unfinished is not None
        checkpoint = newest_checkpoint(unfinished, path)
        about["unfinished"] = True
    evaluation = None if only_everyday else evaluate_checkpoint(recipe, checkpoint, beams, report_progress)
    lists = evaluate_everyday_checkpoint(recipe, checkpoint, beams) if recipe.data.everyday else []
    return FolderEvaluation({"model": str(checkpoint.path), **about, "update": checkpoint.step}, evaluation, lists)


def compare(first: "EvaluationResult", second: "EvaluationResult | None", task: str) -> "list[Comparison]":
    """Two models on the same examples: accuracy by a bootstrap of our own, BLEU and chrF by sacreBLEU's."""
    from transom.training.paired_bootstrap import compare_hits, compare_translations

    assert second is not None
    if first.hits is not None and second.hits is not None:
        return [compare_hits(first.hits, second.hits)]
    if first.translations and first.targets == second.targets:
        return compare_translations(
            first.translations, second.translations, first.targets, "case:lc" in first.signature
        )
    raise Misfit(f"--beside compares classifiers and translators, but the task is {task}; compare their losses instead")


def save_confusion(evaluation: "EvaluationResult | None", path: Path, model: str) -> None:
    from transom.show.confusion_picture import draw_confusion

    if evaluation is None or evaluation.confusion is None:
        raise Misfit("--confusion is for a classifier, but this model is none; leave it out")
    matrix = evaluation.confusion
    draw_confusion(matrix.labels, matrix.counts.tolist(), model).save(path)


def labels_of(evaluation: "EvaluationResult | None") -> dict[str, object]:
    """Precision, recall and F1 of each label of a classifier, and its confusion matrix."""
    if evaluation is None or evaluation.confusion is None:
        return {}
    return {"labels": evaluation.confusion.by_label(), "confusion": evaluation.confusion.to_dict()}


def metrics_of(evaluation: "EvaluationResult | None") -> dict[str, object]:
    if evaluation is None:
        return {}
    return {**evaluation.metrics, **({"signature": evaluation.signature} if evaluation.signature else {})}


def everyday_of(lists: "list[EverydayResult]") -> dict[str, object]:
    return {"everyday": [result.to_dict() for result in lists]} if lists else {}


def print_results(evaluation: "EvaluationResult | None", lists: "list[EverydayResult]", with_failures: bool) -> None:
    """The metrics, and for each list of everyday sentences how many pass, by kind."""
    for name, value in metrics_of(evaluation).items():
        print_text(f"{name:<12}{value if isinstance(value, str) else f'{value:.4g}'}")
    if evaluation is not None and evaluation.confusion is not None:
        print_labels(evaluation.confusion)
    for result in lists:
        passed, count = result.total
        print_text(f"{'everyday':<12}{passed} of {count} ({passed / count:.0%})  {result.file}")
        for kind, (good, every) in result.rates.items():
            print_text(f"  {kind:<14}{good:>3} of {every}")
        for sentence, translation in result.failures if with_failures else []:
            print_text(f"  {sentence.kind}: {sentence.source} → {translation}")


def print_labels(matrix: "ConfusionMatrix") -> None:
    """Precision, recall and F1 of each label, and the confusion matrix."""
    from transom.show.confusion_picture import draw_confusion

    print_text(f"\n{'label':<16}{'precision':>10}{'recall':>8}{'f1':>8}{'texts':>8}")
    for label, row in matrix.by_label().items():
        numbers = f"{row['precision']:>10.3f}{row['recall']:>8.3f}{row['f1']:>8.3f}{row['count']:>8.0f}"
        print_text(f"{label:<16}{numbers}")
    if len(matrix.labels) <= MOST_DRAWN:
        print_text("")
        print_picture(draw_confusion(matrix.labels, matrix.counts.tolist()).text(colour=sys.stdout.isatty()))


def report_progress(text: str) -> None:
    print_text(text, stderr=True)


def newest_checkpoint(run: Path, recipe: Path) -> "Checkpoint":
    """The newest intact checkpoint of an unfinished run, with a note that it is one."""
    from transom.training.checkpoint import STEPS, find_newest

    checkpoint, notes = find_newest(run / STEPS)
    assert checkpoint is not None  # a run without any does not count as unfinished
    for note in notes:
        report_progress(note)
    report_progress(
        f"{run} holds an unfinished run: this is its newest intact checkpoint, after update {checkpoint.step};"
        f" transom train {recipe} goes on with it"
    )
    return checkpoint
