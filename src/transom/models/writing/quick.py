"""Steps that do not go through the layers' forward passes: the same parameters and equations, unchecked.

The layers check what comes, and keep keys and values for every row of a batch; at every token and layer that takes
longer than the arithmetic.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from transom.kernels import door
from transom.layers import Embedding, Stack
from transom.models.writing.native_blocks import native_blocks
from transom.models.writing.prompted import Prompted
from transom.models.writing.steps import Answer, DecoderSteps, EncoderDecoderSteps, Steps
from transom.models.writing.torch_blocks import TorchBlocks


class Ends(NamedTuple):
    """The parts of a model that take a token in and bring logits out."""

    embedding: Embedding
    stack: Stack
    unembedding: nn.Parameter


class QuickSteps:
    """Steps of a model whose prompts are read by its own forward pass, and all that follows without."""

    def __init__(self, plain: DecoderSteps | EncoderDecoderSteps, ends: Ends, beams: int) -> None:
        self.plain, self.ends, self.beams = plain, ends, beams

    def first(self) -> Answer:
        plain = self.plain
        short = plain.prompt.shape[1] == 1 and plain.prompt_real is None  # then it needs no reading: it is a step
        if short:
            self.ends.embedding.looked_up(plain.prompt)  # which complains of a token that there is not
            plain.look_at_source()
        logits = None if short else plain.first()
        native = native_blocks(self.read())
        if not isinstance(native, str):
            self.blocks = native
            return self.next(plain.prompt[:, 0]) if logits is None else logits
        logits = plain.first() if logits is None else logits
        self.blocks = TorchBlocks(self.read())
        return logits

    def read(self) -> Prompted:
        plain, ends = self.plain, self.ends
        real = plain.prompt_real, plain.source_real
        return Prompted(ends.stack, ends.unembedding, plain.cache, *real, len(plain.prompt), self.beams)

    def next(self, tokens: Int[Tensor, " batch"]) -> Answer:
        blocks, embedding = self.blocks, self.ends.embedding
        at = blocks.step()
        x = F.embedding(tokens.view(blocks.shape), embedding.vectors) * embedding.scale
        return blocks.logits(embedding.positions.embedded(x, at).flatten(0, 1))

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        self.blocks.select(rows, entries)


def quick(plain: DecoderSteps | EncoderDecoderSteps, ends: Ends, beams: int) -> Steps:
    """The quick way where it gives the same; the plain one where somebody listens, or where a row may look nowhere."""
    source = plain.source_real
    if hooked(plain.model) or (source is not None and not bool(source.any(dim=1).all())):
        return plain
    return QuickSteps(plain, ends, beams)


def hooked(model: nn.Module) -> bool:
    """Whether a forward pass of this model is listened to, or replaced: then it must be gone through."""
    of_all = (everywhere._global_forward_hooks, everywhere._global_forward_pre_hooks, door.listener)
    if any(of_all) or torch._C._len_torch_function_stack():
        return True
    return any(
        module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module) for module in model.modules()
    )
