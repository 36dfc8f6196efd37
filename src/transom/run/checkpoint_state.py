"""The numbers that a training run keeps beside its tensors, every one of them checked before a run believes it."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from transom.names import Misfit
from transom.run.checkpoint_files import STATE, Checkpoint
from transom.run.inputs import Inputs
from transom.run.precision import AUTO
from transom.run.recipe import SECTIONS, Recipe, check_choices
from transom.run.task import Place, Standing

Count = Annotated[int, Meta(ge=0, lt=2**53)]
Positive = Annotated[float, Meta(gt=0.0)]


class SavedPlace(Struct, frozen=True, forbid_unknown_fields=True):
    epoch: Count
    position: Count
    updates: Count


class SavedStanding(Struct, frozen=True, forbid_unknown_fields=True):
    place: SavedPlace
    best: float | None
    best_update: Count
    judged_without_gain: Count


class SavedScale(Struct, frozen=True, forbid_unknown_fields=True):
    """The state of PyTorch's GradScaler, under its own names."""

    scale: Annotated[float, Meta(gt=0.0, le=3.4e38)]  # it is held in float32
    growth_factor: Annotated[float, Meta(gt=1.0)]
    backoff_factor: Annotated[float, Meta(gt=0.0, lt=1.0)]
    growth_interval: Annotated[int, Meta(ge=1, lt=2**31)]
    growth_tracker: Annotated[int, Meta(ge=0, lt=2**31)] = field(name="_growth_tracker")


class SavedState(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a run keeps in state.json; `inputs` is lacking where Transom 0.1.0 wrote it."""

    standing: SavedStanding
    optimizer: list[dict[str, Any]]
    recipe: dict[str, Any]
    scale: dict[str, Any] = field(default_factory=dict)  # {} where the precision needs none
    inputs: Inputs | None = None


class RunState(Struct, frozen=True):
    """What of a checkpoint's state is believed."""

    recipe: Recipe
    standing: Standing
    optimizer: list[dict[str, Any]]
    scale: dict[str, Any]
    inputs: Inputs | None


def parse_state(checkpoint: Checkpoint) -> RunState:
    """The state of a checkpoint that a training run saved; anything else is a Misfit that says what is wrong."""
    where = checkpoint.path / STATE
    try:
        saved = msgspec.convert(checkpoint.state, SavedState)
        scale = msgspec.convert(saved.scale, SavedScale) if saved.scale else None
    except msgspec.ValidationError as error:
        raise Misfit(
            f"{where} must hold the state of a training run, but it does not fit: {error};"
            " take the version of Transom that wrote it, or choose another folder"
        ) from error
    standing = parse_standing(saved.standing, checkpoint)
    recipe = parse_recipe(saved.recipe, str(where))
    if (scale is not None) != (recipe.train.precision == "float16"):
        held = "none" if scale is None else "one"
        raise Misfit(
            f"{where} must hold a loss scale for train.precision = 'float16' alone, but for"
            f" {recipe.train.precision!r} there is {held}; choose another folder"
        )
    # Numbers as PyTorch holds them: JSON may have written 65536.0 without its point.
    numbers = {} if scale is None else msgspec.to_builtins(scale)
    return RunState(recipe, standing, saved.optimizer, numbers, saved.inputs)


def parse_standing(saved: SavedStanding, checkpoint: Checkpoint) -> Standing:
    """Where the run stood, once its numbers go together."""
    place = saved.place
    if place.updates != checkpoint.step or max(saved.best_update, saved.judged_without_gain) > place.updates:
        raise Misfit(
            f"{checkpoint.path / STATE} must hold numbers of step {checkpoint.step}, but it counts {place.updates}"
            f" updates, the best {saved.best_update}, and {saved.judged_without_gain} judged without gain;"
            " choose another folder"
        )
    return Standing(
        Place(place.epoch, place.position, place.updates), saved.best, saved.best_update, saved.judged_without_gain
    )


def parse_recipe(saved: dict[str, Any], where: str) -> Recipe:
    """The recipe of a run; a setting that is younger than the file has its default, an unknown one is an error."""
    check_settings(saved, Recipe, "", where)
    for section, kind in SECTIONS.items():
        given = saved.get(section)
        if isinstance(given, dict):
            check_settings(given, kind, f"{section}.", where)
    try:
        # The folder is where the checkpoint lies, whatever it was called when the run began.
        recipe = msgspec.convert({**saved, "folder": ""}, Recipe)
    except msgspec.ValidationError as error:
        raise Misfit(f"{where} must hold the recipe of a run, but {error}; choose another folder") from error
    check_choices(recipe, where)
    if recipe.train.precision == AUTO:
        raise Misfit(f"{where} must name the precision of a run, but it has {AUTO!r}; choose another folder")
    return recipe


def check_settings(given: dict[str, Any], kind: type[Struct], section: str, where: str) -> None:
    for name in given:
        if name not in kind.__struct_fields__:
            raise Misfit(
                f"{where} holds a run with the setting {section + name!r}, which this version of Transom does not have;"
                " take the version that wrote it, or choose another folder"
            )
