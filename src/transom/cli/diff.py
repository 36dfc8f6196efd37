"""`transom diff`: what moved between two models of the same sizes."""

from pathlib import Path
from typing import Annotated

import typer

from transom.cli.cli_io import AsJson, print_json, print_text

SHOWN = 20


def run(
    old: Annotated[Path, typer.Argument(help="A model: a folder of Transom's or Hugging Face's, or a GGUF file.")],
    new: Annotated[Path, typer.Argument(help="The folder of the model that came of it, by fine-tuning for example.")],
    all_rows: Annotated[bool, typer.Option("--all", help="Every parameter, not only the 20 that moved most.")] = False,
    as_json: AsJson = False,
) -> None:
    """List how far each parameter of a model is from what it was in another, those that moved most first.

    Example: transom diff out/base/model out/fine-tuned/model

    The share is the length of the difference over the old length. A matrix that LoRA has changed shows its rank.
    """
    from transom.models.parameter_changes import parameter_changes
    from transom.training.inference import load_for_task

    changes = parameter_changes(load_for_task(old).model, load_for_task(new).model)
    moved = [change for change in changes if change.change > 0]
    if as_json:
        print_json({"old": str(old), "new": str(new), "changes": [change.to_dict() for change in changes]})
        return
    print_text(f"{len(moved)} of {len(changes)} parameters moved")
    if moved:
        print_text(f"\n{'share':>9}{'largest':>11}{'rank':>6}  parameter")
    for change in moved if all_rows else moved[:SHOWN]:
        rank = "" if change.rank is None else str(change.rank)
        print_text(f"{change.share:>9.2%}{change.largest:>11.2e}{rank:>6}  {change.name}")
    if not all_rows and len(moved) > SHOWN:
        print_text(f"… and {len(moved) - SHOWN} more; --all shows them")
