"""`transom evaluate`: evaluate a trained model on its recipe's test examples."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cli_io import AsJson, Settings, print_json, print_note, print_text

if TYPE_CHECKING:
    from transom.training.checkpoint_files import Checkpoint

BEAMS = 4


def run(
    recipe: Annotated[Path, typer.Argument(help="The recipe that the model was trained with.")],
    sets: Settings = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder of the model; by default the recipe's own.")
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Beams for translations; 4 by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a trained model on the test examples of its recipe, or on the held-out ones.

    Example: transom evaluate recipes/reference.toml --json

    If the run is not finished, its newest intact checkpoint is evaluated.
    """
    from transom.training.checkpoint import MODEL, find_unfinished
    from transom.training.evaluate import evaluate, evaluate_checkpoint
    from transom.training.recipe import load_recipe

    loaded = load_recipe(recipe, sets or [])
    folder = Path(loaded.folder) / MODEL if model is None else model
    if beams is not None and loaded.task != "translate":
        print_note(f"--beams is for translations, but the task is {loaded.task}; leave it out")
    unfinished = find_unfinished(folder)
    if unfinished is None:
        evaluation = evaluate(loaded, folder, beams or BEAMS, report_progress)
        about = {"model": str(folder)}
    else:
        checkpoint = newest_checkpoint(unfinished, recipe)
        evaluation = evaluate_checkpoint(loaded, checkpoint, beams or BEAMS, report_progress)
        about = {"model": str(checkpoint.path), "unfinished": True, "update": checkpoint.step}
    signature = {"signature": evaluation.signature} if evaluation.signature else {}
    if as_json:
        print_json({**about, **evaluation.metrics, **signature})
        return
    metrics = {name: f"{value:.4g}" for name, value in evaluation.metrics.items()}
    for name, value in (metrics | signature).items():
        print_text(f"{name:<12}{value}")


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
