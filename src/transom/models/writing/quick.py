"""Steps that do not go through the layers' forward passes: the same parameters and equations, unchecked.

The layers check what comes, and keep keys and values for every row of a batch; at every token and layer that takes
longer than the arithmetic. Here the rows of one prompt (the beams of a search) lie side by side, as queries over common
keys and values. So nothing is copied when a search changes its mind, and a source is kept once, however many beams
look at it.
"""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from transom.kernels import door
from transom.layers import Arrangement, Embedding, Stack
from transom.models.writing.bare import bare, unembedded
from transom.models.writing.quick_parts import OwnPast, Source
from transom.models.writing.rows import Rows
from transom.models.writing.steps import DecoderSteps, EncoderDecoderSteps, Logits, Steps


class Ends(NamedTuple):
    """The parts of a model that take a token in and bring logits out."""

    embedding: Embedding
    stack: Stack
    unembedding: nn.Parameter


class QuickSteps:
    """Steps of a model whose prompts are read by its own forward pass, and all that follows without."""

    def __init__(self, plain: DecoderSteps | EncoderDecoderSteps, ends: Ends, beams: int) -> None:
        self.plain, self.embedding, self.stack = plain, ends.embedding, ends.stack
        self.closing, self.parameter, self.beams = bare(ends.stack.closing), ends.unembedding, beams

    def first(self) -> Logits:
        logits, cache = self.plain.first(), self.plain.cache
        self.rows = Rows(len(logits), cache.length, self.plain.prompt_real, self.parameter)
        self.logits = unembedded(self.parameter, len(logits) * self.beams)
        mask = added(self.plain.source_real, self.parameter)
        self.parts: list[OwnPast | Source] = []
        self.blocks: list[Callable[[Tensor], Tensor]] = []
        for block, kept in zip(cast("Iterable[Arrangement]", self.stack.blocks), cache.blocks, strict=True):
            K, V = (kept.own.held[name][:, :, : cache.length] for name in ("keys", "values"))
            own, cross = OwnPast(block.attention, K, V, self.rows, self.beams), None
            self.parts.append(own)
            if block.cross is not None and kept.cross.held is not None:
                cross = Source(block.cross, *kept.cross.held, mask, self.rows)
                self.parts.append(cross)
            self.blocks.append(arranged(block, own, cross))
        return logits

    def next(self, tokens: Int[Tensor, " batch"]) -> Logits:
        rows, embedding = self.rows, self.embedding
        kept = rows.unseen()
        if kept is not None:
            for part in self.parts:
                part.keep(kept)
        rows.step()
        x = F.embedding(tokens.view(rows.entries, rows.times), embedding.vectors) * embedding.scale
        x = embedding.positions.embedded(x, rows.at()).flatten(0, 1)
        for block in self.blocks:
            x = block(x)
        return self.logits(self.closing(x))

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        self.rows.select(rows, entries)
        if entries is not None:
            for part in self.parts:
                part.select(entries)


def arranged(block: Arrangement, own: OwnPast, cross: Source | None) -> Callable[[Tensor], Tensor]:
    """A block by its own equation, over bare parts."""
    norms = {f"norm_{place}": bare(getattr(block, f"norm_{place}", nn.Identity())) for place in block.normed}
    equation, parts, feed_forward = type(block).arranged, SimpleNamespace(**norms), bare(block.feed_forward)
    return lambda x: equation(parts, x, own, cross, feed_forward)  # pyright: ignore[reportArgumentType]


def added(real: Bool[Tensor, "batch source"] | None, like: Tensor) -> Float[Tensor, "batch 1 1 source"] | None:
    """0 for real tokens, −∞ for padding: what is added to the scores."""
    return None if real is None else like.new_zeros(real.shape).masked_fill(~real, -torch.inf)[:, None, None]


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
