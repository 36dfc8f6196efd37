"""A decoder: every token sees itself and those before it; for generating text."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.layers import StackCache
from transom.models import builders
from transom.models.config import DecoderConfig
from transom.models.generation.config import GenerationConfig
from transom.models.generation.decoding_steps import CachedSteps, DecodingSteps, RereadSteps, StepLogits
from transom.models.generation.fast.choose_steps import start_fastest_steps
from transom.models.generation.generate import GenerativeModel
from transom.models.generation.request import GenerationRequest
from transom.models.position_ids import RealKeys, Tokens, attention_mask, check_documents, check_real_mask, position_ids
from transom.names import Misfit


class Decoder(GenerativeModel):
    """Embedding, blocks under the causal mask, and logits of the vocabulary.

    In training it reads the whole text at once and learns each next token (teacher forcing); to generate, it reads one
    token at a time with a cache.
    """

    kind, config_class = "decoder", DecoderConfig
    config: DecoderConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.embedding = builders.build_embedding(config, config.vocabulary)
        self.stack = builders.build_stack(config, config.layers, causal=config.causal)
        self.output = new_unembedding(config.vocabulary, config.d_model) if config.tying == "none" else None
        self.logits_bias = nn.Parameter(torch.zeros(config.vocabulary)) if config.logits_bias else None
        self.generation = GenerationConfig()
        self.initialize()

    def hidden(
        self,
        tokens: Tokens,
        real: RealKeys | None = None,
        cache: StackCache | None = None,
        documents: Tokens | None = None,
    ) -> Float[Tensor, "batch token d_model"]:
        """A vector per token.

        real        True for real tokens, False for padding; with a cache, those of the cached tokens come first
        cache       from `new_cache`: the tokens follow those in it
        documents   for several texts packed into one row: an id per token; none sees another, each counts from 0
        """
        self.check_cache(cache)
        length = 0 if cache is None else cache.length
        check_real_mask(tokens, real, length)
        check_documents(tokens, documents, cache is not None)
        x = self.embedding(tokens, start=length, at=position_ids(tokens, real, documents))
        return self.stack(x, allowed=attention_mask(real, documents), causal=self.config.causal, cache=cache)

    def forward(
        self,
        tokens: Tokens,
        real: RealKeys | None = None,
        cache: StackCache | None = None,
        documents: Tokens | None = None,
    ) -> Float[Tensor, "batch token vocabulary"]:
        """Logits of the token that follows each; the arguments are those of `hidden`."""
        return self.logits(self.hidden(tokens, real, cache, documents))

    def new_cache(self) -> StackCache:
        """An empty cache for `hidden`."""
        cache = self.stack.new_cache()
        self.check_cache(cache)
        return cache

    def check_cache(self, cache: StackCache | None) -> None:
        """Raise an error for a cache without the causal mask, where a token's vector depends on later tokens."""
        if cache is not None and not self.config.causal:
            raise Misfit(
                "a cache keeps the vectors of earlier tokens, but with causal=False each new token changes them;"
                " give all tokens at once"
            )

    def decode(
        self, tokens: Tokens, encoded: None, source_real: None, real: RealKeys | None, cache: StackCache | None
    ) -> Float[Tensor, "batch token d_model"]:
        """`hidden`, with the arguments of an encoder–decoder's `decode`; there is no source."""
        return self.hidden(tokens, real, cache)

    def start_steps(self, request: GenerationRequest) -> tuple[DecodingSteps, StepLogits]:
        """Read the prompts; with learned positions, tokens beyond `longest` follow from the last `longest` ones.

        Without the causal mask there is no cache, and every token takes a forward pass over all before it.
        """
        if not self.config.causal:
            steps = RereadSteps(self, request.prompt, request.real)
            return steps, steps.read_window()
        steps, logits = start_fastest_steps(CachedSteps(self, request.prompt, request.real), request.settings.num_beams)
        longest = request.prompt.shape[1] + request.largest_limit
        if self.config.positions == "learned" and longest > self.config.longest:
            steps = RereadSteps(self, request.prompt, request.real, cached=steps)
        return steps, logits


def new_unembedding(vocabulary: int, d_model: int) -> nn.Parameter:
    """An untied output matrix, initialised like an embedding."""
    return nn.Parameter(torch.randn(vocabulary, d_model) * d_model**-0.5)
