"""A model in the layout of a family: other parameters and another config that compute the same."""

from typing import Any

import msgspec
import torch
from torch import Tensor

from transom.models.config import Config
from transom.models.hugging_face.family import Family
from transom.models.model import Model


def equivalent_model(model: Model, family: Family) -> tuple[Config, dict[str, Tensor]]:
    """A config and parameters that give the same results, as far as the family's layout is another."""
    config: Any = model.config
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if config.positions == "rotary" and not config.position_halves:
        config, parameters = pair_halves(config, parameters)
    if config.positions == "sinusoidal" and not config.position_halves:
        config, parameters = sort_sinusoids(config, parameters)
    if config.scaled and family.kind == "decoder":
        config, parameters = scale_embedding(config, parameters)
    if family.keeps_bias and not (config.bias and config.norm == "layer"):
        config, parameters = add_zero_biases(config, parameters, family)
    if "logits_bias" in family.names and not config.logits_bias:
        zeros = torch.zeros(config.vocabulary, dtype=next(iter(parameters.values())).dtype)
        config = msgspec.structs.replace(config, logits_bias=True)
        parameters = {**parameters, "logits_bias": zeros}
    return config, parameters


def pair_halves(config: Any, parameters: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    """Rotary positions that pair number i with i + d_head/2: the rows of W_Q and W_K in another order."""
    d_head = config.d_head or config.d_model // config.heads
    order = torch.arange(d_head).view(-1, 2).mT.flatten()
    changed = dict(parameters)
    for name, parameter in parameters.items():
        if ".attention.W_Q." in name or ".attention.W_K." in name:
            changed[name] = parameter.unflatten(0, (-1, d_head))[:, order].flatten(0, 1)
        elif ".attention.norm_Q." in name or ".attention.norm_K." in name:
            changed[name] = parameter[order]
    return msgspec.structs.replace(config, position_halves=True), changed


def scale_embedding(config: Any, parameters: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    """An embedding that is not scaled any more: √d_model is in its vectors, and the output has those without it."""
    changed = dict(parameters)
    changed["embedding.vectors"] = parameters["embedding.vectors"] * config.d_model**0.5
    changed["output"] = parameters.get("output", parameters["embedding.vectors"])
    return msgspec.structs.replace(config, scaled=False, tying="none"), changed


# Of the parameters whose last axis, or whose first, is the vector between the layers: how their names end.
READS_VECTOR = (
    *(f"{name}.weight" for name in ("W_Q", "W_K", "W_V", "W_1", "W_gate", "W_up")),
    "vectors",
    "output",
)
WRITES_VECTOR = ("W_O.weight", "W_2.weight", "W_down.weight", "W_O.bias", "W_2.bias", "W_down.bias")


def sort_sinusoids(config: Any, parameters: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    """Sinusoids with all sines first: the numbers of every vector between the layers in another order."""
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    changed = dict(parameters)
    for name, parameter in parameters.items():
        is_norm = ".norm_" in name or ".closing." in name or "embedding.norm." in name
        if name.endswith(READS_VECTOR):
            changed[name] = parameter[:, order]
        elif is_norm or name.endswith(WRITES_VECTOR):
            changed[name] = parameter[order]
    return msgspec.structs.replace(config, position_halves=True), changed


def add_zero_biases(config: Any, parameters: dict[str, Tensor], family: Family) -> tuple[Any, dict[str, Tensor]]:
    """Biases of zero where the model has none and the family always has one."""
    changed: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        changed[name] = parameter
        bias = name.removesuffix("weight") + "bias"
        if name.endswith(".weight") and bias not in parameters:
            changed[bias] = parameter.new_zeros(parameter.shape[0])
    if config.norm != "layer":
        return config, parameters
    return msgspec.structs.replace(config, bias=True, qkv_bias=None, output_bias=None, hidden_bias=None), changed
