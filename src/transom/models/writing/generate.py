"""`generate`: from prompts to sequences, with Hugging Face's names and meanings."""

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.models.config import Config
from transom.models.writing.beam import searched
from transom.models.writing.chance import Chance
from transom.models.writing.effects import Call, warn_without_effect
from transom.models.writing.evaluation import evaluation_mode
from transom.models.writing.job import Job
from transom.models.writing.one_by_one import Streamer, written
from transom.models.writing.prompts import Given, MaskGiven, Prompts, continued_rows, read_prompts
from transom.models.writing.rules import Rules
from transom.models.writing.settings import GenerationConfig
from transom.models.writing.steps import Steps
from transom.models.writing.stopping import Decodes, Stopping
from transom.names import Misfit


class Written(NamedTuple):
    """What came out: sequences, padded behind their ends, and the score of each."""

    sequences: Int[Tensor, "batch token"]
    scores: Float[Tensor, " batch"]


class Asked(NamedTuple):
    """What a call asks for beside its settings."""

    seed: int | list[int] | None = None
    streamer: Streamer | None = None
    tokenizer: Decodes | None = None
    scored: bool = False
    attention_mask: MaskGiven | None = None
    settings: Mapping[str, Any] = MappingProxyType({})  # in place of the model's own


class Begun(NamedTuple):
    """A model that has been given its prompts."""

    prompt: Int[Tensor, "batch token"]  # padding, where there is any, stands in front
    real: Bool[Tensor, "batch token"] | None
    steps: Steps
    listened: bool  # whether the steps go through the model's own forward pass, where somebody listens
    shown: Prompts  # what each sequence of the result begins with


@runtime_checkable
class Writer(Protocol):
    """A model that can write."""

    kind: Any
    generation: GenerationConfig

    @property
    def config(self) -> Config: ...

    @property
    def unembedding(self) -> Tensor: ...

    def begin(self, prompts: Prompts, settings: GenerationConfig) -> Begun: ...


def generate(model: Writer, given: Given, real: Tensor | None, asked: Asked) -> Tensor | Written:
    """Write after each prompt; the arguments are explained in `Decoder.generate`."""
    settings = model.generation.changed(dict(asked.settings))
    words = "source" if model.kind == "encoder_decoder" else "tokens"
    prompts = read_prompts(given, real, asked.attention_mask, model.unembedding.device, words)
    check_streamer(settings, asked)
    call = Call(settings, asked.scored, model.kind, len(model.unembedding))
    warn_without_effect({**asked.settings, "seed": asked.seed}, call, stacklevel=3)
    if isinstance(given, Tensor) and real is None and asked.attention_mask is None:
        warn_of_padding(given, model.config.padding, stacklevel=3)
    with evaluation_mode(model):
        begun = model.begin(prompts, settings)
        device, start = begun.prompt.device, begun.prompt.shape[1]
        job = Job(
            prompt=begun.prompt,
            real=begun.real,
            room=rooms(begun.shown.counts(), settings, model.config),
            settings=settings,
            rules=Rules(settings, start, device),
            stopping=Stopping(settings, asked.tokenizer, device),
            scored=asked.scored,
        )
        # Inference mode makes every operation cheaper; who listens to the model gets tensors that can be used anywhere.
        with torch.no_grad() if begun.listened else torch.inference_mode():
            if settings.num_beams > 1:
                found = searched(job, begun.steps)
            else:
                chance = None
                if settings.do_sample:
                    chance = Chance(seeds(asked.seed, len(job.prompt) * settings.num_return_sequences))
                found = written(job, begun.steps, chance, asked.streamer)
        sequences = continued_rows(begun.shown, found.new.clone(), found.ends, settings.pad_token_id)
    return Written(sequences, found.scores.clone()) if asked.scored else sequences


def rooms(counts: list[int], settings: GenerationConfig, config: Config) -> tuple[int, ...]:
    """How many new tokens each prompt of so many may get."""
    return tuple(limit(count, settings, config) - count for count in counts)


def limit(start: int, settings: GenerationConfig, config: Config) -> int:
    """How long a whole sequence may become."""
    if settings.max_new_tokens is not None:
        longest, said = start + settings.max_new_tokens, f"max_new_tokens={settings.max_new_tokens}"
    elif settings.max_length is not None:
        longest, said = settings.max_length, f"max_length={settings.max_length}"
    else:
        longest, said = config.longest, f"the model's longest={config.longest}"
    if longest <= start:
        raise Misfit(f"{said} leaves no room behind a prompt of {start} tokens; raise it, or shorten the prompt")
    return longest


def seeds(given: int | list[int] | None, rows: int) -> list[int]:
    """One seed per row: those given, or counted from the one given, or from one drawn."""
    if isinstance(given, list):
        if len(given) != rows:
            raise Misfit(f"there are {rows} rows to draw, but {len(given)} seeds came; give one each, or one for all")
        return given
    first = int(torch.randint(2**31, ())) if given is None else given
    return [(first + row) % 2**63 for row in range(rows)]


def check_streamer(settings: GenerationConfig, asked: Asked) -> None:
    if settings.num_beams > 1 and asked.streamer is not None:
        raise Misfit(
            f"a streamer is told each token as it is chosen, but num_beams={settings.num_beams} may still change them;"
            " use num_beams=1"
        )


def warn_of_padding(tokens: Int[Tensor, "batch token"], padding: int | None, stacklevel: int) -> None:
    """Say that what looks like padding is read as tokens, as nothing says otherwise."""
    if padding is None or tokens.numel() == 0:
        return
    edges = ((tokens[:, 0] == padding) | (tokens[:, -1] == padding)).nonzero()
    if len(edges):
        warnings.warn(
            f"row {int(edges[0])} begins or ends with {padding}, the model's padding, and is read as it stands, as no"
            " attention_mask came; give one, or give lists of their own lengths",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
