"""Tokens to vectors, and vectors back to tokens."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.layers.checks import check_sizes, check_vectors, looked_up
from transom.layers.dropout import Dropout
from transom.layers.positions import Nowhere, Positions
from transom.layers.positions.part import counted
from transom.names import Misfit, spelled


class Embedding(nn.Module):
    """A learned vector per token, times √d_model, plus its position (Vaswani et al. 2017, sections 3.4 and 3.5).

    padding     the token that fills up short sequences: its vector starts at 0 and is not trained
    scaled      times √d_model, which brings the vectors' numbers from variance 1/d_model to 1
    positions   a part that enters at the embedding: Sinusoidal, Learned
    """

    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        padding: int | None = None,
        scaled: bool = True,
        positions: Positions | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_sizes(vocabulary=vocabulary, d_model=d_model)
        if padding is not None and not 0 <= padding < vocabulary:
            raise Misfit(
                f"padding must be a token from 0 to {vocabulary - 1}, but got {padding}; leave it out for none"
            )
        self.vocabulary, self.d_model, self.padding = vocabulary, d_model, padding
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.positions = Nowhere() if positions is None else positions
        self.positions.check_place("the embedding", d_model=d_model)
        self.vectors = nn.Parameter(torch.empty(vocabulary, d_model))
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.vectors, std=self.d_model**-0.5)
        if self.padding is not None:
            with torch.no_grad():
                self.vectors[self.padding] = 0.0

    @classmethod
    def from_vectors(
        cls,
        vectors: Float[Tensor, "vocabulary d_model"],
        frozen: bool = False,
        padding: int | None = None,
        scaled: bool = False,
        positions: Positions | None = None,
        dropout: float = 0.0,
    ) -> "Embedding":
        """An embedding that starts from a copy of given vectors: `frozen` they stay as they are, otherwise they train.

        They keep their own length unless `scaled`.
        """
        check_given(vectors)
        embedding = cls(vectors.shape[0], vectors.shape[1], padding, scaled, positions, dropout)
        # A copy, because training would otherwise write into the caller's vectors.
        embedding.vectors = nn.Parameter(vectors.detach().clone(), requires_grad=not frozen)
        return embedding

    def forward(
        self,
        tokens: Int[Tensor, "batch token"],
        start: int = 0,
        at: Int[Tensor, "#batch token"] | Int[Tensor, " token"] | None = None,
    ) -> Float[Tensor, "batch token d_model"]:
        """The tokens' vectors; their positions count from `start`, or are given by `at`."""
        self.check(tokens, at)
        x = self.looked_up(tokens) * self.scale
        at = counted(tokens.shape[1], start, tokens.device) if at is None else at
        return self.dropout(self.positions.embedded(x, at if at.dim() == 2 else at[None]))

    def logits(self, x: Float[Tensor, "batch token d_model"]) -> Float[Tensor, "batch token vocabulary"]:
        """x · each token's vector: the way back with the same parameters (Press & Wolf 2017)."""
        check_vectors("the embedding", x, self.d_model, self.vectors)
        return x @ self.vectors.mT

    def looked_up(self, tokens: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token d_model"]:
        complaint = (
            f"the embedding knows tokens 0 to {self.vocabulary - 1}, but tokens {{lowest}} to {{highest}} came;"
            " use the tokenizer it was built with"
        )
        return looked_up(self.vectors, tokens, complaint, self.padding)

    def check(self, tokens: Tensor, at: Tensor | None) -> None:
        """Complain about tokens or positions that are no such thing."""
        if tokens.dim() != 2:
            raise Misfit(
                f"the embedding takes tokens as (batch, token), but they are {spelled(tokens, 'token')};"
                " a single sequence goes in as tokens[None]"
            )
        if tokens.dtype not in (torch.int64, torch.int32):
            raise Misfit(
                f"the embedding takes tokens as whole numbers of 32 or 64 bits, but they are {tokens.dtype};"
                " use tokens.long()"
            )
        if tokens.device != self.vectors.device:
            raise Misfit(
                f"the embedding has its parameters on {self.vectors.device}, but tokens are on {tokens.device};"
                f" move them with .to({str(self.vectors.device)!r})"
            )
        batch, token = tokens.shape
        if at is not None and tuple(at.shape) not in ((token,), (1, token), (batch, token)):
            raise Misfit(
                f"at must give one position per token, (token) or (batch, token), but tokens are"
                f" {spelled(tokens, 'batch token')} and at is {tuple(at.shape)}; leave it out to count from start"
            )

    def extra_repr(self) -> str:
        trained = "" if self.vectors.requires_grad else ", frozen"
        return f"vocabulary={self.vocabulary}, d_model={self.d_model}, padding={self.padding}{trained}"


def check_given(vectors: Tensor) -> None:
    """Given vectors are one finite row per token."""
    if vectors.dim() != 2:
        raise Misfit(
            f"vectors must be (vocabulary, d_model), but they are {spelled(vectors, 'd_model')}; give one row per token"
        )
    if not vectors.is_floating_point():
        raise Misfit(f"vectors must hold floating-point numbers, but they are {vectors.dtype}; use vectors.float()")
    broken = ~vectors.isfinite().all(dim=1)
    if broken.any():
        raise Misfit(
            f"vectors must be finite, but row {int(broken.nonzero()[0])} holds NaN or infinity; leave that token out,"
            " or give it a vector of zeros"
        )
