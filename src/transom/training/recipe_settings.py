"""The sections of a recipe, setting by setting, with their bounds; `recipes/reference.toml` explains each."""

from typing import Annotated

from msgspec import Meta, Struct, field

Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0.0, lt=1.0)]
Extra = Annotated[float, Meta(ge=0.0, le=10.0)]  # added pairs for each pair there is
Positive = Annotated[float, Meta(gt=0.0)]
Files = str | list[str]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section of a recipe."""


class DataSettings(Section, frozen=True, kw_only=True):
    """Where examples come from, and which are held out."""

    train: Files
    format: str
    valid: Files | None = None
    held_out: Count = 0
    test: Count = 0
    columns: list[Count | str] | None = None
    skip_blank: bool = False
    longest: AtLeastOne = 128
    everyday: Files | None = None
    store: str | None = None


class AugmentSettings(Section, frozen=True, kw_only=True):
    """More training pairs: from files, from templates, and by changing those there are (`text/augmentation.py`)."""

    pairs: Files | None = None
    times: AtLeastOne = 1
    slots: str | None = None
    templates: str | None = None
    filled: Count = 0
    swapped: list[str] = field(default_factory=list)
    case: Extra = 0.0
    typos: Extra = 0.0
    punctuation: Extra = 0.0
    emoji: Extra = 0.0
    names: Extra = 0.0
    numbers: Extra = 0.0
    joined: Extra = 0.0
    framed: Extra = 0.0


class TokenizerSettings(Section, frozen=True, kw_only=True):
    """How text becomes tokens."""

    kind: str = "bpe"
    vocabulary: AtLeastOne = 8000
    lowercase: bool = False
    case: bool = False
    digits: bool = False
    file: str | None = None
    sample: Count = 0


class VectorSettings(Section, frozen=True, kw_only=True):
    """Word vectors for the embedding to start from."""

    file: str
    frozen: bool = False
    scale: Positive = 1.0


class StartSettings(Section, frozen=True, kw_only=True):
    """A trained model for the parameters to start from, which of them stay as they are, and rates by depth."""

    model: str
    freeze: list[str] = field(default_factory=list)
    depth_decay: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0


class LoraSettings(Section, frozen=True, kw_only=True):
    """Low-rank updates of projections, by name (`layers/lora.py`)."""

    rank: AtLeastOne = 8
    alpha: Positive = 16.0
    names: Annotated[list[str], Meta(min_length=1)] = field(default_factory=lambda: ["*.W_Q", "*.W_V"])
    also: list[str] = field(default_factory=list)


class OptimizerSettings(Section, frozen=True, kw_only=True):
    kind: str = "adamw"
    rate: Positive = 1e-3
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: Positive = 1e-9
    decay: Annotated[float, Meta(ge=0.0)] = 0.0


class ScheduleSettings(Section, frozen=True, kw_only=True):
    kind: str = "inverse_sqrt"
    warmup: Count = 0
    final: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0


class TrainSettings(Section, frozen=True, kw_only=True):
    """Length, batch size, precision, and how often things happen."""

    tokens: AtLeastOne = 4096
    block: AtLeastOne = 64
    rows: AtLeastOne = 12
    accumulate: AtLeastOne = 1
    updates: Count = 0
    epochs: Count = 0
    clip: Annotated[float, Meta(ge=0.0)] = 1.0
    smoothing: Share = 0.0
    class_weights: str = "none"
    consistency: Annotated[float, Meta(ge=0.0)] = 0.0
    precision: str = "float32"
    compile: bool = False
    wrapping: str = "ddp"
    threads: Count = 0
    report_every: AtLeastOne = 50
    judge_every: AtLeastOne = 500
    checkpoint_every: AtLeastOne = 500
    keep: AtLeastOne = 3
    average: AtLeastOne = 1
    patience: Count = 0
    tensorboard: bool = False


class EvaluationSettings(Section, frozen=True, kw_only=True):
    """How a model is evaluated on held-out data."""

    examples: Count = 0
    beams: AtLeastOne = 1
    write: bool = True
