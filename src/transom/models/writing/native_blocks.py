"""Quick steps by the native engine: all layers in one call, for the parts it knows, in float32 on a CPU."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.equations.positions import rotated_halves
from transom.kernels import engines, library
from transom.kernels.library import Engine
from transom.kernels.packed import Ahead, Packed
from transom.kernels.program import OWN, SOURCE, Draft, Heads, Program, Unknown, Value, fits
from transom.layers import Alibi, Arrangement, FeedForward, MultiHeadAttention, Projection, Relative, Rotary, SwiGLU
from transom.models.writing.prompted import Prompted

ROOM = 32  # steps of new keys and values; doubled when it is full
ACTIVATIONS = {torch.relu: "relu", F.gelu: "gelu"}
Part = Callable[[Value], Value]


class NativeBlocks:
    """Each row has a list of the slots that hold its past, so that keys and values are never moved."""

    def __init__(self, read: Prompted, engine: Engine) -> None:
        entries, length = read.entries, read.cache.length
        self.rotary = rotary(read.stack.blocks)
        self.program, self.unembedding = drafted(Draft(engine), read), Packed(engine, read.unembedding)
        # Of each row: the slots of its past, how many of them are padding, and which source it looks at.
        self.slots = torch.arange(entries * length, dtype=torch.int32).view(entries, length)
        self.skipped = None if read.real is None else (~read.real).sum(dim=1, dtype=torch.int32)
        self.entries = torch.arange(entries, dtype=torch.int32)
        self.length, self.used = length, entries * length
        first = cast("Arrangement", read.stack.blocks[0]).attention
        self.held = torch.empty(len(read.cache.blocks), self.used, 2 * first.kv_heads * first.d_head)
        for held, kept in zip(self.held, read.cache.blocks, strict=True):
            if length:
                held.copy_(flattened(kept.own.held["keys"], kept.own.held["values"], length))
        self.make_room(entries * read.beams)
        self.look_at_sources(read)

    def look_at_sources(self, read: Prompted) -> None:
        """List the real tokens of each source."""
        lists, kept = self.program.run.lists[SOURCE], read.cache.blocks[0].cross.held
        if kept is None:
            return
        source = kept[0].shape[2]
        real = torch.ones(read.entries, source, dtype=torch.bool) if read.source_real is None else read.source_real
        order = real.int().argsort(dim=1, descending=True, stable=True)
        first = torch.arange(0, read.entries * source, source)[:, None]
        self.sources, self.ends = (first + order).int(), real.sum(dim=1, dtype=torch.int32)
        lists.slots, lists.stride, lists.length = self.sources.data_ptr(), source, source
        lists.end = self.ends.data_ptr()

    def make_room(self, rows: int) -> None:
        """Room for one more key and value of each row."""
        if self.length == self.slots.shape[1]:
            self.slots = F.pad(self.slots, (0, max(ROOM, self.length)))
            self.program.reach(self.slots.shape[1], self.angles())
        if self.used + rows > self.held.shape[1]:
            self.held = F.pad(self.held, (0, 0, 0, max(ROOM * rows, self.held.shape[1])))
            self.program.hold(self.held)

    def angles(self) -> Float[Tensor, "token pairs"] | None:
        """By which queries and keys turn, at every position there is room for."""
        if self.rotary is None:
            return None
        return self.rotary.angles.at(torch.arange(self.slots.shape[1])[None], torch.float32)[0]

    def step(self) -> Int[Tensor, "#batch 1"]:
        """On to the next position: gives it, for each row."""
        self.make_room(len(self.slots))
        self.length += 1
        place = torch.tensor([[self.length - 1]])
        return place if self.skipped is None else place - self.skipped[:, None]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.slots), 1

    def logits(self, x: Float[Tensor, "rows d_model"]) -> Ahead:
        rows, lists = len(x), self.program.run.lists
        own = lists[OWN]
        own.slots, own.stride, own.length = self.slots.data_ptr(), self.slots.shape[1], self.length
        own.begin = None if self.skipped is None else self.skipped.data_ptr()
        lists[SOURCE].which = self.entries.data_ptr()
        self.used += rows
        return Ahead(self.program.step(x, self.used - rows), self.unembedding)

    def select(self, rows: Int[Tensor, " batch"], entries: Int[Tensor, " any"] | None = None) -> None:
        self.slots, self.entries = self.slots[rows], self.entries[rows]
        self.skipped = None if self.skipped is None else self.skipped[rows]


def native_blocks(read: Prompted) -> NativeBlocks | str:
    """The steps, or why the native engine does not do them."""
    engine = library.engine()
    if engines.wanted() == "torch" or isinstance(engine, str):
        return "the engine is torch" if engines.wanted() == "torch" else cast("str", engine)
    if not fits(engine):
        return library.OTHER
    for parameter in (read.unembedding, *read.stack.parameters()):
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            return f"it computes float32 on a CPU, not {parameter.dtype} on {parameter.device}"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    try:
        return NativeBlocks(read, engine)
    except Unknown as what:
        return f"it does not know {what}"


def drafted(draft: Draft, read: Prompted) -> Program:
    """A program for all layers, written down by the equations of the blocks themselves."""
    x = draft.value(read.unembedding.shape[1])
    for block, kept in zip(cast("Iterable[Arrangement]", read.stack.blocks), read.cache.blocks, strict=True):
        norms = {name: known(draft, part) for name, part in block.named_children() if name.startswith("norm_")}
        own = own_part(draft, block.attention)
        cross = None if block.cross is None else cross_part(draft, block.cross, kept.cross.held)
        parts, feed_forward = SimpleNamespace(**norms), known(draft, block.feed_forward)
        x = type(block).arranged(parts, x, own, cross, feed_forward)  # pyright: ignore[reportArgumentType]
    return Program(draft, known(draft, read.stack.closing)(cast("Value", x)))


def known(draft: Draft, module: nn.Module) -> Part:
    """The module's function of its parameters."""
    if type(module) is nn.Identity:
        return lambda x: x
    if type(module) is Projection:
        return lambda x: draft.product(x, module.weight, module.bias)
    if type(module) is nn.LayerNorm:
        return lambda x: draft.norm("layer_norm", x, module.weight, module.bias, module.eps)
    if type(module) is nn.RMSNorm and module.eps is not None:
        return lambda x: draft.norm("rms_norm", x, module.weight, None, cast("float", module.eps))
    if type(module) is FeedForward and module.activation in ACTIVATIONS:
        first, second, kind = known(draft, module.W_1), known(draft, module.W_2), ACTIVATIONS[module.activation]
        return lambda x: second(draft.noted(kind, hidden := first(x), hidden.width))
    if type(module) is SwiGLU:
        gate, up, down = (known(draft, part) for part in (module.W_gate, module.W_up, module.W_down))
        return lambda x: down(draft.noted("gate", opened := gate(x), opened.width, other=up(x)))
    raise Unknown(type(module).__name__)


def own_part(draft: Draft, layer: MultiHeadAttention) -> Part:
    """A self-attention: queries, keys and values by one product."""
    maps, positions = [layer.W_Q, layer.W_K, layer.W_V], layer.positions
    if positions.enters == "attention" and type(positions) not in (Rotary, Alibi, Relative):
        raise Unknown(f"{type(positions).__name__} positions in attention")
    for one in maps:
        if type(one) is not Projection:
            raise Unknown(type(one).__name__)
    weight = torch.cat([cast("Tensor", one.weight) for one in maps])
    bias = None if layer.W_Q.bias is None else torch.cat([cast("Tensor", one.bias) for one in maps])
    close, heads = known(draft, layer.W_O), Heads(layer.heads, layer.kv_heads, layer.d_head)
    if type(positions) is Rotary:
        halves = positions.turn is rotated_halves
        return lambda x: close(draft.own(draft.turned(draft.product(x, weight, bias), heads, halves), heads))
    added = positions.bias(weight.device)
    return lambda x: close(draft.own(draft.product(x, weight, bias), heads, added))


def rotary(blocks: Iterable[nn.Module]) -> Rotary | None:
    """The positions by which queries and keys are turned, the same in all blocks that have any."""
    parts = [cast("Arrangement", block).attention.positions for block in blocks]
    found = {(part.d_head, part.base): part for part in parts if type(part) is Rotary}
    if len(found) > 1:
        raise Unknown("Rotary positions that differ from block to block")
    return next(iter(found.values()), None)


def cross_part(draft: Draft, layer: MultiHeadAttention, held: tuple[Tensor, Tensor] | None) -> Part:
    """A cross-attention at a source whose keys and values are held."""
    assert held is not None
    open_, close, heads = (
        known(draft, layer.W_Q),
        known(draft, layer.W_O),
        Heads(layer.heads, layer.kv_heads, layer.d_head),
    )
    source = flattened(*held, held[0].shape[2])
    return lambda x: close(draft.cross(open_(x), heads, source))


def flattened(K: Tensor, V: Tensor, length: int) -> Float[Tensor, "any any2"]:
    """A row of numbers for each token of each entry: its keys and then its values, head by head."""
    both = torch.cat([K[:, :, :length], V[:, :, :length]], dim=1)
    return both.transpose(1, 2).flatten(2).flatten(0, 1).contiguous()
