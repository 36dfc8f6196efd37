"""The setup of a lesson: its settings, the tokens and layers they describe, and which settings have no effect.

What a setting means depends on the form of a lesson:

* embeddings and parameters: all settings; d_head is the width of W_Q, d_value the width of W_V
* parameters of a model: heads, d_head and d_value are the model's, and so are all matrices
* given Q, K and V: one head without parameters or a block; d_head is the width of Q, d_value the width of V
* given scores: the same, and d_head must be given with scale = true, since scores do not show it

A size that is given must be the one that follows. A setting without effect is an error, because its author expects it
to count; unless another layer or case of the lesson uses it, or it is the default: `residual = false`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from transom.lessons.head_steps import SIMILARITIES
from transom.lessons.step_builders import ACTIVATIONS, NORMS, StepChange, StepInfo
from transom.lessons.steps import Labels, Matrix
from transom.lessons.toml_source import Path, TomlTable
from transom.names import Misfit

MOST_TOKENS, WIDEST, MOST_HEADS, MOST_LAYERS = 256, 1024, 64, 16
SETUP = ("tokens", "embeddings", "d_model", "positions", "at", "at_embeddings", "value_embeddings", "given")
SETUP += ("attention", "parameters", "block", "cross", "layer", "encoder", "vocabulary", "decoding")
VECTORS = ("embeddings", "d_model", "positions", "at_embeddings", "value_embeddings")
GIVEN = ("Q", "K", "V", "scores")
ATTENTION = ("heads", "kv_heads", "d_head", "d_value", "scale", "temperature", "similarity", "narrow", "fold", "mask")
PARAMETERS = ("all", "model", "layer", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "V_down", "V_up", "w")
PARAMETERS += ("W_1", "b_1", "W_2", "b_2", "gain", "bias", "gain_2", "bias_2")
BLOCK = ("residual", "norm", "norm_first", "around", "activation")
LIMITS = {  # the least and most of a number, the choices of a text; defaults are those of the dataclasses
    "heads": (1, MOST_HEADS),
    "scale": (),
    "temperature": (1e-6, 1e6),
    "similarity": tuple(SIMILARITIES),
    "narrow": (),
    "fold": (),
    "residual": (),
    "norm": NORMS,
    "norm_first": (),
    "around": ("both", "feed_forward"),
    "activation": tuple(ACTIVATIONS),
}


@dataclass(frozen=True, eq=False)
class AttentionSettings:
    """How a layer attends.

    kv_heads  how many heads of keys and values there are; 0 for as many as heads
    fold      whether Q, K and V of all heads are shown as one wide matrix first
    d_head    the width of a query and a key; 0 if it is not known, as with given scores that are not scaled
    allowed   True where a row may look; None for everywhere
    divisor   "√d_head", or a mistake: "d_head" or "√d_model"
    axis      the axis of the softmax; −1 are the keys; a mistake may take another, or all (None)
    """

    heads: int = 1
    d_head: int = 1
    scale: bool = True
    temperature: float = 1.0
    similarity: str = "dot"
    narrow: bool = False
    fold: bool = False
    kv_heads: int = 0
    allowed: NDArray[np.bool_] | None = None
    divisor: str = "√d_head"
    axis: int | None = -1

    def kv_head(self, head: int) -> int:
        """Which head of keys and values a head uses: neighbours share one."""
        return head * (self.kv_heads or self.heads) // self.heads


@dataclass(frozen=True, eq=False)
class BlockSettings:
    """What is around the attention; `around` says around which parts residual and norm are."""

    residual: bool = False
    norm: str = "none"
    norm_first: bool = False
    around: str = "both"
    activation: str = "relu"

    @property
    def norm_before(self) -> bool:
        return self.norm != "none" and self.norm_first

    @property
    def norm_after(self) -> bool:
        return self.norm != "none" and not self.norm_first


SettingsKind = TypeVar("SettingsKind", AttentionSettings, BlockSettings)


def read_layer_settings(table: TomlTable, kind: type[SettingsKind]) -> SettingsKind:
    """The settings of a table that LIMITS lists, as `kind` holds them."""
    rows = [row for row in fields(kind) if row.name in LIMITS]
    return kind(**{row.name: table.setting(row.name, row.default, *LIMITS[row.name]) for row in rows})


@dataclass(frozen=True, eq=False)
class LessonLayer:
    """A layer; its parameters by name. W_Q, W_K and W_V have a matrix for each head: (heads, in, out).

    cross   the cross-attention of a decoder block, with a norm of its own; None if there is none
    """

    attention: AttentionSettings
    parameters: Mapping[str, NDArray[np.float64]]
    block: BlockSettings
    cross: "LessonLayer | None" = None


@dataclass(frozen=True)
class Rounding:
    """Steps rounded, or cut, to so many decimals before the next: a common mistake; no `steps` are all of them."""

    digits: int
    cut: bool = False
    steps: frozenset[str] = frozenset()

    def __call__(self, info: StepInfo, values: Matrix) -> Matrix:
        if info.name not in self.steps and (self.steps or info.name in ("powers", "total")):
            return values
        return self.round_values(values)

    def round_values(self, values: Matrix) -> Matrix:
        unit = 10.0**self.digits
        # A number like 0.29 is 0.28999… in float64: it must not be cut to 0.28.
        return np.floor(values * unit + 1e-9) / unit if self.cut else np.round(values, self.digits)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens that can come next, a vector for each, and what is added to its logit.

    targets      the right next token of each row, for a loss; None if there is no loss
    embeddings   what a token that was written goes in with
    """

    tokens: Labels
    vectors: Matrix
    embeddings: Matrix
    b: Matrix | None = None
    targets: Labels | None = None


@dataclass(frozen=True)
class Decoding:
    """How many tokens are written, the likeliest each time; `stop` ends it earlier."""

    steps: int
    stop: str = ""


@dataclass(frozen=True, eq=False)
class LessonSetup:
    """All that is needed to compute the steps of a lesson.

    start      by name: "embedding" (and "at_embedding", "value_embedding", "positions"), or given "Q", "K", "V", or
               given "scores"
    at         the tokens looked at, if they are others than `tokens`
    places     "rotary" or "alibi", if places enter inside the attention
    encoder    computed first: its output is what is looked at
    change     None, unless a mistake is tried
    note       what is assumed because the lesson does not say it, or ""
    """

    tokens: Labels
    start: Mapping[str, Matrix]
    layers: tuple[LessonLayer, ...]
    at: Labels | None = None
    change: StepChange | None = None
    note: str = ""
    places: str = ""
    encoder: "LessonSetup | None" = None
    vocabulary: Vocabulary | None = None
    decoding: Decoding | None = None

    @property
    def key_tokens(self) -> Labels:
        return self.tokens if self.at is None else self.at


DEFAULTS = {row.name: row.default for row in (*fields(AttentionSettings), *fields(BlockSettings)) if row.name in LIMITS}
DEFAULTS["positions"] = "none"


def has(name: str) -> Callable[[LessonLayer], bool]:
    return lambda layer: name in layer.parameters


def has_norm(layer: LessonLayer) -> bool:
    return layer.block.norm != "none"


NEEDS: dict[str, tuple[Callable[[LessonLayer], bool], str]] = {  # when a setting has an effect, and the reason if not
    "layer": (lambda layer: False, "no model is named whose layer it is; give model, or leave it out"),
    "b_O": (has("W_O"), "it is added after W_O, which is not given; give W_O, or leave it out"),
    "W_V": (lambda layer: "V_down" not in layer.parameters, "values are made by V_down and V_up; leave it out"),
    "V_down": (has("V_down"), "values are made by W_V; give V_down and V_up, or leave it out"),
    "V_up": (has("V_down"), "values are made by W_V; give V_down and V_up, or leave it out"),
    "w": (has("w"), 'only additive similarity uses it; write similarity = "additive", or leave it out'),
    "gain": (has_norm, "there is no norm; give norm in [block], or leave it out"),
    "bias": (has_norm, "there is no norm; give norm in [block], or leave it out"),
    "gain_2": (
        lambda layer: has_norm(layer) and "W_1" in layer.parameters,
        "there is no second norm; give norm in [block] and a feed-forward W_1 and W_2, or leave it out",
    ),
    "around": (
        lambda layer: "W_1" in layer.parameters and (has_norm(layer) or layer.block.residual),
        "there is no residual or norm, or no feed-forward that it could be around; give them, or leave it out",
    ),
    "fold": (lambda layer: layer.attention.heads > 1, "there is one head; give heads, or leave it out"),
    "norm_first": (has_norm, "there is no norm; give norm, or leave it out"),
    "activation": (has("W_1"), "there is no feed-forward; give W_1 and W_2, or leave it out"),
}
NEEDS["bias_2"] = NEEDS["gain_2"]


@dataclass
class SettingsLog:
    """Which settings the cases of a lesson use, and an error for each that some case does not use."""

    used: set[Path] = field(default_factory=set)
    unused: dict[Path, Misfit] = field(default_factory=dict)

    def record(self, table: TomlTable, reasons: Mapping[str, str]) -> None:
        """Note every setting of a table: without effect if there is a reason, else used."""
        for name, value in table.settings.items():
            path = table.path_of(name)
            if name in reasons and value != DEFAULTS.get(name):
                complaint = f"{name} should have an effect, but it has none here: {reasons[name]}"
                self.unused.setdefault(path, table.error(name, complaint))
            else:
                self.used.add(path)

    def record_layer(self, table: TomlTable, layer: LessonLayer) -> None:
        """Note the settings of a layer."""
        attention, parameters, block = (table.table(name) for name in ("attention", "parameters", "block"))
        reasons = {name: reason for name, (is_used, reason) in NEEDS.items() if not is_used(layer)}
        if "model" in parameters:
            self.record(attention, {"narrow": "the heads of a model are as it has them; leave it out"})
            unused = "the parameters come from the model; leave it out, or leave model out"
            self.record(parameters, dict.fromkeys(set(parameters.settings) - {"model", "layer"}, unused))
        else:
            self.record(attention, reasons)
            self.record(parameters, reasons)
        self.record(block, reasons)

    def record_given(self, table: TomlTable, has_scores: bool, attention: AttentionSettings) -> None:
        """Note the settings beside given Q, K and V, or given scores."""
        unused = f"{'scores are' if has_scores else 'Q and K are'} given, so nothing is made of it; leave it out"
        self.record(table, dict.fromkeys((*VECTORS, "layer"), unused))
        reasons: dict[str, str] = dict.fromkeys(("heads", "kv_heads", "narrow", "fold"), unused)
        if has_scores:
            reasons["similarity"] = "the scores are given, so nothing is compared; leave it out"
        if has_scores and not attention.scale:
            reasons["d_head"] = (
                "given scores are divided by √d_head only with scale = true; write that, or leave it out"
            )
        self.record(table.table("attention"), reasons)
        used = {"w"} if attention.similarity == "additive" else set[str]()
        parameters, block = table.table("parameters"), table.table("block")
        self.record(parameters, dict.fromkeys(set(parameters.settings) - used, unused))
        reason = "what is given has no block around it; give embeddings, or leave it out"
        self.record(block, dict.fromkeys(block.settings, reason))

    def errors(self) -> dict[Path, Misfit]:
        """The error about each setting that no case uses."""
        return {path: error for path, error in self.unused.items() if path not in self.used}
