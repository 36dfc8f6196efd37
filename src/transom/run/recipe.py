"""A recipe: all that a training run is made of, in one TOML file. `recipes/reference.toml` explains every setting."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from transom.files.documents import MOST_PARTS, Malformed, decode_toml
from transom.files.outside import Limits, decoded, whole
from transom.files.strict import chosen, settings
from transom.models import PRESETS
from transom.names import Misfit
from transom.run.optimizers import OPTIMIZERS
from transom.run.parallel import WRAPPINGS
from transom.run.precision import PRECISIONS
from transom.run.schedules import SCHEDULES
from transom.text.corpora import FORMATS
from transom.text.kinds import KINDS

LONGEST = 2**20  # bytes of a recipe
Count = Annotated[int, Meta(ge=0)]
Some = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0.0, lt=1.0)]
Positive = Annotated[float, Meta(gt=0.0)]
Files = str | list[str]


class Data(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where examples come from."""

    train: Files
    format: str
    valid: Files | None = None
    held_out: Count = 0
    test: Count = 0
    columns: list[Count | str] | None = None
    skip_blank: bool = False
    longest: Some = 128


class Tokens(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How text becomes tokens."""

    kind: str = "bpe"
    vocabulary: Some = 8000
    lowercase: bool = False
    file: str | None = None


class Vectors(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Word vectors to start the embedding from."""

    file: str
    frozen: bool = False
    scale: Positive = 1.0


class Optimizer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    kind: str = "adamw"
    rate: Positive = 1e-3
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: Positive = 1e-9
    decay: Annotated[float, Meta(ge=0.0)] = 0.0


class Schedule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    kind: str = "inverse_sqrt"
    warmup: Count = 0
    final: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0


class Train(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long, how large, how often."""

    tokens: Some = 4096
    block: Some = 64
    rows: Some = 12
    accumulate: Some = 1
    updates: Count = 0
    epochs: Count = 0
    clip: Annotated[float, Meta(ge=0.0)] = 1.0
    smoothing: Share = 0.0
    precision: str = "float32"
    compile: bool = False
    wrapping: str = "ddp"
    threads: Count = 0
    report_every: Some = 50
    judge_every: Some = 500
    checkpoint_every: Some = 500
    keep: Some = 3
    average: Some = 1
    patience: Count = 0
    tensorboard: bool = False


class Judge(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a model is judged on what was held out."""

    examples: Count = 0
    beams: Some = 1
    write: bool = True


class Recipe(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    task: str
    folder: str
    data: Data
    seed: Count = 1
    tokens: Tokens = field(default_factory=Tokens)
    vectors: Vectors | None = None
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    train: Train = field(default_factory=Train)
    judge: Judge = field(default_factory=Judge)


SECTIONS: dict[str, type[Struct]] = {
    "data": Data,
    "tokens": Tokens,
    "vectors": Vectors,
    "optimizer": Optimizer,
    "schedule": Schedule,
    "train": Train,
    "judge": Judge,
}
TASK_NAMES = ("translate", "write", "classify")
FOUND_OUT = {"vocabulary": "the tokenizer", "labels": "the examples"}  # of [model], never given


def read(path: Path, sets: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, with `key=value` changes on top; paths in it count from the present folder."""
    content = whole(path, Limits(document=LONGEST), "is it another file?")
    try:
        table = decode_toml(decoded(path, content))
    except Malformed as error:
        raise Misfit(f"the recipe {path} should be TOML, but {error}; see recipes/reference.toml") from error
    for one in sets:
        put(table, one)
    return checked(table, str(path))


def put(table: dict[str, Any], change: str) -> None:
    """`section.key=value` into the table; the value is TOML, or a plain word."""
    name, equals, value = change.partition("=")
    if not equals or not name.strip():
        raise Misfit(f"--set takes key=value, but got {change!r}; as in --set train.updates=100")
    *sections, key = name.strip().split(".", MOST_PARTS)
    if "." in key:
        raise Misfit(
            f"--set takes a key of at most {MOST_PARTS} parts, but got {name[:60]!r}…; see recipes/reference.toml"
        )
    for section in sections:
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise Misfit(f"--set {change} goes into {section!r}, but that is no section; see recipes/reference.toml")
        table = inner
    try:
        table[key] = decode_toml(f"value = {value}")["value"]
    except Malformed as error:
        if error.__cause__ is None:  # out of bounds: no word of a recipe is so
            raise Misfit(f"--set {name.strip()} takes a value of TOML, but {error}; give a shorter one") from error
        table[key] = value


def checked(table: dict[str, Any], where: str) -> Recipe:
    """The recipe in a table, every name known and every choice there."""
    for name, kind in SECTIONS.items():
        section = table.get(name)
        if section is not None:
            if not isinstance(section, dict):
                raise Misfit(f"{where}: {name} must be a section, but it is {section!r}; write [{name}]")
            settings(kind, section, f"{where}: [{name}]")
    recipe = settings(Recipe, table, where)
    check_choices(recipe, where)
    check_together(recipe, where)
    return recipe


def check_choices(recipe: Recipe, where: str) -> None:
    """Every choice by name is one that exists."""
    for name, word, known in (
        ("task", recipe.task, TASK_NAMES),
        ("data.format", recipe.data.format, FORMATS),
        ("tokens.kind", recipe.tokens.kind, KINDS),
        ("optimizer.kind", recipe.optimizer.kind, OPTIMIZERS),
        ("schedule.kind", recipe.schedule.kind, SCHEDULES),
        ("train.precision", recipe.train.precision, PRECISIONS),
        ("train.wrapping", recipe.train.wrapping, WRAPPINGS),
    ):
        chosen(f"{where}: {name}", word, dict.fromkeys(known))
    preset = recipe.model.get("preset")
    if preset is not None:
        chosen(f"{where}: model.preset", str(preset), PRESETS)
    for name, source in FOUND_OUT.items():
        if name in recipe.model:
            raise Misfit(f"{where}: model.{name} comes from {source}, but it is in [model] too; leave it out")


def check_together(recipe: Recipe, where: str) -> None:
    """What is asked for goes together: a length, something to be judged on, and nothing that the task would ignore."""
    data = recipe.data
    if bool(recipe.train.updates) == bool(recipe.train.epochs):
        raise Misfit(
            f"{where}: a run has a length, but train.updates={recipe.train.updates} and"
            f" train.epochs={recipe.train.epochs}; give one of the two"
        )
    if (data.valid is None) == (not data.held_out):
        came = "neither" if data.valid is None else "both"
        raise Misfit(
            f"{where}: a model is judged on what it never saw, data.valid or data.held_out of data.train, but {came}"
            " came; give one of the two"
        )
    if recipe.vectors is not None and recipe.task != "classify":
        raise Misfit(f"{where}: [vectors] are for task = 'classify', but it is {recipe.task!r}; leave the section out")
    if data.test and recipe.task == "write":
        raise Misfit(
            f"{where}: task = 'write' is judged on data.valid or data.held_out, but data.test={data.test}; leave it out"
        )


def model_settings(recipe: Recipe, vocabulary: int) -> dict[str, Any]:
    """What the recipe says of the model, over its preset; unknown names are errors."""
    given = {name: value for name, value in recipe.model.items() if name != "preset"}
    preset = recipe.model.get("preset")
    start = msgspec.structs.asdict(PRESETS[preset](vocabulary)) if preset else {}
    return {**start, "vocabulary": vocabulary, **given}


def with_precision(recipe: Recipe, name: str) -> Recipe:
    """The same recipe in a precision of that name."""
    return msgspec.structs.replace(recipe, train=msgspec.structs.replace(recipe.train, precision=name))
