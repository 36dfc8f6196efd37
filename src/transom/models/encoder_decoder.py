"""An encoder and a decoder that looks at it: text to text."""

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transom.layers import StackCache
from transom.models import parts
from transom.models.config import EncoderDecoderConfig
from transom.models.decoder import unembedding
from transom.models.model import Model
from transom.models.places import allowed, check_real, places
from transom.models.writing.generate import Asked, Begun, Written, generate, limit
from transom.models.writing.one_by_one import Streamer
from transom.models.writing.prompts import Given, MaskGiven, Prompts
from transom.models.writing.quick import Ends, hooked, quick
from transom.models.writing.settings import GenerationConfig
from transom.models.writing.steps import EncoderDecoderSteps
from transom.models.writing.stopping import Decodes
from transom.names import Misfit


class EncoderDecoder(Model):
    """The whole Transformer (Vaswani et al. 2017, figure 1).

    In training the decoder is fed the whole target, shifted right, under the causal mask (teacher forcing); to write,
    it is fed one token at a time, with a cache for its own past and for the source.
    """

    kind, settings = "encoder_decoder", EncoderDecoderConfig
    config: EncoderDecoderConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.source_embedding = parts.embedding(config, config.source_vocabulary or config.vocabulary)
        self.target_embedding = parts.embedding(config, config.vocabulary)
        if config.tying == "all":
            self.source_embedding.vectors = self.target_embedding.vectors
        self.encoder = parts.stack(config, config.encoder_layers)
        self.decoder = parts.stack(config, config.decoder_layers, cross=True)
        self.output = unembedding(config.vocabulary, config.d_model) if config.tying == "none" else None
        self.generation = GenerationConfig()
        self.start()

    @property
    def unembedding(self) -> nn.Parameter:
        """(vocabulary, d_model): logits = hidden @ unembedding.mT."""
        return self.target_embedding.vectors if self.output is None else self.output

    def encoded(
        self, source: Int[Tensor, "batch source"], real: Bool[Tensor, "batch source"] | None = None
    ) -> Float[Tensor, "batch source d_model"]:
        """A vector per source token; `real` is True for real tokens, False for padding."""
        check_real(source, real, words="source source_real")
        return self.encoder(self.source_embedding(source, at=places(source, real)), allowed=allowed(real))

    def decoded(
        self,
        target: Int[Tensor, "batch token"],
        encoded: Float[Tensor, "batch source d_model"] | None,
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch keys"] | None = None,
        cache: StackCache | None = None,
    ) -> Float[Tensor, "batch token d_model"]:
        """A vector per target token, looking at an encoded source; once a cache holds the source, leave it out."""
        length = 0 if cache is None else cache.length
        check_real(target, target_real, length, words="target target_real")
        x = self.target_embedding(target, start=length, at=places(target, target_real))
        return self.decoder(x, encoded, allowed(target_real), allowed(source_real), causal=True, cache=cache)

    def hidden(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch token"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch token"] | None = None,
    ) -> Float[Tensor, "batch token d_model"]:
        """A vector per target token, made from the source and the target so far."""
        return self.decoded(target, self.encoded(source, source_real), source_real, target_real)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch token"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch token"] | None = None,
    ) -> Float[Tensor, "batch token vocabulary"]:
        """Logits of the token that follows each target token; the target begins with the start token."""
        return self.hidden(source, target, source_real, target_real) @ self.unembedding.mT

    def new_cache(self) -> StackCache:
        """An empty cache for writing."""
        return self.decoder.new_cache()

    def generate(
        self,
        source: Given,
        real: Bool[Tensor, "batch source"] | None = None,
        *,
        attention_mask: MaskGiven | None = None,
        seed: int | list[int] | None = None,
        streamer: Streamer | None = None,
        tokenizer: Decodes | None = None,
        return_scores: bool = False,
        **settings: Any,
    ) -> Tensor | Written:
        """Write what follows from each source: the start token and new ones, padded behind the end.

        Names and meanings are Hugging Face's.

        source          a tensor, in which every number is a token unless a mask says it is padding; or a list of tokens
                        for each source, each of its own length
        real            True for tokens of the source, False for padding
        attention_mask  the same as 1 and 0
        seed            of sampling: row i is drawn from seed + i, or from the i-th of a list; random unless given
        streamer        called with (row, token) as each token is chosen
        tokenizer       for `stop_strings`
        return_scores   give `Written`: the sequences, and the mean log-probability of each (see `length_penalty`)
        settings        as in `GenerationConfig`, in place of those in `model.generation`
        """
        asked = Asked(seed, streamer, tokenizer, return_scores, attention_mask, settings)
        return generate(self, source, real, asked)

    def begin(self, prompts: Prompts, settings: GenerationConfig) -> Begun:
        """The start token for each source, and the steps after it."""
        longest = limit(1, settings, self.config)
        if self.config.positions == "learned" and longest > self.config.longest:
            raise Misfit(
                f"the model has positions for {self.config.longest} tokens, but {longest} were asked for;"
                f" ask for max_length={self.config.longest} or fewer"
            )
        tokens = prompts.tokens
        prompt = tokens.new_full((len(tokens), 1), settings.decoder_start_token_id)
        ends = Ends(self.target_embedding, self.decoder, self.unembedding)
        steps = quick(EncoderDecoderSteps(self, tokens, prompts.real, prompt), ends, settings.num_beams)
        return Begun(prompt, None, steps, hooked(self), Prompts(prompt))
