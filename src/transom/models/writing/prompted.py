"""A model that has read its prompts: what quick steps start from."""

from typing import NamedTuple

from jaxtyping import Bool
from torch import Tensor, nn

from transom.layers import Stack, StackCache


class Prompted(NamedTuple):
    """The parts that go on, and what they keep."""

    stack: Stack
    unembedding: nn.Parameter
    cache: StackCache
    real: Bool[Tensor, "batch token"] | None  # of the prompts
    source_real: Bool[Tensor, "batch source"] | None
    entries: int  # prompts
    beams: int
