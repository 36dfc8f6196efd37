"""The initial values of a model's parameters."""

from collections.abc import Callable, Iterable
from typing import cast

from torch import nn

from transom.layers import Arrangement, Embedding, Learned, Stack


def xavier(model: nn.Module) -> None:
    """As each layer is built: Xavier's uniform distribution (Glorot & Bengio 2010), biases 0."""


def gpt2(model: nn.Module) -> None:
    """Normal with standard deviation 0.02, divided by √(residuals) in the last map of each part.

    (Radford et al. 2019, section 2.3.) For models whose embeddings are not scaled: with √d_model in front, 0.02 would
    be a tenth of what the paper has.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, Embedding | Learned):
            nn.init.normal_(module.vectors, std=0.02)
        if isinstance(module, Embedding) and module.padding is not None:
            nn.init.zeros_(module.vectors.data[module.padding])
    if getattr(model, "output", None) is not None:
        nn.init.normal_(model.output, std=0.02)  # pyright: ignore[reportArgumentType]
    for stack in model.modules():
        if isinstance(stack, Stack):
            shrink_last_maps(stack)


def shrink_last_maps(stack: Stack) -> None:
    """Initialise the last map of each part of each block smaller, so that the sum of the residuals keeps its size."""
    for block in cast("Iterable[Arrangement]", stack.blocks):
        parts = [part for part in (block.attention, block.cross, block.feed_forward) if part is not None]
        for part in parts:
            last = [module for module in part.modules() if isinstance(module, nn.Linear)][-1]
            nn.init.normal_(last.weight, std=0.02 / (len(parts) * len(stack.blocks)) ** 0.5)


INITIALS: dict[str, Callable[[nn.Module], None]] = {"xavier": xavier, "gpt2": gpt2}
