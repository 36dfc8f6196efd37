"""`generate`: from prompts to sequences, with Hugging Face's names and meanings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transom.models.config import Config
from transom.models.places import check_real
from transom.models.writing.beam import searched
from transom.models.writing.chance import Chance
from transom.models.writing.job import Job
from transom.models.writing.one_by_one import Streamer, written
from transom.models.writing.rules import Rules
from transom.models.writing.settings import GenerationConfig
from transom.models.writing.steps import Steps
from transom.models.writing.stopping import Decodes, Stopping
from transom.names import Misfit, spelled


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


class Begun(NamedTuple):
    """A model that has been given its prompts."""

    prompt: Int[Tensor, "batch token"]
    real: Bool[Tensor, "batch token"] | None
    steps: Steps
    listened: bool  # whether the steps go through the model's own forward pass, where somebody listens


@runtime_checkable
class Writer(Protocol):
    """A model that can write."""

    @property
    def config(self) -> Config: ...

    def begin(self, tokens: Tensor, real: Tensor | None, settings: GenerationConfig) -> Begun: ...


def generate(
    model: Writer, tokens: Tensor, real: Tensor | None, settings: GenerationConfig, asked: Asked
) -> Tensor | Written:
    """Write after each prompt; the arguments are explained in `Decoder.generate`."""
    if tokens.dim() != 2 or tokens.is_floating_point():
        raise Misfit(
            f"generate takes tokens as (batch, token), but they are {spelled(tokens, 'token')} of {tokens.dtype};"
            " a single sequence goes in as tokens[None]"
        )
    check_streamer(settings, asked)
    with writing(model):
        begun = model.begin(tokens, real, settings)
        device, start = begun.prompt.device, begun.prompt.shape[1]
        job = Job(
            prompt=begun.prompt,
            real=begun.real,
            longest=limit(start, settings, model.config),
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
                chance = Chance(seeds(asked.seed, len(job.prompt) * settings.num_return_sequences))
                found = written(job, begun.steps, chance if settings.do_sample else None, asked.streamer)
        sequences, scores = (tensor.clone() for tensor in found)
    return Written(sequences, scores) if asked.scored else sequences


@contextmanager
def writing(model: object) -> Iterator[None]:
    """No gradients and no dropout while the model writes; afterwards it is as it was."""
    assert isinstance(model, nn.Module)
    training = [module for module in model.modules() if module.training]
    with torch.no_grad():
        try:
            for module in training:
                module.training = False
            yield
        finally:
            for module in training:
                module.training = True


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


def real_tokens(
    tokens: Tensor, real: Tensor | None, settings: GenerationConfig, words: str = "tokens real"
) -> Tensor | None:
    """Which tokens are real: as told, or all but padding; None where all are."""
    check_real(tokens, real, words=words)
    if real is None:
        if settings.pad_token_id in settings.ends:
            return None
        real = tokens != settings.pad_token_id
    return None if bool(real.all()) else real


def flushed(tokens: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The tokens with all padding in front, wherever it stood: what is written follows the last real token."""
    if real is None:
        return tokens, None
    if not bool(real.any(dim=1).all()):
        row = int((~real.any(dim=1)).nonzero()[0])
        raise Misfit(f"each prompt needs a token, but row {row} has none but padding; give it the start token")
    order = real.int().argsort(dim=1, stable=True)
    tokens, real = tokens.gather(1, order), real.gather(1, order)
    first = int(real.int().argmax(dim=1).min())
    tokens, real = tokens[:, first:], real[:, first:]
    return tokens, None if bool(real.all()) else real
