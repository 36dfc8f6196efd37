"""`transom evaluate`: a trained model on what its recipe kept for the end."""

from pathlib import Path
from typing import Annotated

import typer

from transom.cli.output import print_json, print_text


def run(
    recipe: Annotated[Path, typer.Argument(help="The recipe the model was trained by.")],
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be given often.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The model; the recipe's own unless given.")
    ] = None,
    beams: Annotated[int, typer.Option(min=1, help="For translations.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Judge a trained model on the examples its recipe kept for a test, or held out.

    Example: transom evaluate recipes/reference.toml --json
    """
    from transom.run import recipe as recipes
    from transom.run.evaluate import evaluate
    from transom.run.train import MODEL

    asked = recipes.read(recipe, sets or [])
    folder = Path(asked.folder) / MODEL if model is None else model
    measures = evaluate(asked, folder, beams, lambda text: print_text(text, stderr=True))
    if as_json:
        found = {"model": str(folder), **measures.numbers} | ({"signature": measures.how} if measures.how else {})
        print_json(found)
        return
    for name, value in measures.numbers.items():
        print_text(f"{name:<12}{value:.4g}")
    if measures.how:
        print_text(f"{'signature':<12}{measures.how}")
