"""What the parameters of a model start from."""

from collections.abc import Callable, Iterable
from typing import cast

from torch import nn

from transom.layers import Arrangement, Embedding, Stack
from transom.layers.positions import Learned


def xavier(model: nn.Module) -> None:
    """As each layer starts by itself: Xavier's uniform distribution (Glorot & Bengio 2010), biases 0."""


def gpt2(model: nn.Module) -> None:
    """Normal numbers of deviation 0.02, divided by √(residuals) for each part's last map (Radford et al. 2019, 2.3).

    For models whose embeddings are not scaled: with √d_model in front, 0.02 would be a tenth of what the paper has.
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
            closing_maps(stack)


def closing_maps(stack: Stack) -> None:
    """The last map of each part of each block, started smaller, so that the sum of the residuals keeps its size."""
    for block in cast("Iterable[Arrangement]", stack.blocks):
        parts = [part for part in (block.attention, block.cross, block.feed_forward) if part is not None]
        for part in parts:
            last = [module for module in part.modules() if isinstance(module, nn.Linear)][-1]
            nn.init.normal_(last.weight, std=0.02 / (len(parts) * len(stack.blocks)) ** 0.5)


Initial = Callable[[nn.Module], None]
INITIALS: dict[str, Initial] = {"xavier": xavier, "gpt2": gpt2}
