"""A recipe: every setting of a training run, in one TOML file. `recipes/reference.toml` explains each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from transom.files.documents import MOST_PARTS, MalformedDocument, decode_toml
from transom.files.strict_settings import check_choice, parse_settings
from transom.files.untrusted_files import Limits, decode_utf8, read_bytes
from transom.models import PRESETS
from transom.names import Misfit
from transom.text.corpora import FORMATS
from transom.text.tokenizer import KINDS
from transom.training.distributed import WRAPPINGS
from transom.training.optimizers import OPTIMIZERS, SCHEDULES
from transom.training.precision import PRECISIONS
from transom.training.recipe_settings import (
    AugmentSettings,
    Count,
    DataSettings,
    EvaluationSettings,
    Files,
    LoraSettings,
    OptimizerSettings,
    ScheduleSettings,
    StartSettings,
    TokenizerSettings,
    TrainSettings,
    VectorSettings,
)

LONGEST = 2**20  # bytes of a recipe
Config = TypeVar("Config", bound=Struct)


class Recipe(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    task: str
    folder: str
    data: DataSettings
    seed: Count = 1
    augment: AugmentSettings | None = None
    tokens: TokenizerSettings = field(default_factory=TokenizerSettings)
    vectors: VectorSettings | None = None
    start: StartSettings | None = None
    lora: LoraSettings | None = None
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    judge: EvaluationSettings = field(default_factory=EvaluationSettings)


SECTIONS: dict[str, type[Struct]] = {
    "data": DataSettings,
    "augment": AugmentSettings,
    "tokens": TokenizerSettings,
    "vectors": VectorSettings,
    "start": StartSettings,
    "lora": LoraSettings,
    "optimizer": OptimizerSettings,
    "schedule": ScheduleSettings,
    "train": TrainSettings,
    "judge": EvaluationSettings,
}
CLASS_WEIGHTS = ("none", "balanced")
TASK_NAMES = ("translate", "write", "classify")
FROM_DATA = {"vocabulary": "the tokenizer", "labels": "the examples"}  # settings of [model] that no recipe has
# What may change between two starts of the same run: its length, reports and evaluation, and what it runs on.
FREE = {"folder", "judge"}
FREE_OF_TRAIN = {"updates", "epochs", "threads", "wrapping", "report_every", "judge_every", "checkpoint_every"}
FREE_OF_TRAIN |= {"keep", "average", "tensorboard", "compile"}


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, with `key=value` overrides; paths in it are relative to the current folder."""
    content = read_bytes(path, Limits(document=LONGEST), "is it another file?")
    try:
        table = decode_toml(decode_utf8(path, content))
    except MalformedDocument as error:
        raise Misfit(f"the recipe {path} should be TOML, but {error}; see recipes/reference.toml") from error
    for override in overrides:
        apply_override(table, override)
    return parse_recipe(table, str(path))


def apply_override(table: dict[str, Any], override: str) -> None:
    """Put `section.key=value` into the table; the value is TOML, or a plain string."""
    name, equals, value = override.partition("=")
    if not equals or not name.strip():
        raise Misfit(f"--set takes key=value, but got {override!r}; for example --set train.updates=100")
    *sections, key = name.strip().split(".", MOST_PARTS)
    if "." in key:
        raise Misfit(
            f"--set takes keys of up to {MOST_PARTS} parts, but got {name[:60]!r}…; see recipes/reference.toml"
        )
    for section in sections:
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise Misfit(f"--set {override} needs a section {section!r}, but it is a value; see recipes/reference.toml")
        table = inner
    try:
        table[key] = decode_toml(f"value = {value}")["value"]
    except MalformedDocument as error:
        if error.__cause__ is None:  # too long or too deeply nested for any setting
            raise Misfit(f"--set {name.strip()} takes a TOML value, but {error}; give a shorter one") from error
        table[key] = value


def parse_recipe(table: dict[str, Any], where: str) -> Recipe:
    """The recipe in a table; every name and every choice must be known."""
    for name, kind in SECTIONS.items():
        section = table.get(name)
        if section is not None:
            if not isinstance(section, dict):
                raise Misfit(f"{where}: {name} must be a section, but it is {section!r}; write [{name}]")
            parse_settings(kind, section, f"{where}: [{name}]")
    recipe = parse_settings(Recipe, table, where)
    check_choices(recipe, where)
    check_combinations(recipe, where)
    return recipe


def check_choices(recipe: Recipe, where: str) -> None:
    """Every choice by name exists."""
    for name, choice, known in (
        ("task", recipe.task, TASK_NAMES),
        ("data.format", recipe.data.format, FORMATS),
        ("tokens.kind", recipe.tokens.kind, KINDS),
        ("optimizer.kind", recipe.optimizer.kind, OPTIMIZERS),
        ("schedule.kind", recipe.schedule.kind, SCHEDULES),
        ("train.precision", recipe.train.precision, PRECISIONS),
        ("train.class_weights", recipe.train.class_weights, CLASS_WEIGHTS),
        ("train.wrapping", recipe.train.wrapping, WRAPPINGS),
    ):
        check_choice(f"{where}: {name}", choice, dict.fromkeys(known))
    preset = recipe.model.get("preset")
    if preset is not None:
        check_choice(f"{where}: model.preset", str(preset), PRESETS)
    for name, source in FROM_DATA.items():
        if name in recipe.model:
            raise Misfit(f"{where}: model.{name} comes from {source}, but it is in [model] too; leave it out")


def check_combinations(recipe: Recipe, where: str) -> None:
    """The settings fit together: a length, held-out data, and nothing that the task would ignore."""
    data = recipe.data
    if bool(recipe.train.updates) == bool(recipe.train.epochs):
        raise Misfit(
            f"{where}: a run needs a length, but train.updates={recipe.train.updates} and"
            f" train.epochs={recipe.train.epochs}; give one of the two"
        )
    if (data.valid is None) == (not data.held_out):
        given = "neither" if data.valid is None else "both"
        raise Misfit(
            f"{where}: a model is evaluated on unseen data, data.valid or data.held_out of data.train, but {given} was"
            " given; give one of the two"
        )
    if recipe.vectors is not None and recipe.task != "classify":
        raise Misfit(f"{where}: [vectors] are for task = 'classify', but it is {recipe.task!r}; leave the section out")
    for name, section in (("[augment]", recipe.augment), ("data.everyday", data.everyday)):
        if section is not None and recipe.task != "translate":
            raise Misfit(f"{where}: {name} is for task = 'translate', but it is {recipe.task!r}; leave it out")
    if recipe.augment is not None and data.store is not None:
        raise Misfit(f"{where}: [augment] changes pairs in memory, but data.store keeps them on disk; leave out one")
    check_fine_tuning(recipe, where)
    check_classification(recipe, where)
    if recipe.tokens.sample and data.store is None:
        raise Misfit(f"{where}: tokens.sample is for a corpus with data.store, but there is none; leave it out")
    if data.test and recipe.task == "write":
        raise Misfit(f"{where}: task = 'write' has no test set, but data.test={data.test}; leave it out")


def check_classification(recipe: Recipe, where: str) -> None:
    """Settings of classifiers are not given to another task."""
    for name, given in (
        ("class_weights", recipe.train.class_weights != "none"),
        ("consistency", recipe.train.consistency),
    ):
        if given and recipe.task != "classify":
            raise Misfit(f"{where}: train.{name} is for task = 'classify', but it is {recipe.task!r}; leave it out")


def check_fine_tuning(recipe: Recipe, where: str) -> None:
    """The settings of a run that starts from a model fit together."""
    if recipe.lora is not None and recipe.start is None:
        raise Misfit(f"{where}: [lora] updates a trained model, but there is no [start]; name one there")
    if recipe.lora is not None and recipe.start is not None and recipe.start.freeze:
        raise Misfit(f"{where}: [lora] freezes all but its updates, but start.freeze is there too; leave it out")
    if recipe.lora is not None and recipe.train.compile:
        raise Misfit(f"{where}: train.compile does not know [lora], but both are there; leave out one")
    if adopts_model(recipe):
        if recipe.tokens != TokenizerSettings(sample=recipe.tokens.sample):
            raise Misfit(f"{where}: [start] brings its tokenizer, but there is [tokens] too; leave that section out")
        if recipe.vectors is not None:
            raise Misfit(f"{where}: [start] brings its embedding, but there is [vectors] too; leave that section out")


def adopts_model(recipe: Recipe) -> bool:
    """Whether the run goes on with the model of [start]: its sizes, its tokenizer and its parameters.

    A translator whose [model] has sizes of its own only takes over parameters (`training/starting_model.py`).
    """
    own_sizes = recipe.task == "translate" and bool(recipe.model)
    return recipe.start is not None and not own_sizes


def list_files(files: Files | None) -> list[str]:
    return [files] if isinstance(files, str) else files or []


def model_config(kind: type[Config], recipe: Recipe, vocabulary: int, **defaults: Any) -> Config:
    """The model's config: defaults, then the recipe's preset, then its [model]; unknown names are errors."""
    settings = {name: value for name, value in recipe.model.items() if name != "preset"}
    preset = recipe.model.get("preset")
    start = msgspec.structs.asdict(PRESETS[preset](vocabulary)) if preset else {}
    return parse_settings(kind, {**defaults, **start, "vocabulary": vocabulary, **settings}, "the recipe's [model]")


def with_precision(recipe: Recipe, name: str) -> Recipe:
    return msgspec.structs.replace(recipe, train=msgspec.structs.replace(recipe.train, precision=name))


def fixed_settings(recipe: Recipe) -> dict[str, Any]:
    """The part of a recipe that a run cannot change once it started, as JSON has it."""
    table = msgspec.json.decode(msgspec.json.encode(recipe))
    train = {name: value for name, value in table["train"].items() if name not in FREE_OF_TRAIN}
    if table["data"]["store"] is not None:
        table["data"]["store"] = "on disk"  # where does not matter
    return {name: value for name, value in table.items() if name not in FREE} | {"train": train}
