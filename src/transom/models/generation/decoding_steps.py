"""A decoding step gives the next logits of every row: with a cache, or by reading the last tokens again."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks

from transom.kernels import dispatch
from transom.kernels.packed_linear import LazyLogits
from transom.layers import Arrangement, Embedding, Stack, StackCache
from transom.models.config import Config
from transom.models.position_ids import Real, Tokens

Logits = Float[Tensor, "batch vocabulary"]
StepLogits = Logits | LazyLogits
UNLIMITED = 2**31  # tokens, more than any sequence has


@runtime_checkable
class DecodingModel(Protocol):
    """What the steps need of a model. The models import this module, so it cannot import them."""

    @property
    def config(self) -> Config: ...

    @property
    def embedding(self) -> Embedding: ...

    @property
    def stack(self) -> Stack: ...

    @property
    def unembedding(self) -> nn.Parameter: ...

    @property
    def logits_bias(self) -> nn.Parameter | None: ...

    @property
    def logits_scale(self) -> float: ...

    def logits(self, hidden: Tensor) -> Tensor: ...

    def new_cache(self) -> StackCache: ...

    def decode(self, tokens: Tensor, encoded: Any, source_real: Any, real: Any, cache: Any, /) -> Tensor: ...


class DecodingSteps(ABC):
    """What greedy search, sampling and beam search need of a model that has read its prompts."""

    @abstractmethod
    def next(self, tokens: Int[Tensor, " batch"]) -> StepLogits:
        """Append a token to each row, and return the logits of the token after it."""

    @abstractmethod
    def select(self, rows: Int[Tensor, " batch"], prompts: Int[Tensor, " any"] | None = None) -> None:
        """Continue with these rows, in this order; the rows of one prompt stay together.

        `prompts` says which prompts remain, if some are finished.
        """


class CachedSteps(DecodingSteps):
    """Steps with a cache through the model's own forward pass, which calls every hook."""

    def __init__(
        self,
        model: DecodingModel,
        prompt: Tokens,
        real: Real | None = None,
        encoded: Float[Tensor, "batch source d_model"] | None = None,
        source_real: Bool[Tensor, "batch source"] | None = None,
    ) -> None:
        self.model, self.prompt, self.real = model, prompt, real
        self.encoded, self.source_real = encoded, source_real
        self.cache = model.new_cache()

    def first(self) -> Logits:
        """Read the prompts, and return the logits of the token after each."""
        return self.logits(self.prompt)

    def next(self, tokens: Int[Tensor, " batch"]) -> Logits:
        self.real = append_real(self.real)
        return self.logits(tokens[:, None])

    def logits(self, tokens: Tokens) -> Logits:
        hidden = self.model.decode(tokens, self.encoded, self.source_real, self.real, self.cache)
        self.encoded = None  # the cache holds its keys and values now
        return self.model.logits(hidden[:, -1])

    def fill_cross_caches(self) -> None:
        """Project the source to keys and values, if there is one, without a step."""
        if self.encoded is None:
            return
        blocks = cast("Iterable[Arrangement]", self.model.stack.blocks)
        for block, cache in zip(blocks, self.cache.blocks, strict=True):
            assert block.cross is not None
            cache.cross.fill(self.encoded, block.cross.keys_and_values)

    def select(self, rows: Int[Tensor, " batch"], prompts: Int[Tensor, " any"] | None = None) -> None:
        self.cache.select(rows)
        self.real = None if self.real is None else self.real[rows]
        self.source_real = None if self.source_real is None else self.source_real[rows]


class RereadSteps(DecodingSteps):
    """Steps that read the last tokens again, as nothing cached is valid after a new token.

    That is so without the causal mask, where each token changes those before it; and with learned positions beyond the
    longest sequence, where each token moves to another position. Up to there, `cached` steps are used.
    """

    def __init__(
        self, model: DecodingModel, prompt: Tokens, real: Real | None, cached: DecodingSteps | None = None
    ) -> None:
        self.model, self.tokens, self.real, self.cached = model, prompt, real, cached
        self.length = prompt.shape[1]
        self.window = model.config.longest if model.config.positions == "learned" else UNLIMITED

    def read_window(self) -> Logits:
        """The logits of the token after those of the window."""
        hidden = self.model.decode(self.tokens, None, None, self.real, None)
        return self.model.logits(hidden[:, -1])

    def next(self, tokens: Int[Tensor, " batch"]) -> StepLogits:
        self.length += 1
        self.tokens = torch.cat([self.tokens, tokens[:, None]], dim=1)[:, -self.window :]
        real = append_real(self.real)
        self.real = None if real is None else real[:, -self.window :]
        if self.length > self.window:
            self.cached = None
        return self.read_window() if self.cached is None else self.cached.next(tokens)

    def select(self, rows: Int[Tensor, " batch"], prompts: Int[Tensor, " any"] | None = None) -> None:
        self.tokens = self.tokens[rows]
        self.real = None if self.real is None else self.real[rows]
        if self.cached is not None:
            self.cached.select(rows, prompts)


def append_real(real: Real | None) -> Bool[Tensor, "batch any"] | None:
    """`real` with one more token in each row."""
    return None if real is None else torch.cat([real, real.new_ones(len(real), 1)], dim=1)


def has_hooks(model: nn.Module) -> bool:
    """Whether hooks or listeners wait for the model's forward pass, or replace it: then it must be called."""
    everywhere = (global_hooks._global_forward_hooks, global_hooks._global_forward_pre_hooks, dispatch.listener)
    if any(everywhere) or torch._C._len_torch_function_stack():
        return True
    return any(
        module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module) for module in model.modules()
    )
