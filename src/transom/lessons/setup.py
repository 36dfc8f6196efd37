"""What a lesson computes: tokens, what they start from, and one or more layers, each with its parameters."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transom.lessons.steps import Matrix

MOST_TOKENS, WIDEST, MOST_HEADS, MOST_LAYERS = 256, 1024, 64, 16


@dataclass(frozen=True, eq=False)
class Attention:
    """How a layer attends.

    d_head    the width of a query and a key; 0 where nothing says it, as with given scores that are not scaled
    allowed   True where a row may look; None where it may look everywhere
    divisor   "√d_head", or by mistake "d_head" or "√d_model"
    axis      what the softmax goes along; −1 are the keys
    """

    heads: int = 1
    d_head: int = 1
    scale: bool = True
    temperature: float = 1.0
    similarity: str = "dot"
    narrow: bool = False
    allowed: NDArray[np.bool_] | None = None
    divisor: str = "√d_head"
    axis: int = -1


@dataclass(frozen=True, eq=False)
class Block:
    """What stands around the attention."""

    residual: bool = False
    norm: str = "none"
    norm_first: bool = False
    activation: str = "relu"


@dataclass(frozen=True, eq=False)
class Layer:
    """Parameters by name. W_Q, W_K and W_V have a matrix for each head: (heads, in, out)."""

    attention: Attention
    parameters: Mapping[str, NDArray[np.float64]]
    block: Block


@dataclass(frozen=True)
class Rounding:
    """Every step cut or rounded to so many decimals before the next: a mistake people make."""

    digits: int
    cut: bool = False

    def __call__(self, values: Matrix) -> Matrix:
        unit = 10.0**self.digits
        # A number like 0.29 is 0.28999… in float64: it must not be cut to 0.28.
        return np.floor(values * unit + 1e-9) / unit if self.cut else np.round(values, self.digits)


@dataclass(frozen=True, eq=False)
class Setup:
    """All that is needed to compute the steps of a lesson.

    start      by name: "embedding" (and "at_embedding", "positions"), or given "Q", "K", "V", or given "scores"
    at         the tokens looked at, where they are others than those looked from
    rounding   None, unless by mistake
    note       what is assumed because the lesson does not say it; "" where it says everything
    """

    tokens: tuple[str, ...]
    start: Mapping[str, Matrix]
    layers: tuple[Layer, ...]
    at: tuple[str, ...] | None = None
    rounding: Rounding | None = None
    note: str = ""

    @property
    def looked_at(self) -> tuple[str, ...]:
        return self.tokens if self.at is None else self.at
