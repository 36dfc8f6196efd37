"""Fine-tuning: a trained model to go on with, parts of it frozen, rates by depth, and LoRA."""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace
from torch import nn

from transom.files.strict_settings import suggest
from transom.layers.lora import add_lora
from transom.models import MODELS, Model
from transom.names import Misfit
from transom.training.inference import load_for_task
from transom.training.recipe import Recipe

CHANGEABLE = ("dropout", "attention_dropout", "hidden_dropout")  # settings of [model] that no parameter depends on
BLOCK = re.compile(r"^(.*blocks)\.(\d+)\.")


def adopt_model(recipe: Recipe, kind: str, note: Callable[[str], None], **changes: Any) -> Model:
    """A new model like the one that the recipe starts from, with its parameters.

    changes   settings of the config that are not as they were, such as the labels; a part that depends on them, and
              one that the old model does not have, starts anew
    """
    assert recipe.start is not None
    for name in recipe.model:
        if name not in CHANGEABLE:
            raise Misfit(
                f"the recipe's [model] has {name!r}, but [start] brings the model with its sizes; only"
                f" {', '.join(CHANGEABLE)} may change; {suggest(name, CHANGEABLE)}"
            )
    old = load_for_task(Path(recipe.start.model), kind).model
    config = replace(old.config, **recipe.model, **changes)
    model = MODELS[kind](config)
    before = dict(old.named_parameters())
    same_labels = getattr(old.config, "labels", ()) == getattr(config, "labels", ())
    new = []
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if (
                name in before
                and before[name].shape == parameter.shape
                and (same_labels or not name.startswith("head."))
            ):
                parameter.copy_(before[name])
            else:
                new.append(name)
    if old.generation is not None:
        model.generation = old.generation
    note(f"{recipe.start.model}: {len(before)} tensors to start from" + (f"; new: {', '.join(new)}" if new else ""))
    return model


def prepare_fine_tuning(model: Model, recipe: Recipe, note: Callable[[str], None]) -> None:
    """Freeze the parts that the recipe names, or all but a LoRA and the head; called once, before the optimizer."""
    if recipe.lora is not None:
        settings = recipe.lora
        chosen = add_lora(model, settings.names, settings.rank, settings.alpha)
        train_named(model, settings.also)
        note(f"LoRA of rank {settings.rank} on {len(chosen)} projections; {count_trained(model):,} numbers are trained")
    elif recipe.start is not None and recipe.start.freeze:
        freeze_named(model, recipe.start.freeze)
        note(f"{count_trained(model):,} of {model.count():,} numbers are trained, the others are frozen")
    if not count_trained(model):
        raise Misfit("start.freeze leaves something to train, but it names every parameter; name fewer")


def count_trained(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def freeze_named(model: nn.Module, patterns: Sequence[str]) -> None:
    """Parameters whose names fit a pattern are not trained."""
    for parameter in find_parameters(model, patterns, "start.freeze"):
        parameter.requires_grad_(False)


def train_named(model: nn.Module, patterns: Sequence[str]) -> None:
    """Parameters whose names fit a pattern are trained beside a LoRA."""
    for parameter in find_parameters(model, patterns, "lora.also"):
        parameter.requires_grad_(True)


def find_parameters(model: nn.Module, patterns: Sequence[str], setting: str) -> list[nn.Parameter]:
    """The parameters whose names fit a pattern; a pattern that fits none is an error."""
    named, found = dict(model.named_parameters()), list[nn.Parameter]()
    for pattern in patterns:
        fitting = [parameter for name, parameter in named.items() if fnmatchcase(name, pattern)]
        if not fitting:
            raise Misfit(
                f"{setting} has {pattern!r}, but no parameter is called so; they are called like {next(iter(named))!r},"
                " and * stands for any letters"
            )
        found += fitting
    return found


def depth_shares(model: nn.Module, decay: float) -> dict[str, float]:
    """The share of the rate for each parameter: decay to the power of how far its part is from the output.

    The head and the last norm have the whole rate, the last block decay, the one below it decay², …, and embeddings
    one power more than the first block (Howard & Ruder 2018, section 3.2, for whole layers).
    """
    names = [name for name, _ in model.named_parameters()]
    blocks: dict[str, int] = {}
    for name in names:
        if match := BLOCK.match(name):
            blocks[match[1]] = max(blocks.get(match[1], 0), int(match[2]) + 1)
    deepest = max(blocks.values(), default=0) + 1

    def distance(name: str) -> int:
        match = BLOCK.match(name)
        if match:
            return blocks[match[1]] - int(match[2])
        is_embedding = any(part == "embedding" or part.endswith("_embedding") for part in name.split("."))
        return deepest if is_embedding else 0

    return {name: decay ** distance(name) for name in names}
