"""What each part of a block adds to the residual stream: how long that vector is, for every token.

The model runs once more. A part counts only if it is proved by its numbers: the stream plus its output must be what
goes on, into a norm, the next part or the next block. A block of which this cannot be shown is left out.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.attention.labels import is_cross
from transom.lens.capture.output_projection import find_module

BLOCK = re.compile(r"(?:.*?\.)?\d+(?=\.|$)")
ROUNDING = 64 * torch.finfo(torch.float32).eps  # of the largest number


@dataclass(frozen=True, eq=False)
class BlockSizes:
    """The lengths of one block's vectors, per token.

    block    the path of the block
    before   the residual stream that enters
    parts    what is added to it, in order: "attention", "cross" or "feed_forward", and the length of each vector
    after    the residual stream that leaves, after a norm if the block ends with one
    """

    block: str
    before: Float[Tensor, "any"]
    parts: list[tuple[str, Tensor]]
    after: Float[Tensor, "any"]


@dataclass(eq=False)
class BlockRecorder:
    """The vectors that enter and leave the modules of one block, in the order of running."""

    size: torch.Size | None = None
    before: Tensor | None = None
    after: Tensor | None = None
    entered: list[Tensor] = field(default_factory=list)  # inputs of its modules, and at last the output of the block
    left: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # input and output of each of its modules

    def on_block_input(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.before is None and (x := first_vectors((*args, *kwargs.values()))) is not None:
            self.before, self.size = x.detach().clone(), x.shape

    def on_block_output(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if self.after is None and (y := first_vectors((output,))) is not None and y.shape == self.size:
            self.after = y.detach().clone()
            self.entered.append(self.after)

    def on_module(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        x, y = first_vectors((*args, *kwargs.values())), first_vectors((output,))
        if self.after is None and x is not None and y is not None and y.shape == self.size:
            self.left.append((x.detach().clone(), y.detach().clone()))

    def on_module_input(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = first_vectors((*args, *kwargs.values()))
        if self.after is None and x is not None and x.shape == self.size:
            self.entered.append(x.detach().clone())

    def find_parts(self) -> list[Tensor]:
        """The vectors that were added to the stream, each proved by the sum that goes on."""
        if self.before is None:
            return []
        streams, parts = [self.before], []
        for total in self.entered:
            found = next((y for x, y in self.left for stream in streams if is_sum(stream, y, total)), None)
            if found is not None:
                parts.append(found)
                normed = [y for x, y in self.left if x.shape == total.shape and torch.equal(x, total)]
                streams = [total, *normed]
        return parts


def first_vectors(values: Iterable[Any]) -> Tensor | None:
    """The first tensor of floating point numbers that has a row per token, also inside a tuple."""
    for value in values:
        value = value[0] if isinstance(value, tuple | list) and value else value
        if isinstance(value, Tensor) and value.dim() == 3 and value.is_floating_point():
            return value
    return None


def is_sum(stream: Tensor, part: Tensor, total: Tensor) -> bool:
    """Whether the stream and a part give the total; a part of zeros proves nothing."""
    tolerance = ROUNDING * float(total.abs().max())
    return bool(part.any()) and torch.allclose(stream + part, total, rtol=0.0, atol=tolerance)


def block_path(name: str) -> str:
    """The block of an attention: its path up to the first number; its own path if it has none."""
    found = BLOCK.match(name)
    return name if found is None else found[0]


def measure_residual_sizes(
    model: nn.Module, run: Callable[[], object], names: Iterable[str]
) -> dict[str, BlockSizes | None]:
    """The sizes in each block that holds these attentions; None where the parts could not be proved."""
    blocks: dict[str, list[str]] = {}
    for name in names:
        blocks.setdefault(block_path(name), []).append(name)
    recorders = {path: BlockRecorder() for path in blocks}
    with torch.no_grad(), ExitStack() as stack:
        for path, recorder in recorders.items():
            module = find_module(model, path)
            if module is not None:
                attach_recorder(stack, module, recorder)
        run()
    return {path: block_sizes(path, recorders[path], attentions) for path, attentions in blocks.items()}


def attach_recorder(stack: ExitStack, block: nn.Module, recorder: BlockRecorder) -> None:
    stack.enter_context(block.register_forward_pre_hook(recorder.on_block_input, with_kwargs=True))  # pyright: ignore[reportArgumentType]
    for module in block.modules():
        if module is not block:
            stack.enter_context(module.register_forward_pre_hook(recorder.on_module_input, with_kwargs=True))  # pyright: ignore[reportArgumentType]
            stack.enter_context(module.register_forward_hook(recorder.on_module, with_kwargs=True))  # pyright: ignore[reportArgumentType]
    stack.enter_context(block.register_forward_hook(recorder.on_block_output))


def block_sizes(path: str, recorder: BlockRecorder, attentions: list[str]) -> BlockSizes | None:
    """What was proved of a block: each of its attentions added something, and the feed-forward part after them."""
    parts = recorder.find_parts()
    kinds = ["cross" if is_cross(name) else "attention" for name in attentions]
    if recorder.before is None or recorder.after is None or len(parts) != len(kinds) + 1:
        return None
    lengths = [(kind, length_per_token(part)) for kind, part in zip([*kinds, "feed_forward"], parts, strict=True)]
    return BlockSizes(path, length_per_token(recorder.before), lengths, length_per_token(recorder.after))


def length_per_token(x: Tensor) -> Float[Tensor, "any"]:
    return x[0].double().norm(dim=-1)
