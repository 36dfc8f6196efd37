"""One call of `generate`: its arguments, checked and put in order, and its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.models.generation.config import GenerationConfig
from transom.models.generation.logits_processors import CustomProcessor, LogitsProcessors
from transom.models.generation.prompts import Prompts, left_pad
from transom.models.generation.stopping_criteria import StoppingCriteria, TokenDecoder
from transom.names import Misfit


@runtime_checkable
class PutStreamer(Protocol):
    """A streamer as Hugging Face's are: it gets the prompt, then each token, then `end`, for one sequence."""

    def put(self, value: Tensor, /) -> object: ...

    def end(self) -> object: ...


Streamer = Callable[[int, int], object] | PutStreamer


@dataclass(kw_only=True, eq=False)
class GenerationRequest:
    """What to generate after which prompts, under which rules, and for how long.

    prompt         the prompts with all padding in front
    real           False for that padding; None if there is none
    left_padding   the number of padding tokens in front of each prompt
    limits         the most new tokens of each prompt
    """

    settings: GenerationConfig
    longest: int  # tokens of the model's longest sequence
    prompts: Prompts  # what each sequence of the result begins with
    source: Prompts | None = None  # of an encoder–decoder
    seed: int | list[int] | None = None
    streamer: Streamer | None = None
    tokenizer: TokenDecoder | None = None
    logits_processor: Sequence[CustomProcessor] = ()
    scored: bool = False  # whether the scores of the sequences are returned

    def __post_init__(self) -> None:
        settings = self.settings
        if settings.num_beams > 1 and self.streamer is not None:
            raise Misfit(
                f"a streamer gets each token as it is chosen, but num_beams={settings.num_beams} may still change them;"
                " use num_beams=1"
            )
        self.prompt, self.real = left_pad(self.prompts)
        rows = len(self.prompt) * settings.num_return_sequences
        if isinstance(self.streamer, PutStreamer) and rows > 1:
            raise Misfit(
                f"a streamer with put and end takes one sequence, but there are {rows} to generate; give a function of"
                " (row, token)"
            )
        limits = [new_token_limit(count, settings, self.longest) for count in self.prompts.counts()]
        self.limits = torch.tensor(limits, dtype=torch.int64, device=self.prompt.device)
        self.smallest_limit, self.largest_limit = min(limits), max(limits)
        self.left_padding = torch.zeros_like(self.limits) if self.real is None else (~self.real).sum(dim=1)
        counts = torch.tensor(self.prompts.counts(), dtype=torch.int64, device=self.prompt.device)
        self.rules = LogitsProcessors(settings, self.prompt.shape[1], counts, self.limits, self.logits_processor)
        self.stopping = StoppingCriteria(settings, self.tokenizer, self.prompt.device)

    def stream_prompt(self) -> None:
        """Give the prompt to a streamer that takes it."""
        if isinstance(self.streamer, PutStreamer):
            self.streamer.put(self.prompt.cpu())

    def stream(self, rows: Int[Tensor, " batch"], tokens: Int[Tensor, " batch"]) -> None:
        """Give the streamer the new token of each row."""
        if isinstance(self.streamer, PutStreamer):
            self.streamer.put(tokens.cpu())
        elif self.streamer is not None:
            for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
                self.streamer(row, token)

    def end_stream(self) -> None:
        """Tell a streamer that takes it that no token follows."""
        if isinstance(self.streamer, PutStreamer):
            self.streamer.end()


class GenerationResult(NamedTuple):
    """The new tokens of each row, padded behind their ends, how many they are, and the score of the row."""

    new: Int[Tensor, "batch token"]
    ends: list[int]
    scores: Float[Tensor, " batch"]


def new_token_limit(start: int, settings: GenerationConfig, longest: int) -> int:
    """How many new tokens may follow a prompt of `start` tokens."""
    if settings.max_new_tokens is not None:
        return settings.max_new_tokens
    name, limit = "max_length", settings.max_length
    if limit is None:
        name, limit = "the model's longest", longest
    if limit <= start:
        raise Misfit(
            f"{name}={limit} leaves no room behind a prompt of {start} tokens; raise it, or shorten the prompt"
        )
    return limit - start
