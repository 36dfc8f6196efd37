"""What a start of a run finds in its folder: a checkpoint, its precision, and whether data or tokenizer changed."""

from collections.abc import Callable
from pathlib import Path

from transom.run import kept
from transom.run.checkpoint import Checkpoint, Checkpoints, path_of, read
from transom.run.checkpoint_state import parse_state
from transom.run.inputs import check_files, check_tokenizer, hash_files
from transom.run.parallel import World
from transom.run.precision import AUTO, PRECISIONS, describe_emulation, resolve_precision
from transom.run.recipe import Recipe, with_precision

Note = Callable[[str], None]


def find_checkpoint(steps: Checkpoints | None, folder: Path, world: World, note: Note) -> Checkpoint | None:
    """The newest whole checkpoint, if there is one; all processes read the same, one of them has `steps`."""
    found = None
    if steps is not None:
        found, notes = steps.newest()
        for text in notes:
            note(text)
    step = int(world.agreed(-1.0 if found is None else found.step))
    if step < 0 or found is not None:
        return found
    return read(path_of(folder, step))


def choose_precision(recipe: Recipe, found: Checkpoint | None, world: World, note: Note) -> Recipe:
    """The recipe with a precision in place of "auto": that of the run so far, or what suits the process that leads."""
    name = recipe.train.precision
    if name == AUTO and found is not None:
        name = parse_state(found).recipe.train.precision
    number = world.agreed(PRECISIONS.index(resolve_precision(name, world.device)))
    name = PRECISIONS[int(number)]
    warning = describe_emulation(name, world.device)
    if warning is not None:
        note(warning)
    return with_precision(recipe, name)


def check_inputs(recipe: Recipe, found: Checkpoint | None, folder: Path, note: Note) -> dict[str, str]:
    """SHA-256 of each file of data; a run that goes on must have begun with the same, and with the same tokenizer."""
    if found is None:
        return hash_files(recipe)
    saved = parse_state(found)
    kept.check_recipe(recipe, saved.recipe, found.path.parent)
    files = hash_files(recipe)
    if saved.inputs is None:
        note(f"{found.path} has no SHA-256 of data and tokenizer, so whether they changed cannot be checked")
    else:
        check_files(saved.inputs, files, folder)
        check_tokenizer(saved.inputs, folder)
    return files
