"""When a sequence is finished."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.generation.config import GenerationConfig
from transom.models.position_ids import Tokens
from transom.names import Misfit

RowNumbers = Int[Tensor, " batch"]  # a number for each row


@runtime_checkable
class TokenDecoder(Protocol):
    """Something that turns tokens into text: `transom.text.Tokenizer`."""

    def decode(self, ids: list[int]) -> str: ...


class StoppingCriteria:
    """A sequence ends with an end token, or with the token that completes a stop string."""

    def __init__(self, settings: GenerationConfig, tokenizer: TokenDecoder | None, device: torch.device) -> None:
        self.ends = torch.tensor(settings.ends, dtype=torch.int64, device=device)
        self.stops, self.tokenizer = settings.stops, tokenizer
        if self.stops and tokenizer is None:
            raise Misfit("stop_strings are searched in text, but no tokenizer came; give tokenizer")
        # Enough for any stop string, as every token except the special ones stands for a byte or more.
        self.window = max((len(text.encode()) for text in self.stops), default=0) + 8

    def is_finished(self, new: RowNumbers, tokens: Tokens, left_padding: RowNumbers | None) -> Bool[Tensor, " batch"]:
        """Which rows end with their new token; `tokens` are the whole rows, behind so many tokens of padding."""
        if len(self.ends) == 0:
            ended = torch.zeros_like(new, dtype=torch.bool)
        else:  # comparing with a single one is faster
            ended = new == self.ends if len(self.ends) == 1 else torch.isin(new, self.ends)
        return ended | self.has_stop_string(tokens, left_padding) if self.stops else ended

    def has_stop_string(self, tokens: Tokens, left_padding: RowNumbers | None) -> Bool[Tensor, " batch"]:
        """Which rows hold a stop string that their last token completes; padding is no part of it."""
        tails, start = tokens[:, -self.window :].tolist(), max(0, tokens.shape[1] - self.window)
        if left_padding is not None:
            tails = [tail[max(0, front - start) :] for tail, front in zip(tails, left_padding.tolist(), strict=True)]
        return torch.tensor([self.completes_stop(tail) for tail in tails], dtype=torch.bool, device=tokens.device)

    def completes_stop(self, tail: list[int]) -> bool:
        """Whether the last token completes a stop string."""
        assert self.tokenizer is not None
        text, before = self.tokenizer.decode(tail), self.tokenizer.decode(tail[:-1])
        return any(text.count(stop) > before.count(stop) for stop in self.stops)
