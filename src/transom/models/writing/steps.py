"""A model one step at a time: the logits after the prompt, then after each token."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.kernels.packed import Ahead
from transom.layers import Arrangement

if TYPE_CHECKING:
    from transom.models.decoder import Decoder
    from transom.models.encoder_decoder import EncoderDecoder

Logits = Float[Tensor, "batch vocabulary"]
Answer = Logits | Ahead


@runtime_checkable
class Steps(Protocol):
    """What greedy writing, sampling and beam search need of a model."""

    def first(self) -> Answer:
        """Logits of the token after the prompt."""
        ...

    def next(self, tokens: Int[Tensor, " batch"]) -> Answer:
        """Logits of the token after these, one for each row."""
        ...

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        """Go on with these rows, in this order; each entry's rows stay together.

        `entries` says which of the prompts are still there, where some have left.
        """
        ...


class DecoderSteps:
    """A decoder, through its own forward pass: every hook on it is called."""

    def __init__(
        self, model: "Decoder", prompt: Int[Tensor, "batch token"], real: Bool[Tensor, "batch token"] | None
    ) -> None:
        self.model, self.prompt, self.prompt_real = model, prompt, real
        self.real, self.source_real = real, None
        self.cache = model.new_cache()

    def look_at_source(self) -> None:
        """There is none."""

    def first(self) -> Logits:
        return self.logits(self.prompt)

    def next(self, tokens: Int[Tensor, " batch"]) -> Logits:
        if self.real is not None:
            self.real = torch.cat([self.real, self.real.new_ones(len(self.real), 1)], dim=1)
        return self.logits(tokens[:, None])

    def logits(self, tokens: Int[Tensor, "batch token"]) -> Logits:
        hidden = self.model.hidden(tokens, self.real, self.cache)
        return hidden[:, -1] @ self.model.unembedding.mT

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        self.cache.select(rows)
        self.real = None if self.real is None else self.real[rows]


class EncoderDecoderSteps:
    """An encoder–decoder, through its own forward pass: every hook on it is called."""

    def __init__(
        self,
        model: "EncoderDecoder",
        source: Int[Tensor, "batch source"],
        real: Bool[Tensor, "batch source"] | None,
        prompt: Int[Tensor, "batch token"],
    ) -> None:
        self.model, self.prompt, self.prompt_real, self.source_real = model, prompt, None, real
        self.encoded: Tensor | None = model.encoded(source, real)
        self.cache = model.new_cache()

    def look_at_source(self) -> None:
        """Fill the caches with the source's keys and values."""
        for block, kept in zip(
            cast("Iterable[Arrangement]", self.model.decoder.blocks), self.cache.blocks, strict=True
        ):
            assert block.cross is not None
            kept.cross.filled(self.encoded, block.cross.keys_and_values)

    def first(self) -> Logits:
        return self.logits(self.prompt)

    def next(self, tokens: Int[Tensor, " batch"]) -> Logits:
        return self.logits(tokens[:, None])

    def logits(self, tokens: Int[Tensor, "batch token"]) -> Logits:
        hidden = self.model.decoded(tokens, self.encoded, self.source_real, cache=self.cache)
        self.encoded = None  # the cache holds it now
        return hidden[:, -1] @ self.model.unembedding.mT

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        self.cache.select(rows)
        self.source_real = None if self.source_real is None else self.source_real[rows]


class SlidingSteps:
    """A decoder with learned positions, beyond its longest sequence: each token from as many as it takes before it."""

    def __init__(self, steps: Steps, plain: DecoderSteps) -> None:
        self.steps, self.model, self.longest = steps, plain.model, plain.model.config.longest
        self.tokens, self.real = plain.prompt, plain.prompt_real
        self.length = self.tokens.shape[1]

    def first(self) -> Answer:
        return self.steps.first()

    def next(self, tokens: Int[Tensor, " batch"]) -> Answer:
        self.length += 1
        self.tokens = torch.cat([self.tokens, tokens[:, None]], dim=1)[:, -self.longest :]
        if self.real is not None:
            self.real = torch.cat([self.real, self.real.new_ones(len(self.real), 1)], dim=1)[:, -self.longest :]
        if self.length <= self.longest:
            return self.steps.next(tokens)
        # Every token has moved to another position, so that nothing of what was kept can be used again.
        return DecoderSteps(self.model, self.tokens, self.real).first()

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        self.tokens = self.tokens[rows]
        self.real = None if self.real is None else self.real[rows]
        if self.length <= self.longest:
            self.steps.select(rows, entries)
