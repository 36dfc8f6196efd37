"""An encoder: every token sees every other; for classification and for embeddings."""

from jaxtyping import Float
from torch import Tensor

from transom.layers import Projection
from transom.layers.position_encoding import Vectors
from transom.models import builders
from transom.models.config import EncoderConfig
from transom.models.model import Model
from transom.models.pooling import POOLERS, POOLINGS, MaskedTokenHead, Pooler
from transom.models.position_ids import Real, Tokens, attention_mask, check_real_mask, position_ids
from transom.names import Misfit


class Encoder(Model):
    """Embedding, blocks, and for labels an affine map of the pooled vector (Vaswani et al. 2017, section 3.1)."""

    kind, config_class = "encoder", EncoderConfig
    config: EncoderConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.embedding = builders.build_embedding(config, config.vocabulary)
        self.stack = builders.build_stack(config, config.layers)
        activation = POOLERS[config.pooler]
        self.pooler = None if activation is None else Pooler(config.d_model, activation)
        self.head = Projection(config.d_model, len(config.labels)) if config.labels else None
        norm = builders.build_norm(config)
        self.token_head = MaskedTokenHead(config.d_model, config.vocabulary, norm) if config.masked_tokens else None
        self.initialize()

    def hidden(self, tokens: Tokens, real: Real | None = None, types: Tokens | None = None) -> Vectors:
        """A vector per token.

        real    True for real tokens, False for padding
        types   of the tokens, if the model has `token_types`; by default all are 0
        """
        check_real_mask(tokens, real)
        x = self.embedding(tokens, at=position_ids(tokens, real), types=types)
        return self.stack(x, allowed=attention_mask(real))

    def pool(
        self, tokens: Tokens, real: Real | None = None, types: Tokens | None = None
    ) -> Float[Tensor, "batch d_model"]:
        """One vector per sequence."""
        pooled = POOLINGS[self.config.pooling](self.hidden(tokens, real, types), real)
        return pooled if self.pooler is None else self.pooler(pooled)

    def forward(
        self, tokens: Tokens, real: Real | None = None, types: Tokens | None = None
    ) -> Float[Tensor, "batch labels"]:
        """Logits of the labels; the arguments are those of `hidden`."""
        if self.head is None:
            raise Misfit("this encoder has no labels; use hidden or pool, or build it with labels")
        return self.head(self.pool(tokens, real, types))

    def masked_logits(
        self, tokens: Tokens, real: Real | None = None, types: Tokens | None = None
    ) -> Float[Tensor, "batch token vocabulary"]:
        """Logits of the token that stands at each place, also behind a mask token; the arguments are of `hidden`."""
        if self.token_head is None:
            raise Misfit("this encoder predicts no masked tokens; use hidden or pool, or build it with masked_tokens")
        return self.token_head(self.hidden(tokens, real, types), self.embedding.vectors)
