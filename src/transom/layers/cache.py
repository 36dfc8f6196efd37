"""Keys and values kept between steps, so that each new token is projected once.

What a cache has handed out never changes afterwards: growing writes behind it, and cropping or selecting copies.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.names import Misfit, spelled

Keys = Float[Tensor, "batch kv_heads keys d_head"]
Values = Float[Tensor, "batch kv_heads keys d_value"]
AXES = {"keys": "batch kv_heads keys d_head", "values": "batch kv_heads keys d_value"}


class SelfCache:
    """The keys and values of all tokens so far, for one self-attention; room is doubled when it is full."""

    def __init__(self) -> None:
        self.length = 0
        self.held: dict[str, Tensor] = {}  # each with room for more along the keys

    def extend(self, K: Keys, V: Values) -> tuple[Tensor, Tensor]:
        """Add new keys and values at the end; gives all keys and all values."""
        if K.shape[2] != V.shape[2]:
            raise Misfit(
                f"each key needs its value, but keys={K.shape[2]} and values={V.shape[2]} came; give as many of both"
            )
        for name, new in (("keys", K), ("values", V)):
            self.check(name, new)
        for name, new in (("keys", K), ("values", V)):
            self.held[name] = extended(self.held.get(name), self.length, new)
        self.length += K.shape[2]
        return self.held["keys"][:, :, : self.length], self.held["values"][:, :, : self.length]

    def select(self, indices: Int[Tensor, " batch"]) -> None:
        """Keep these batch entries, in this order: one may come twice or not at all (beam search)."""
        self.held = {name: held.index_select(0, indices) for name, held in self.held.items()}

    def crop(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        if not 0 <= length <= self.length:
            raise Misfit(
                f"the cache holds {self.length} tokens, but a crop to {length} was asked;"
                f" crop to {self.length} or fewer"
            )
        self.held = {name: held[:, :, :length].clone() for name, held in self.held.items()}
        self.length = length

    def check(self, name: str, new: Tensor) -> None:
        held = self.held.get(name)
        if held is None:
            return
        came, kept = (shape_beside_keys(x) for x in (new, held))
        if came != kept:
            raise Misfit(
                f"the cache holds {name} {spelled_beside_keys(held, name)}, but {spelled_beside_keys(new, name)} came;"
                " make one cache per layer and batch"
            )


def shape_beside_keys(x: Tensor) -> tuple[object, ...]:
    return (*x.shape[:2], *x.shape[3:], x.dtype, x.device)


def spelled_beside_keys(x: Tensor, name: str) -> str:
    shape = spelled((*x.shape[:2], *x.shape[3:]), AXES[name].replace("keys ", "", 1))
    return f"{shape} of {x.dtype} on {x.device}"


def extended(held: Tensor | None, length: int, new: Tensor) -> Tensor:
    """What is held with `new` written behind the first `length`, in the same memory while there is room."""
    if held is not None and torch.is_grad_enabled() and (new.requires_grad or held.requires_grad):
        # Writing into memory that a backward pass will read is not possible, so with gradients each step copies.
        return torch.cat([held[:, :, :length], new], dim=2)
    if held is None:
        return new.clone(memory_format=torch.contiguous_format)
    needed = length + new.shape[2]
    if needed > held.shape[2]:
        held, full = new.new_empty((*new.shape[:2], max(needed, 2 * held.shape[2]), new.shape[3])), held
        held[:, :, :length] = full[:, :, :length]
    held[:, :, length:needed] = new
    return held


class CrossCache:
    """The keys and values of a source sequence, for one cross-attention: computed once, then only read."""

    def __init__(self) -> None:
        self.source: Tensor | None = None  # what it was filled from, while that is still the same batch
        self.held: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        return 0 if self.held is None else self.held[0].shape[2]

    def filled(
        self, source: Tensor | None, project: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """The source's keys and values, projected if this is the first time."""
        if self.held is None:
            if source is None:
                raise Misfit(
                    "an empty CrossCache needs a source to fill it, but none came;"
                    " give source at the first step, or use SelfCache() for self-attention"
                )
            self.source, self.held = source, project(source)
        elif source is not None and source is not self.source:
            raise Misfit(
                f"the CrossCache was filled from another source, but {spelled(source, 'batch source d_model')} came;"
                " leave source out, or make a new CrossCache"
            )
        return self.held

    def select(self, indices: Int[Tensor, " batch"]) -> None:
        """Keep these batch entries, in this order; from then on, leave the source out."""
        if self.held is not None:
            K, V = self.held
            self.held = K.index_select(0, indices), V.index_select(0, indices)
            self.source = None


@dataclass
class BlockCache:
    """What one block keeps: its own past, and the source it looks at."""

    own: SelfCache = field(default_factory=SelfCache)
    cross: CrossCache = field(default_factory=CrossCache)


class StackCache:
    """What a stack of blocks keeps, one `BlockCache` per layer."""

    def __init__(self, layers: int) -> None:
        self.blocks = [BlockCache() for _ in range(layers)]

    @property
    def length(self) -> int:
        """How many tokens have gone through: the position of the next one."""
        return self.blocks[0].own.length if self.blocks else 0

    def select(self, indices: Int[Tensor, " batch"]) -> None:
        """Keep these batch entries, in this order, in every layer."""
        for block in self.blocks:
            block.own.select(indices)
            block.cross.select(indices)

    def crop(self, length: int) -> None:
        """Forget all but the first `length` tokens, in every layer; the source stays."""
        for block in self.blocks:
            block.own.crop(length)
