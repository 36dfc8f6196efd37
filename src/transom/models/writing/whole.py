"""Steps of a decoder that has no causal mask: nothing can be kept, so all is read anew for each token."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.models.writing.steps import Logits

if TYPE_CHECKING:
    from transom.models.decoder import Decoder


class WholeSteps:
    """Every token sees every other, so that a new one changes what those before it are."""

    def __init__(
        self, model: "Decoder", prompt: Int[Tensor, "batch token"], real: Bool[Tensor, "batch token"] | None
    ) -> None:
        self.model, self.tokens, self.real = model, prompt, real
        # Learned positions end somewhere; what goes beyond is written from the last ones, as with the mask.
        self.window = model.config.longest if model.config.positions == "learned" else None

    def first(self) -> Logits:
        hidden = self.model.hidden(self.tokens, self.real)
        return hidden[:, -1] @ self.model.unembedding.mT

    def next(self, tokens: Int[Tensor, " batch"]) -> Logits:
        self.tokens = self.last(torch.cat([self.tokens, tokens[:, None]], dim=1))
        if self.real is not None:
            self.real = self.last(torch.cat([self.real, self.real.new_ones(len(self.real), 1)], dim=1))
        return self.first()

    def last(self, row: Tensor) -> Tensor:
        return row if self.window is None else row[:, -self.window :]

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        self.tokens = self.tokens[rows]
        self.real = None if self.real is None else self.real[rows]
