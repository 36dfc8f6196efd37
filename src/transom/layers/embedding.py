"""Token embeddings: tokens to vectors, and vectors to logits."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.layers.checks import check_padding, check_positive, check_vectors, lookup
from transom.layers.dropout import Dropout
from transom.layers.position_encoding import NoPositions, PositionIds, Positions, Vectors, token_positions
from transom.names import Misfit, format_shape

Tokens = Int[Tensor, "batch token"]


class Embedding(nn.Module):
    """A learned vector per token, times √d_model, plus its position (Vaswani et al. 2017, sections 3.4 and 3.5).

    padding       the padding token: its vector starts at 0 and is not trained
    scaled        times √d_model, which brings the numbers from variance 1/d_model to 1
    positions     a part that enters at the embedding: Sinusoidal, Learned
    token_types   a learned vector for each of so many types of tokens, such as the first and the second text of a pair
                  (Devlin et al. 2019, section 3.2)
    norm          builds a norm for d_model, through which the sum passes
    """

    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        padding: int | None = None,
        scaled: bool = True,
        positions: Positions | None = None,
        dropout: float = 0.0,
        *,
        token_types: int | None = None,
        norm: Callable[[int], nn.Module] | None = None,
    ) -> None:
        super().__init__()
        check_positive(vocabulary=vocabulary, d_model=d_model, token_types=token_types or 1)
        check_padding(padding, vocabulary)
        self.vocabulary, self.d_model, self.padding = vocabulary, d_model, padding
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.positions = NoPositions() if positions is None else positions
        self.positions.check_place("the embedding", d_model=d_model)
        self.vectors = nn.Parameter(torch.empty(vocabulary, d_model))
        self.type_vectors = None if token_types is None else nn.Parameter(torch.empty(token_types, d_model))
        self.norm = None if norm is None else norm(d_model)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.vectors, std=self.d_model**-0.5)
        if self.type_vectors is not None:
            nn.init.normal_(self.type_vectors, std=self.d_model**-0.5)
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
        """An embedding that starts from a copy of these vectors; they are trained unless `frozen`.

        They keep their length unless `scaled`.
        """
        check_pretrained(vectors)
        embedding = cls(vectors.shape[0], vectors.shape[1], padding, scaled, positions, dropout)
        # A copy, because training would otherwise write into the caller's vectors.
        embedding.vectors = nn.Parameter(vectors.detach().clone(), requires_grad=not frozen)
        return embedding

    def forward(
        self,
        tokens: Tokens,
        start: int = 0,
        at: PositionIds | Int[Tensor, " token"] | None = None,
        types: Tokens | None = None,
    ) -> Vectors:
        """The tokens' vectors; their positions are `at`, or count from `start`; their types are 0 by default."""
        self.check(tokens, at)
        x = self.lookup(tokens) * self.scale
        at = token_positions(tokens.shape[1], start, tokens.device) if at is None else at
        return self.dropout(self.place(x, at if at.dim() == 2 else at[None], types))

    def place(self, x: Vectors, at: PositionIds, types: Tokens | None = None) -> Vectors:
        """Scaled vectors of tokens, with their positions and types, and through the norm."""
        x = self.positions.embed(x, at)
        if self.type_vectors is not None:
            x = x + self.type_vectors[0] if types is None else x + self.lookup_types(types)
        elif types is not None:
            raise Misfit("this embedding has no token types, but types came; build it with token_types, or leave them")
        return x if self.norm is None else self.norm(x)

    def lookup_types(self, types: Tokens) -> Vectors:
        """The vectors of token types."""
        assert self.type_vectors is not None
        message = (
            f"the embedding knows token types 0 to {len(self.type_vectors) - 1}, but types {{lowest}} to {{highest}}"
            " came; number the texts of a pair from 0"
        )
        return lookup(self.type_vectors, types, message)

    def logits(self, x: Vectors) -> Float[Tensor, "batch token vocabulary"]:
        """x · each token's vector: logits with the parameters of the embedding (Press & Wolf 2017)."""
        check_vectors("the embedding", x, self.d_model, self.vectors)
        return x @ self.vectors.mT

    def lookup(self, tokens: Tokens) -> Vectors:
        """The tokens' vectors, without scale and positions."""
        message = (
            f"the embedding knows tokens 0 to {self.vocabulary - 1}, but tokens {{lowest}} to {{highest}} came;"
            " use the tokenizer it was built with"
        )
        return lookup(self.vectors, tokens, message, self.padding)

    def check(self, tokens: Tensor, at: Tensor | None) -> None:
        """Raise an error for invalid tokens or positions."""
        if tokens.dim() != 2:
            raise Misfit(
                f"the embedding takes tokens as (batch, token), but they are {format_shape(tokens, 'token')};"
                " a single sequence goes in as tokens[None]"
            )
        if tokens.dtype not in (torch.int64, torch.int32):
            raise Misfit(
                f"the embedding takes tokens as integers of 32 or 64 bits, but they are {tokens.dtype};"
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
                f" {format_shape(tokens, 'batch token')} and at is {tuple(at.shape)}; leave it out to count from start"
            )

    def extra_repr(self) -> str:
        frozen = "" if self.vectors.requires_grad else ", frozen"
        return f"vocabulary={self.vocabulary}, d_model={self.d_model}, padding={self.padding}{frozen}"


def check_pretrained(vectors: Tensor) -> None:
    """Pretrained vectors are one finite row per token."""
    if vectors.dim() != 2:
        raise Misfit(
            f"vectors must be (vocabulary, d_model), but they are {format_shape(vectors, 'd_model')};"
            " give one row per token"
        )
    if not vectors.is_floating_point():
        raise Misfit(f"vectors must hold floating-point numbers, but they are {vectors.dtype}; use vectors.float()")
    not_finite = ~vectors.isfinite().all(dim=1)
    if not_finite.any():
        raise Misfit(
            f"vectors must be finite, but row {int(not_finite.nonzero()[0])} holds NaN or infinity;"
            " leave that token out, or give it a vector of zeros"
        )
