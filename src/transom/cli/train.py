"""`transom train`: a model from a recipe."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from transom.cli.output import print_json, print_text


def run(
    recipe: Annotated[Path, typer.Argument(help="A TOML recipe; recipes/reference.toml explains every setting.")],
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be given often.")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A sentence to let it read on the way, for a replay of its heads."),
    ] = None,
    record_target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What an encoder–decoder should write for that sentence.")
    ] = None,
    record_every: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Updates between two frames of the replay; 100 frames unless told."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The model's folder and every judgement, as JSON.")] = False,
) -> None:
    """Train a model by a recipe; stopped at any moment, the same command goes on from the last checkpoint.

    Example: transom train recipes/reverse.toml --set train.updates=200

    With --record, where every head looks in that sentence is kept in replay.safetensors beside the model.

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
            folder = train(
                asked, world, [shown(sys.stderr), *recorded(Path(asked.folder), record, record_target, record_every)]
            )
        except KeyboardInterrupt:
            print_text("transom: stopped; the same command goes on from the last checkpoint", stderr=True)
            raise typer.Exit(130) from None
        if not world.leads:
            return
    if as_json:
        lines = [line for line in read(Path(asked.folder) / LOG) if isinstance(line.get("judged"), dict)]
        judged = [{"update": line["update"], **line["judged"]} for line in lines]
        print_json({"model": str(folder), "judged": judged})
    else:
        print_text(str(folder))


def recorded(folder: Path, text: str | None, target: str | None, every: int | None) -> list[Any]:
    """The callback that records a replay, if one is asked for."""
    from transom.names import Misfit

    if text is None:
        if target is not None or every is not None:
            raise Misfit("there is nothing to record without a sentence; give --record TEXT")
        return []
    from transom.cli import recording

    return [recording.recording(folder, text, target, every)]
