"""The folder of a run, and whether the run in it has come to its end."""

from pathlib import Path

from transom.run.checkpoint import steps

MODEL, STEPS = "model", "checkpoints"  # in the folder of a run


def find_unfinished(folder: Path) -> Path | None:
    """The folder of a run that has checkpoints but no model yet, given that folder or where its model will be."""
    run = folder.parent if folder.name == MODEL else folder
    if (run / MODEL).exists() or not (run / STEPS).is_dir() or not steps(run / STEPS):
        return None
    return run
