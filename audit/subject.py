"""What is audited: a small model with its inputs, built from an architecture's name and an attention implementation."""

import random
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from transformers import CONFIG_MAPPING, MODEL_MAPPING, PreTrainedModel

from audit.architectures import SKIPPED, find_settings
from audit.model_inputs import candidate_inputs
from audit.small_configs import WAYS, shrink

SEED = 47
MOST_PARAMETERS = 60_000_000
SECONDS_TO_BUILD = 15.0  # of this process; after that no other way is tried
SPREAD = 1.5  # parameters are drawn so that their products with unit vectors have about this size


class NotBuildable(Exception):
    """No small model of this architecture can be built and run here; the message says why."""


class NotOffered(Exception):
    """The architecture does not have this implementation of attention."""


@dataclass
class Subject:
    """A model that runs on its inputs; `eager` is a model with the same parameters that returns its weights."""

    model: nn.Module
    inputs: dict[str, Any]
    positional: tuple[Any, ...] = ()
    eager: nn.Module | None = None
    batch: int = 2
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def lengths(self) -> set[int]:
        """How many tokens, or whatever else stands in a row, the inputs have."""
        inputs = [x for x in (*self.positional, *self.inputs.values()) if isinstance(x, Tensor)]
        return {x.shape[1] for x in inputs if x.dim() in (2, 3)}

    def run(self, model: nn.Module | None = None, **options: Any) -> Any:
        """One call without gradients, with the same random numbers each time."""
        seed_all()
        with torch.no_grad():
            return (model or self.model)(*self.positional, **self.inputs, **options)


def seed_all() -> None:
    torch.manual_seed(SEED)
    random.seed(SEED)


def numbers(result: Any) -> list[Tensor]:
    """All tensors of a result, caches left out, in order."""
    if isinstance(result, dict):
        result = {
            name: value for name, value in result.items() if "past_key_values" not in name and "cache" not in name
        }
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


def model_class(architecture: str) -> type[PreTrainedModel]:
    """The plain model of an architecture, without a head where it has one; for a part of a model, the part."""
    config = CONFIG_MAPPING[architecture]
    try:
        found: Any = MODEL_MAPPING[config]
        return found[0] if isinstance(found, tuple) else found
    except (KeyError, ValueError):
        module = import_module(config.__module__.replace(".configuration_", ".modeling_"))
    parts = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, PreTrainedModel)]
    parts = [part for part in parts if takes_config(part, config) and not part.__name__.endswith("PreTrainedModel")]
    if not parts:
        raise NotBuildable(f"no class of transformers takes a {config.__name__} alone")
    return min(parts, key=lambda part: (not part.__name__.endswith("Model"), len(part.__name__)))


def takes_config(part: type[PreTrainedModel], config: type) -> bool:
    return config in (vars(part).get("config_class"), part.__annotations__.get("config"))


def spread_parameters(model: nn.Module) -> None:
    """Draw the matrices anew, so that weights are far from uniform: the usual start, for training, is not."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and parameter.is_floating_point() and "embed" not in name and parameter.std() > 0:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise * SPREAD / parameter.shape[1] ** 0.5)


def build_model(name: str, implementation: str, way: int) -> PreTrainedModel:
    """A small model of random parameters, the same for each implementation."""
    architecture, settings, _ = find_settings(name)
    kind = model_class(architecture)
    config = shrink(CONFIG_MAPPING[architecture](), way, settings)
    count = count_parameters(kind, config, implementation)
    if count > MOST_PARAMETERS:
        raise NotBuildable(f"{count:,} parameters")
    seed_all()
    model = kind._from_config(config, attn_implementation=implementation).eval()
    spread_parameters(model)
    return model


def count_parameters(kind: type[PreTrainedModel], config: Any, implementation: str) -> int:
    """How many parameters it would have; 0 if that cannot be told without building it."""
    try:
        with torch.device("meta"):
            model = kind._from_config(config, attn_implementation=implementation)
    except (RuntimeError, NotImplementedError, TypeError):
        return 0
    return sum(parameter.numel() for parameter in model.parameters())


def find_inputs(model: PreTrainedModel, name: str) -> dict[str, Any]:
    """The first inputs that the model runs on and that give finite numbers."""
    reasons = []
    seed_all()
    for inputs in candidate_inputs(model, find_settings(name)[2]):
        try:
            result = numbers(Subject(model, inputs).run())
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        if result and all(x.isfinite().all() for x in result if x.is_floating_point()):
            return inputs
        reasons.append("its output is not finite")
    raise NotBuildable(reasons[0] if reasons else "no inputs could be made for it")


def build_subject(name: str, implementation: str) -> Subject:
    """The smallest model that builds and runs; its reason if none does."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    if name in SKIPPED:
        raise NotBuildable(SKIPPED[name])
    reasons: list[str] = []
    started = time.process_time()
    for way in range(len(WAYS)):
        if reasons and time.process_time() - started > SECONDS_TO_BUILD:
            break
        try:
            model = build_model(name, implementation, way)
            inputs = find_inputs(model, name)
        except Exception as error:
            if "does not support an attention implementation" in str(error):
                raise NotOffered(one_line(str(error))) from error
            reasons.append(str(error) if isinstance(error, NotBuildable) else f"{type(error).__name__}: {error}")
            continue
        size = sum(parameter.numel() for parameter in model.parameters())
        eager = eager_twin(lambda way=way: build_model(name, "eager", way), model, implementation)
        return Subject(
            model, inputs, eager=eager, notes={"class": type(model).__name__, "parameters": size, "way": way}
        )
    raise NotBuildable(one_line(reasons[0]))


def eager_twin(build: Callable[[], PreTrainedModel], model: PreTrainedModel, implementation: str) -> nn.Module | None:
    """The same model with eager attention, which can return its weights; None if it offers none."""
    if implementation == "eager":
        return model
    try:
        eager = build()
    except Exception:
        return None
    eager.load_state_dict(model.state_dict())
    return eager


def one_line(text: str) -> str:
    """The first two hundred characters of a message, on one line."""
    words = " ".join(str(text).split())
    return words if len(words) <= 200 else words[:199] + "…"
