"""`transom evaluate`: evaluate a trained model on its recipe's test examples."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cli_io import AsJson, Settings, print_json, print_note, print_text
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.training.checkpoint_files import Checkpoint
    from transom.training.evaluate import EverydayResult
    from transom.training.task import EvaluationResult

BEAMS = 4


def run(
    recipe: Annotated[Path, typer.Argument(help="The recipe that the model was trained with.")],
    sets: Settings = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder of the model; by default the recipe's own.")
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Beams for translations; 4 by default.")] = None,
    everyday: Annotated[
        bool, typer.Option("--everyday", help="Only the recipe's everyday sentences; print those that fail.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a trained model on the test examples of its recipe, or on the held-out ones.

    Example: transom evaluate recipes/reference.toml --json

    If the recipe has lists of everyday sentences, the share that passes is printed for each kind. If the run is not
    finished, its newest intact checkpoint is evaluated.
    """
    from transom.training.checkpoint import MODEL, find_unfinished
    from transom.training.evaluate import evaluate, evaluate_checkpoint, evaluate_everyday, evaluate_everyday_checkpoint
    from transom.training.recipe import load_recipe

    loaded = load_recipe(recipe, sets or [])
    folder = Path(loaded.folder) / MODEL if model is None else model
    if beams is not None and loaded.task != "translate":
        print_note(f"--beams is for translations, but the task is {loaded.task}; leave it out")
    if everyday and loaded.data.everyday is None:
        raise Misfit(f"--everyday needs lists of sentences, but {recipe} has no data.everyday; name files there")
    unfinished = find_unfinished(folder)
    about: dict[str, object] = {"model": str(folder)}
    evaluation: EvaluationResult | None = None
    if unfinished is None:
        evaluation = None if everyday else evaluate(loaded, folder, beams or BEAMS, report_progress)
        lists = evaluate_everyday(loaded, folder, beams or BEAMS) if loaded.data.everyday else []
    else:
        checkpoint = newest_checkpoint(unfinished, recipe)
        evaluation = None if everyday else evaluate_checkpoint(loaded, checkpoint, beams or BEAMS, report_progress)
        lists = evaluate_everyday_checkpoint(loaded, checkpoint, beams or BEAMS) if loaded.data.everyday else []
        about = {"model": str(checkpoint.path), "unfinished": True, "update": checkpoint.step}
    if as_json:
        print_json({**about, **metrics_of(evaluation), **everyday_of(lists)})
        return
    print_results(evaluation, lists, everyday)


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
    for result in lists:
        passed, count = result.total
        print_text(f"{'everyday':<12}{passed} of {count} ({passed / count:.0%})  {result.file}")
        for kind, (good, every) in result.rates.items():
            print_text(f"  {kind:<14}{good:>3} of {every}")
        for sentence, translation in result.failures if with_failures else []:
            print_text(f"  {sentence.kind}: {sentence.source} → {translation}")


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
