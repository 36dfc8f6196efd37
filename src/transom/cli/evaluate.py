"""`transom evaluate`: a trained model on what its recipe kept for the end."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.output import print_json, print_note, print_text

if TYPE_CHECKING:
    from transom.run.checkpoint import Checkpoint

BEAMS = 4


def run(
    recipe: Annotated[Path, typer.Argument(help="The recipe the model was trained by.")],
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be given often.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The model; the recipe's own unless given.")
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="For translations; 4 unless given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Judge a trained model on the examples its recipe kept for a test, or held out.

    Example: transom evaluate recipes/reference.toml --json

    Of a run that has not come to its end, the newest whole checkpoint is judged.
    """
    from transom.run import recipe as recipes
    from transom.run.evaluate import evaluate, evaluate_checkpoint
    from transom.run.unfinished import MODEL, find_unfinished

    asked = recipes.read(recipe, sets or [])
    folder = Path(asked.folder) / MODEL if model is None else model
    if beams is not None and asked.task != "translate":
        print_note(f"--beams changes nothing where nothing is translated, and the task is {asked.task}; leave it out")
    unfinished = find_unfinished(folder)
    if unfinished is None:
        measures, about = evaluate(asked, folder, beams or BEAMS, say), {"model": str(folder)}
    else:
        found = find_checkpoint(unfinished, recipe)
        measures = evaluate_checkpoint(asked, found, beams or BEAMS, say)
        about = {"model": str(found.path), "unfinished": True, "update": found.step}
    if as_json:
        signature = {"signature": measures.how} if measures.how else {}
        print_json({**about, **measures.numbers, **signature})
        return
    for name, value in measures.numbers.items():
        print_text(f"{name:<12}{value:.4g}")
    if measures.how:
        print_text(f"{'signature':<12}{measures.how}")


def say(text: str) -> None:
    print_text(text, stderr=True)


def find_checkpoint(run: Path, recipe: Path) -> "Checkpoint":
    """The newest whole checkpoint of an unfinished run, which is named as such."""
    from transom.run.checkpoint import find_newest
    from transom.run.unfinished import STEPS

    found, notes = find_newest(run / STEPS)
    assert found is not None  # a run without any is not called unfinished
    for text in notes:
        say(text)
    say(
        f"{run} holds an unfinished run: judged is its newest whole checkpoint, after update {found.step};"
        f" transom train {recipe} goes on with it"
    )
    return found
