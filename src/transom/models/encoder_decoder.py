"""An encoder, and a decoder that attends to it: text to text."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transom.layers import Embedding, Stack, StackCache
from transom.models import builders
from transom.models.config import EncoderDecoderConfig
from transom.models.decoder import new_unembedding
from transom.models.generation.config import GenerationConfig
from transom.models.generation.decoding_steps import CachedSteps, DecodingSteps, StepLogits
from transom.models.generation.fast.choose_steps import start_fastest_steps
from transom.models.generation.generate import GenerateOutput, GenerativeModel
from transom.models.generation.prompts import TokenRows
from transom.models.generation.request import GenerationRequest
from transom.models.position_ids import RealKeys, Tokens, attention_mask, check_real_mask, position_ids
from transom.names import Misfit

Source = Int[Tensor, "batch source"]
SourceReal = Bool[Tensor, "batch source"]


class EncoderDecoder(GenerativeModel):
    """The whole Transformer (Vaswani et al. 2017, figure 1).

    In training the decoder reads the whole target, shifted right, under the causal mask (teacher forcing); to generate,
    it reads one token at a time, with a cache of its past and of the source.
    """

    kind, config_class = "encoder_decoder", EncoderDecoderConfig
    config: EncoderDecoderConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.source_embedding = builders.build_embedding(config, config.source_vocabulary or config.vocabulary)
        self.target_embedding = builders.build_embedding(config, config.vocabulary)
        if config.tying in ("all", "embeddings"):
            self.source_embedding.vectors = self.target_embedding.vectors
        self.encoder = builders.build_stack(config, config.encoder_layers)
        self.decoder = builders.build_stack(config, config.decoder_layers, cross=True, causal=True)
        is_tied = config.tying in ("all", "target")
        self.output = None if is_tied else new_unembedding(config.vocabulary, config.d_model)
        self.logits_bias = nn.Parameter(torch.zeros(config.vocabulary)) if config.logits_bias else None
        self.generation = GenerationConfig()
        self.initialize()

    @property
    def embedding(self) -> Embedding:
        """The embedding of the decoder."""
        return self.target_embedding

    @property
    def stack(self) -> Stack:
        """The blocks of the decoder."""
        return self.decoder

    def encode(self, source: Source, real: SourceReal | None = None) -> Float[Tensor, "batch source d_model"]:
        """A vector per source token; `real` is True for real tokens, False for padding."""
        check_real_mask(source, real, tokens_name="source", name="source_real")
        return self.encoder(self.source_embedding(source, at=position_ids(source, real)), allowed=attention_mask(real))

    def decode(
        self,
        target: Tokens,
        encoded: Float[Tensor, "batch source d_model"] | None,
        source_real: SourceReal | None = None,
        target_real: RealKeys | None = None,
        cache: StackCache | None = None,
    ) -> Float[Tensor, "batch token d_model"]:
        """A vector per target token, which attends to the encoded source; leave it out once a cache holds it."""
        length = 0 if cache is None else cache.length
        check_real_mask(target, target_real, length, tokens_name="target", name="target_real")
        x = self.target_embedding(target, start=length, at=position_ids(target, target_real))
        return self.decoder(
            x, encoded, attention_mask(target_real), attention_mask(source_real), causal=True, cache=cache
        )

    def hidden(
        self, source: Source, target: Tokens, source_real: SourceReal | None = None, target_real: RealKeys | None = None
    ) -> Float[Tensor, "batch token d_model"]:
        """A vector per target token, from the source and the target up to it."""
        return self.decode(target, self.encode(source, source_real), source_real, target_real)

    def forward(
        self, source: Source, target: Tokens, source_real: SourceReal | None = None, target_real: RealKeys | None = None
    ) -> Float[Tensor, "batch token vocabulary"]:
        """Logits of the token that follows each target token; the target begins with the start token."""
        return self.logits(self.hidden(source, target, source_real, target_real))

    def new_cache(self) -> StackCache:
        """An empty cache for `decode`."""
        return self.decoder.new_cache()

    def generate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, source: TokenRows, real: Tensor | None = None, **options: Any
    ) -> Tensor | GenerateOutput:
        """Generate what follows from each source: the start token and new ones; options as in `Decoder.generate`."""
        return super().generate(source, real, **options)

    def start_steps(self, request: GenerationRequest) -> tuple[DecodingSteps, StepLogits]:
        """Read the sources."""
        longest = 1 + request.largest_limit
        if self.config.positions == "learned" and longest > self.config.longest:
            raise Misfit(
                f"the model has positions for {self.config.longest} tokens, but {longest} are asked for;"
                f" ask for max_length={self.config.longest} or fewer"
            )
        assert request.source is not None
        source, real = request.source.tokens, request.source.real
        cached = CachedSteps(self, request.prompt, encoded=self.encode(source, real), source_real=real)
        return start_fastest_steps(cached, request.settings.num_beams)
