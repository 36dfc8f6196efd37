"""Which arguments of `generate` need another one to mean anything: those that were given in vain are said."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from transom.models.writing.settings import GenerationConfig


class Call(NamedTuple):
    """What an argument's effect may depend on."""

    settings: GenerationConfig  # those of the model with those of the call
    scored: bool  # whether scores are asked for
    kind: str  # of the model
    vocabulary: int


class Need(NamedTuple):
    """What an argument needs, when that is there, and the values by which it asks for nothing."""

    needed: str
    met: Callable[[Call], bool]
    neutral: tuple[Any, ...]


def draws(call: Call) -> bool:
    return call.settings.do_sample


def searches(call: Call) -> bool:
    return call.settings.num_beams > 1


SAMPLING = "do_sample=True"
NEEDS: dict[str, Need] = {
    "temperature": Need(SAMPLING, draws, (1.0,)),
    "top_k": Need(SAMPLING, draws, (None, 0)),
    "top_p": Need(SAMPLING, draws, (None, 1.0)),
    "min_p": Need(SAMPLING, draws, (None, 0.0)),
    "seed": Need(SAMPLING, draws, (None,)),
    "early_stopping": Need("num_beams above 1", searches, (False,)),
    "length_penalty": Need(
        "num_beams above 1 or return_scores=True", lambda call: searches(call) or call.scored, (1.0,)
    ),
    "max_length": Need("max_new_tokens=None", lambda call: call.settings.max_new_tokens is None, (None,)),
    "min_new_tokens": Need("an eos_token_id", lambda call: bool(call.settings.ends), (0,)),
    "decoder_start_token_id": Need("an encoder–decoder", lambda call: call.kind == "encoder_decoder", ()),
    "eos_token_id": Need(
        "a token of the vocabulary",
        lambda call: any(end < call.vocabulary for end in call.settings.ends),
        (None, (), []),
    ),
}


def warn_without_effect(given: Mapping[str, Any], call: Call, stacklevel: int) -> None:
    """Say which of the arguments that were given change nothing; what a model's own settings hold is not meant."""
    for name, value in given.items():
        need = NEEDS.get(name)
        if need is None or value in need.neutral or need.met(call):
            continue
        warnings.warn(
            f"{name}={value!r} changes nothing without {need.needed}; give that too, or leave {name} out",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
