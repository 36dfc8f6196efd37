"""Keys and values kept between steps, so that each new token is projected once.

Tensors that a cache has returned never change afterwards: growing writes behind them, cropping and selecting copy.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.names import Misfit, format_shape

Keys = Float[Tensor, "batch kv_heads keys d_head"]
Values = Float[Tensor, "batch kv_heads keys d_value"]
AXES = {"keys": "batch kv_heads d_head", "values": "batch kv_heads d_value"}


class SelfCache:
    """The keys and values of all tokens so far, for one self-attention; a full buffer is doubled."""

    def __init__(self) -> None:
        self.length = 0
        self.buffers: dict[str, Tensor] = {}  # keys and values, with room for more

    @property
    def kv(self) -> tuple[Tensor, Tensor]:
        """All keys and all values."""
        return self.buffers["keys"][:, :, : self.length], self.buffers["values"][:, :, : self.length]

    def extend(self, K: Keys, V: Values) -> tuple[Tensor, Tensor]:
        """Append new keys and values, and return all of both."""
        if K.shape[2] != V.shape[2]:
            raise Misfit(
                f"each key needs its value, but keys={K.shape[2]} and values={V.shape[2]} came; give as many of both"
            )
        for name, new in (("keys", K), ("values", V)):
            self.check(name, new)
        for name, new in (("keys", K), ("values", V)):
            self.buffers[name] = append_tokens(self.buffers.get(name), self.length, new)
        self.length += K.shape[2]
        return self.kv

    def select(self, indices: Int[Tensor, " batch"]) -> None:
        """Keep these batch entries, in this order; an entry may come twice or not at all (beam search)."""
        self.buffers = {name: buffer.index_select(0, indices) for name, buffer in self.buffers.items()}

    def crop(self, length: int) -> None:
        """Drop all but the first `length` tokens."""
        if not 0 <= length <= self.length:
            raise Misfit(
                f"the cache holds {self.length} tokens, but it should be cropped to {length};"
                f" crop to {self.length} or fewer"
            )
        self.buffers = {name: buffer[:, :, :length].clone() for name, buffer in self.buffers.items()}
        self.length = length

    def check(self, name: str, new: Tensor) -> None:
        """New keys or values have the batch, heads, width, dtype and device of those in the cache."""
        buffer = self.buffers.get(name)
        if buffer is not None and fixed_axes(new) != fixed_axes(buffer):
            raise Misfit(
                f"the cache holds {name} {format_buffer(buffer, name)}, but {format_buffer(new, name)} came;"
                " make one cache per layer and batch"
            )


def fixed_axes(x: Tensor) -> tuple[object, ...]:
    """What does not change as a cache grows."""
    return (*x.shape[:2], *x.shape[3:], x.dtype, x.device)


def format_buffer(x: Tensor, name: str) -> str:
    return f"{format_shape((*x.shape[:2], *x.shape[3:]), AXES[name])} of {x.dtype} on {x.device}"


def append_tokens(buffer: Tensor | None, length: int, new: Tensor) -> Tensor:
    """The buffer with `new` written behind its first `length` tokens, in the same memory while there is room."""
    if buffer is None:
        return new.clone(memory_format=torch.contiguous_format)
    if torch.is_grad_enabled() and (new.requires_grad or buffer.requires_grad):
        # A backward pass will read this memory, so nothing may be written into it: each step copies.
        return torch.cat([buffer[:, :, :length], new], dim=2)
    needed = length + new.shape[2]
    if needed > buffer.shape[2]:
        larger = new.new_empty((*new.shape[:2], max(needed, 2 * buffer.shape[2]), new.shape[3]))
        larger[:, :, :length] = buffer[:, :, :length]
        buffer = larger
    buffer[:, :, length:needed] = new
    return buffer


class CrossCache:
    """The keys and values of a source sequence, for one cross-attention: computed once, then only read."""

    def __init__(self) -> None:
        self.source: Tensor | None = None  # what it was filled from, as long as its batch is the same
        self.kv: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        return 0 if self.kv is None else self.kv[0].shape[2]

    def fill(self, source: Tensor | None, project: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """The source's keys and values, projected at the first call."""
        if self.kv is None:
            if source is None:
                raise Misfit(
                    "an empty CrossCache needs a source to fill it, but none came;"
                    " give source at the first step, or use SelfCache() for self-attention"
                )
            self.source, self.kv = source, project(source)
        elif source is not None and source is not self.source:
            raise Misfit(
                "the CrossCache was filled from another source, but"
                f" {format_shape(source, 'batch source d_model')} came;"
                " leave source out, or make a new CrossCache"
            )
        return self.kv

    def select(self, indices: Int[Tensor, " batch"]) -> None:
        """Keep these batch entries, in this order; from then on, leave the source out."""
        if self.kv is not None:
            K, V = self.kv
            self.kv = K.index_select(0, indices), V.index_select(0, indices)
            self.source = None


@dataclass
class BlockCache:
    """The caches of one block: of its self-attention and of its cross-attention."""

    attention: SelfCache = field(default_factory=SelfCache)
    cross: CrossCache = field(default_factory=CrossCache)


class StackCache:
    """The caches of a stack of blocks, one `BlockCache` per layer."""

    def __init__(self, layers: int) -> None:
        self.blocks = [BlockCache() for _ in range(layers)]

    @property
    def length(self) -> int:
        """The number of tokens in the cache, which is the position of the next one."""
        return self.blocks[0].attention.length if self.blocks else 0

    def select(self, indices: Int[Tensor, " batch"]) -> None:
        """Keep these batch entries, in this order, in every layer."""
        for block in self.blocks:
            block.attention.select(indices)
            block.cross.select(indices)

    def crop(self, length: int) -> None:
        """Drop all but the first `length` tokens, in every layer; the source stays."""
        for block in self.blocks:
            block.attention.crop(length)
