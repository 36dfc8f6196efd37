"""Settings that have no effect: none of them is passed over in silence, since its author thinks that it counts.

What a setting means depends on the form of a lesson:

* embeddings and parameters: all settings; d_head is the width of W_Q, d_value that of W_V
* parameters of a model: heads, d_head and d_value are the model's, and so are all matrices
* given Q, K and V: one head without parameters or a block around it; d_head is the width of Q, d_value that of V
* given scores: as before, and d_head must be given where scale = true, since scores do not say it

A size that is given must be the one that follows. A setting that decides nothing is refused, unless another layer or
case of the lesson uses it, or it says what is so anyway: `residual = false`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from transom.lessons.lines import Path
from transom.lessons.setup import Layer
from transom.lessons.table import Table
from transom.names import Misfit

DEFAULTS = {
    "heads": 1,
    "narrow": False,
    "similarity": "dot",
    "positions": "none",
    "residual": False,
    "norm": "none",
    "norm_first": False,
    "activation": "relu",
}


@dataclass
class SettingsLog:
    """Which settings the cases of a lesson use, and the complaint about each that one of them does not use."""

    used: set[Path] = field(default_factory=set)
    unused: dict[Path, Misfit] = field(default_factory=dict)

    def record(self, table: Table, reasons: Mapping[str, str]) -> None:
        """Note every setting of a table: without effect where there is a reason, used where there is none."""
        for name, value in table.settings.items():
            place = table.place_of(name)
            if name in reasons and value != DEFAULTS.get(name):
                complaint = f"{name} should have an effect, but it has none here: {reasons[name]}"
                self.unused.setdefault(place, table.wrong(name, complaint))
            else:
                self.used.add(place)

    def record_nothing(self, table: Table, names: Iterable[str]) -> None:
        """Note settings of a case that computes no attention at all."""
        reason = "without tokens no attention is computed; give tokens, or leave it out"
        self.record(table, {name: reason for name in names})

    def record_embeddings(self, table: Table) -> None:
        """Note what the tokens start from."""
        reasons = {}
        if "at" not in table:
            reasons["at_embeddings"] = "no tokens are named to look at; give at, or leave it out"
        self.record(table, reasons)

    def record_layer(self, table: Table, layer: Layer) -> None:
        """Note what a layer is made of."""
        attention, parameters, block = (table.table(name) for name in ("attention", "parameters", "block"))
        from_a_model = "model" in parameters
        narrow = "the heads of a model are as it has them; leave it out"
        self.record(attention, {"narrow": narrow} if from_a_model else {})
        self.record(parameters, model_reasons(parameters) if from_a_model else parameter_reasons(parameters, layer))
        self.record(block, block_reasons(layer))

    def record_given(self, table: Table, scores: bool, scale: bool, similarity: str) -> None:
        """Note what there is beside given Q, K and V, or given scores."""
        word = "scores are" if scores else "Q and K are"
        nothing = f"{word} given, so nothing is made of it; leave it out"
        self.record(table, dict.fromkeys(("embeddings", "d_model", "positions", "at_embeddings", "layer"), nothing))
        attention = {"heads": nothing, "narrow": nothing}
        if scores:
            attention["similarity"] = "the scores are given, so nothing is compared; leave it out"
            attention["d_head"] = (
                "given scores are divided by √d_head only where scale = true; write that, or leave it out"
            )
        if scale:
            attention.pop("d_head", None)
        self.record(table.table("attention"), attention)
        parameters = table.table("parameters")
        used = {"w"} if similarity == "additive" and not scores else set[str]()
        self.record(parameters, dict.fromkeys(set(parameters.settings) - used, nothing))
        block = table.table("block")
        around = "what is given has no block around it; give embeddings, or leave it out"
        self.record(block, dict.fromkeys(block.settings, around))

    def complaints(self) -> dict[Path, Misfit]:
        """The complaint about each setting that no case uses."""
        return {path: complaint for path, complaint in self.unused.items() if path not in self.used}


def model_reasons(parameters: Table) -> dict[str, str]:
    """All matrices come from the model that is named."""
    reason = "the parameters come from the model; leave it out, or leave model out"
    return {name: reason for name in parameters.settings if name not in ("model", "layer")}


def parameter_reasons(parameters: Table, layer: Layer) -> dict[str, str]:
    """Why parameters take no part in a layer."""
    found, reasons = layer.parameters, {}
    reasons["layer"] = "no model is named whose layer it is; give model, or leave it out"
    if "W_O" not in found:
        reasons["b_O"] = "it is added after W_O, which is not given; give W_O, or leave it out"
    if "V_down" in found:
        reasons["W_V"] = "values are made by V_down and V_up; leave one of the two ways out"
    else:
        reasons["V_down"] = reasons["V_up"] = "values are made by W_V; give V_down and V_up, or leave it out"
    if "w" not in found:
        reasons["w"] = 'only additive similarity uses it; write similarity = "additive", or leave it out'
    if layer.block.norm == "none":
        reasons["gain"] = reasons["bias"] = "there is no norm; give norm in [block], or leave it out"
    if layer.block.norm == "none" or "W_1" not in found:
        reasons["gain_2"] = reasons["bias_2"] = (
            "there is no second norm; give norm in [block] and a feed-forward W_1 and W_2, or leave it out"
        )
    return reasons


def block_reasons(layer: Layer) -> dict[str, str]:
    """Why settings of the block around an attention decide nothing."""
    reasons = {}
    if layer.block.norm == "none":
        reasons["norm_first"] = "there is no norm; give norm, or leave it out"
    if "W_1" not in layer.parameters:
        reasons["activation"] = "there is no feed-forward; give W_1 and W_2, or leave it out"
    return reasons
