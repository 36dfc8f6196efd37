"""`transom train`: a model from a recipe."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def run(
    recipe: Annotated[Path, typer.Argument(help="A TOML recipe; recipes/reference.toml explains every setting.")],
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be given often.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The model's folder and every judgement, as JSON.")] = False,
) -> None:
    """Train a model by a recipe; stopped at any moment, the same command goes on from the last checkpoint.

    Example: transom train recipes/reverse.toml --set train.updates=200

    On several processes: torchrun --nproc-per-node 2 -m transom train RECIPE
    """
    from transom.run import recipe as recipes
    from transom.run.journal import read
    from transom.run.parallel import joined
    from transom.run.progress import shown
    from transom.run.train import LOG, train

    asked = recipes.read(recipe, sets or [])
    with joined() as world:
        try:
            folder = train(asked, world, [shown(sys.stderr)])
        except KeyboardInterrupt:
            typer.echo("transom: stopped; the same command goes on from the last checkpoint", err=True)
            raise typer.Exit(130) from None
        if not world.leads:
            return
    if as_json:
        lines = [line for line in read(Path(asked.folder) / LOG) if "judged" in line]
        judged = [{"update": line["update"], **line["judged"]} for line in lines]
        typer.echo(json.dumps({"model": str(folder), "judged": judged}, indent=2))
    else:
        typer.echo(str(folder))
