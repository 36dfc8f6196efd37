"""Resuming a run: its newest checkpoint and checked state, and the same recipe, data, tokenizer and precision."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from transom.names import Misfit
from transom.training.checkpoint import Checkpoints
from transom.training.checkpoint_files import STATE, Checkpoint, checkpoint_path, load_checkpoint
from transom.training.dataset import InputHashes, check_hash, check_tokenizer, hash_files
from transom.training.distributed import World
from transom.training.precision import AUTO, PRECISIONS, describe_emulation, resolve_precision
from transom.training.recipe import SECTIONS, Recipe, check_choices, fixed_settings, with_precision
from transom.training.task import RunState

Note = Callable[[str], None]


class SavedScale(Struct, frozen=True, forbid_unknown_fields=True):
    """The state of PyTorch's GradScaler, under its own names."""

    scale: Annotated[float, Meta(gt=0.0, le=3.4e38)]  # it is held in float32
    growth_factor: Annotated[float, Meta(gt=1.0)]
    backoff_factor: Annotated[float, Meta(gt=0.0, lt=1.0)]
    growth_interval: Annotated[int, Meta(ge=1, lt=2**31)]
    growth_tracker: Annotated[int, Meta(ge=0, lt=2**31)] = field(name="_growth_tracker")


class SavedState(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a run saves in state.json; Transom 0.1.0 wrote no `inputs`."""

    standing: RunState
    optimizer: list[dict[str, Any]]
    recipe: dict[str, Any]
    scale: dict[str, Any] = field(default_factory=dict)  # {} if the precision needs none
    inputs: InputHashes | None = None


class SavedRun(NamedTuple):
    """A checkpoint of a run, its state checked."""

    checkpoint: Checkpoint
    recipe: Recipe
    state: RunState
    optimizer: list[dict[str, Any]]
    scale: dict[str, Any]
    inputs: InputHashes | None


def parse_checkpoint(checkpoint: Checkpoint) -> SavedRun:
    """The state of a checkpoint that a training run saved; any other state is a Misfit that says what is wrong."""
    where = checkpoint.path / STATE
    try:
        saved = msgspec.convert(checkpoint.state, SavedState)
        scale = msgspec.convert(saved.scale, SavedScale) if saved.scale else None
    except msgspec.ValidationError as error:
        raise Misfit(
            f"{where} must hold the state of a training run, but it does not fit: {error};"
            " use the version of Transom that wrote it, or choose another folder"
        ) from error
    check_counts(saved.standing, checkpoint)
    recipe = parse_saved_recipe(saved.recipe, str(where))
    if (scale is not None) != (recipe.train.precision == "float16"):
        raise Misfit(
            f"{where} must hold a loss scale for train.precision = 'float16' only, but for"
            f" {recipe.train.precision!r} there is {'none' if scale is None else 'one'}; choose another folder"
        )
    # Numbers as PyTorch holds them: JSON may have written 65536.0 without its point.
    numbers = {} if scale is None else msgspec.to_builtins(scale)
    return SavedRun(checkpoint, recipe, saved.standing, saved.optimizer, numbers, saved.inputs)


def check_counts(state: RunState, checkpoint: Checkpoint) -> None:
    """The counts of a run belong to the step of its checkpoint."""
    updates, without_gain = state.position.updates, state.evaluations_without_gain
    if updates != checkpoint.step or max(state.best_update, without_gain) > updates:
        raise Misfit(
            f"{checkpoint.path / STATE} must hold the counts of step {checkpoint.step}, but it has {updates} updates,"
            f" the best {state.best_update}, and {without_gain} evaluations without gain; choose another folder"
        )


def parse_saved_recipe(saved: dict[str, Any], where: str) -> Recipe:
    """The recipe of a run; a setting newer than the checkpoint gets its default, an unknown one is an error."""
    for section, kind in {"": Recipe, **SECTIONS}.items():
        settings = saved.get(section) if section else saved
        for name in settings if isinstance(settings, dict) else ():
            if name not in kind.__struct_fields__:
                setting = f"{section}.{name}" if section else name
                raise Misfit(
                    f"{where} holds a run with the setting {setting!r}, which this version of Transom does not have;"
                    " use the version that wrote it, or choose another folder"
                )
    try:
        # The folder is where the checkpoint is now; it may have been moved.
        recipe = msgspec.convert({**saved, "folder": ""}, Recipe)
    except msgspec.ValidationError as error:
        raise Misfit(f"{where} must hold the recipe of a run, but {error}; choose another folder") from error
    check_choices(recipe, where)
    if recipe.train.precision == AUTO:
        raise Misfit(f"{where} must name the precision of a run, but it has {AUTO!r}; choose another folder")
    return recipe


def find_saved_run(checkpoints: Checkpoints | None, folder: Path, world: World, note: Note) -> SavedRun | None:
    """The newest intact checkpoint, if any; all processes read the same one, which the leading process finds."""
    checkpoint = None
    if checkpoints is not None:
        checkpoint, notes = checkpoints.newest()
        for text in notes:
            note(text)
    step = int(world.broadcast(-1 if checkpoint is None else checkpoint.step))
    if step < 0:
        return None
    return parse_checkpoint(checkpoint or load_checkpoint(checkpoint_path(folder, step)))


def choose_precision(recipe: Recipe, saved: SavedRun | None, world: World, note: Note) -> Recipe:
    """The recipe with "auto" replaced by the precision of the run so far, or by what suits the leading process."""
    name = recipe.train.precision
    if name == AUTO and saved is not None:
        name = saved.recipe.train.precision
    name = PRECISIONS[int(world.broadcast(PRECISIONS.index(resolve_precision(name, world.device))))]
    warning = describe_emulation(name, world.device)
    if warning is not None:
        note(warning)
    return with_precision(recipe, name)


def check_inputs(recipe: Recipe, saved: SavedRun | None, folder: Path, note: Note) -> dict[str, str]:
    """SHA-256 of each data file; a resumed run must have the recipe, the data and the tokenizer it started with."""
    if saved is None:
        return hash_files(recipe)
    check_recipe(recipe, saved.recipe, saved.checkpoint.path.parent)
    files = hash_files(recipe)
    if saved.inputs is None:
        path = saved.checkpoint.path
        note(f"{path} has no SHA-256 of data and tokenizer, so it is not known whether they changed")
    else:
        for path, sha256 in files.items():
            check_hash(folder, path, saved.inputs.files.get(path, "not saved"), sha256)
        check_tokenizer(saved.inputs, folder)
    return files


def check_recipe(recipe: Recipe, saved: Recipe, folder: Path) -> None:
    """A run resumes only with the recipe it started with; "auto" stands for the precision it started with."""
    if recipe.train.precision == AUTO:
        recipe = with_precision(recipe, saved.train.precision)
    difference = first_difference(fixed_settings(saved), fixed_settings(recipe))
    if difference is not None:
        name, before, now = difference
        change = f"{name} was {before!r} and is {now!r} now"
        raise Misfit(f"{folder} holds a run with another recipe: {change}; change it back, or choose another folder")


def first_difference(saved: dict[str, Any], settings: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """The first setting that differs, with its saved value and its value now; None if there is none."""
    for name in {**settings, **saved}:
        before, now = saved.get(name), settings.get(name)
        if isinstance(before, dict) and isinstance(now, dict):
            inner = first_difference(before, now)
            if inner is not None:
                return f"{name}.{inner[0]}", *inner[1:]
        elif before != now:
            return name, before, now
    return None
