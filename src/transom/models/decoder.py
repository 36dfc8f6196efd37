"""A decoder: every token sees itself and those before it; for writing on."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transom.layers import StackCache
from transom.models import parts
from transom.models.config import DecoderConfig
from transom.models.model import Model
from transom.models.places import allowed, check_documents, check_real, places
from transom.models.writing.generate import Asked, Begun, Written, generate, rooms
from transom.models.writing.one_by_one import Streamer
from transom.models.writing.prompts import Given, MaskGiven, Prompts, flush_right
from transom.models.writing.quick import Ends, hooked, quick
from transom.models.writing.settings import GenerationConfig
from transom.models.writing.steps import DecoderSteps, SlidingSteps
from transom.models.writing.stopping import Decodes
from transom.models.writing.whole import WholeSteps
from transom.names import Misfit


class Decoder(Model):
    """Embedding, blocks under the causal mask, and the way back to the vocabulary.

    In training it is fed the whole text at once and learns each next token (teacher forcing); to write, it is fed one
    token at a time with a cache.
    """

    kind, settings = "decoder", DecoderConfig
    config: DecoderConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.embedding = parts.embedding(config, config.vocabulary)
        self.stack = parts.stack(config, config.layers)
        self.output = unembedding(config.vocabulary, config.d_model) if config.tying == "none" else None
        self.generation = GenerationConfig()
        self.start()

    @property
    def unembedding(self) -> nn.Parameter:
        """(vocabulary, d_model): logits = hidden @ unembedding.mT."""
        return self.embedding.vectors if self.output is None else self.output

    def hidden(
        self,
        tokens: Int[Tensor, "batch token"],
        real: Bool[Tensor, "batch keys"] | None = None,
        cache: StackCache | None = None,
        documents: Int[Tensor, "batch token"] | None = None,
    ) -> Float[Tensor, "batch token d_model"]:
        """A vector per token.

        real        True for real tokens, False for padding; with a cache, the cached tokens' come first
        cache       from `new_cache`: the tokens follow those it has seen
        documents   for several texts packed into one row: an id per token; none sees another, each counts from 0
        """
        self.check_cache(cache)
        length = 0 if cache is None else cache.length
        check_real(tokens, real, length)
        check_documents(tokens, documents, cache is not None)
        x = self.embedding(tokens, start=length, at=places(tokens, real, documents))
        return self.stack(x, allowed=allowed(real, documents), causal=self.config.causal, cache=cache)

    def forward(
        self,
        tokens: Int[Tensor, "batch token"],
        real: Bool[Tensor, "batch keys"] | None = None,
        cache: StackCache | None = None,
        documents: Int[Tensor, "batch token"] | None = None,
    ) -> Float[Tensor, "batch token vocabulary"]:
        """Logits of the token that follows each; the arguments are those of `hidden`."""
        return self.hidden(tokens, real, cache, documents) @ self.unembedding.mT

    def new_cache(self) -> StackCache:
        """An empty cache for writing on."""
        cache = self.stack.new_cache()
        self.check_cache(cache)
        return cache

    def check_cache(self, cache: StackCache | None) -> None:
        """Complain about a cache where nothing can be kept: what a token is depends on those still to come."""
        if cache is not None and not self.config.causal:
            raise Misfit(
                "a cache keeps what tokens are once and for all, but with causal=False each new one changes those"
                " before it; give all tokens at once"
            )

    def generate(
        self,
        tokens: Given,
        real: Bool[Tensor, "batch token"] | None = None,
        *,
        attention_mask: MaskGiven | None = None,
        seed: int | list[int] | None = None,
        streamer: Streamer | None = None,
        tokenizer: Decodes | None = None,
        return_scores: bool = False,
        **settings: Any,
    ) -> Tensor | Written:
        """Write on after each prompt: the prompt exactly as it came and new tokens, padded behind the end.

        Names and meanings are Hugging Face's.

        tokens          a tensor, in which every number is a token unless a mask says it is padding; or a list of tokens
                        for each prompt, each of its own length
        real            True for tokens, False for padding, which may stand in front of a prompt or behind it
        attention_mask  the same as 1 and 0
        seed            of sampling: row i is drawn from seed + i, or from the i-th of a list; random unless given
        streamer        called with (row, token) as each token is chosen
        tokenizer       for `stop_strings`
        return_scores   give `Written`: the sequences, and the mean log-probability of each (see `length_penalty`)
        settings        as in `GenerationConfig`, in place of those in `model.generation`

        With learned positions, what goes beyond `longest` is written from the last `longest` tokens. Without the causal
        mask there is no cache: every token is written from a new reading of all before it.
        """
        asked = Asked(seed, streamer, tokenizer, return_scores, attention_mask, settings)
        return generate(self, tokens, real, asked)

    def begin(self, prompts: Prompts, settings: GenerationConfig) -> Begun:
        """The prompts with their padding in front, and the steps after them."""
        if prompts.tokens.shape[1] == 0:
            raise Misfit("each prompt needs a token, but they are empty; begin with the start token")
        prompt, real = flush_right(prompts)
        if not self.config.causal:
            return Begun(prompt, real, WholeSteps(self, prompt, real), hooked(self), prompts)
        plain = DecoderSteps(self, prompt, real)
        steps = quick(plain, Ends(self.embedding, self.stack, self.unembedding), settings.num_beams)
        most = max(rooms(prompts.counts(), settings, self.config), default=0)
        if self.config.positions == "learned" and prompt.shape[1] + most > self.config.longest:
            steps = SlidingSteps(steps, plain)
        return Begun(prompt, real, steps, hooked(self), prompts)


def unembedding(vocabulary: int, d_model: int) -> nn.Parameter:
    """A matrix of its own for the way back, started like an embedding."""
    return nn.Parameter(torch.randn(vocabulary, d_model) * d_model**-0.5)
