"""An encoder: every token sees every other; for classification and for embeddings."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from transom.layers import Projection
from transom.models import parts
from transom.models.config import EncoderConfig
from transom.models.model import Model
from transom.models.places import allowed, check_real, places
from transom.models.pooling import POOLINGS
from transom.names import Misfit


class Encoder(Model):
    """Embedding, blocks, and for labels one affine map of the pooled vector (Vaswani et al. 2017, section 3.1)."""

    kind, settings = "encoder", EncoderConfig
    config: EncoderConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.embedding = parts.embedding(config, config.vocabulary)
        self.stack = parts.stack(config, config.layers)
        self.head = Projection(config.d_model, len(config.labels)) if config.labels else None
        self.start()

    def hidden(
        self, tokens: Int[Tensor, "batch token"], real: Bool[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch token d_model"]:
        """A vector per token; `real` is True for real tokens, False for padding."""
        check_real(tokens, real)
        x = self.embedding(tokens, at=places(tokens, real))
        return self.stack(x, allowed=allowed(real))

    def pooled(
        self, tokens: Int[Tensor, "batch token"], real: Bool[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch d_model"]:
        """One vector per sequence."""
        return POOLINGS[self.config.pooling](self.hidden(tokens, real), real)

    def forward(
        self, tokens: Int[Tensor, "batch token"], real: Bool[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch labels"]:
        """Logits of the labels."""
        if self.head is None:
            raise Misfit("this encoder has no labels to tell apart; use hidden or pooled, or build it with labels")
        return self.head(self.pooled(tokens, real))
