"""An encoder: every token sees every other; for classification and for embeddings."""

from jaxtyping import Float
from torch import Tensor

from transom.layers import Projection
from transom.layers.positions import Vectors
from transom.models import builders
from transom.models.config import EncoderConfig
from transom.models.model import Model
from transom.models.pooling import POOLINGS
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
        self.head = Projection(config.d_model, len(config.labels)) if config.labels else None
        self.initialize()

    def hidden(self, tokens: Tokens, real: Real | None = None) -> Vectors:
        """A vector per token; `real` is True for real tokens, False for padding."""
        check_real_mask(tokens, real)
        x = self.embedding(tokens, at=position_ids(tokens, real))
        return self.stack(x, allowed=attention_mask(real))

    def pool(self, tokens: Tokens, real: Real | None = None) -> Float[Tensor, "batch d_model"]:
        """One vector per sequence."""
        return POOLINGS[self.config.pooling](self.hidden(tokens, real), real)

    def forward(self, tokens: Tokens, real: Real | None = None) -> Float[Tensor, "batch labels"]:
        """Logits of the labels."""
        if self.head is None:
            raise Misfit("this encoder has no labels; use hidden or pool, or build it with labels")
        return self.head(self.pool(tokens, real))
