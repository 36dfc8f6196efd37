"""Decoding steps by the native engine: all layers in one call, in float32 on a CPU, for the parts it knows."""

from collections.abc import Callable, Iterable
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.equations.attention import default_scale
from transom.equations.positions import apply_rotary_halves
from transom.kernels import dispatch, native_library
from transom.kernels.decode_program import (
    OWN,
    SOURCE,
    DecodeProgram,
    HeadSizes,
    ProgramBuilder,
    ProgramValue,
    UnsupportedPart,
)
from transom.kernels.native_library import NativeLibrary
from transom.kernels.packed_linear import LazyLogits, PackedMatrix
from transom.layers import (
    Alibi,
    Arrangement,
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
    Projection,
    Relative,
    RelativeBuckets,
    Rotary,
    SwiGLU,
)
from transom.layers.feed_forward import gelu_tanh
from transom.models.generation.decoding_steps import CachedSteps, DecodingSteps
from transom.models.generation.fast.functional import BlockParts, embed_tokens

ROOM = 32  # steps of new keys and values in a buffer; a full one is doubled
ACTIVATIONS = {torch.relu: "relu", F.gelu: "gelu", gelu_tanh: "gelu_tanh", F.silu: "silu"}
Part = Callable[[ProgramValue], ProgramValue]


class NativeSteps(DecodingSteps):
    """Each row has a list of the slots that hold its past, so keys and values are never moved."""

    def __init__(self, cached: CachedSteps, num_beams: int, engine: NativeLibrary) -> None:
        model, blocks = cached.model, cached.cache.blocks
        prompts, length = len(cached.prompt), cached.cache.length
        self.embedding, self.rotary = model.embedding, common_rotary(model.stack.blocks)
        self.window = common_window(model.stack.blocks)
        self.program = build_program(ProgramBuilder(engine), cached)
        unembedding = model.unembedding if model.logits_scale == 1.0 else model.unembedding * model.logits_scale
        self.unembedding = PackedMatrix(engine, unembedding, model.logits_bias)
        # Of each row: the slots of its past, how many of them are padding, and the source it attends to.
        self.slots = torch.arange(prompts * length, dtype=torch.int32).view(prompts, length)
        self.left_padding = None if cached.real is None else (~cached.real).sum(dim=1, dtype=torch.int32)
        self.row_sources = torch.arange(prompts, dtype=torch.int32)
        self.length, self.used = length, prompts * length
        layer = cast("Arrangement", model.stack.blocks[0]).attention
        self.kv = torch.empty(len(blocks), self.used, 2 * layer.kv_heads * layer.d_head)
        for layer_kv, block_cache in zip(self.kv, blocks, strict=True):
            if length:
                layer_kv.copy_(flatten_kv(*block_cache.attention.kv))
        self.make_room(prompts * num_beams)
        self.set_sources(cached)

    def set_sources(self, cached: CachedSteps) -> None:
        """List the real tokens of each source, if there are sources."""
        kv = cached.cache.blocks[0].cross.kv
        if kv is None:
            return
        prompts, _, length, _ = kv[0].shape
        real = torch.ones(prompts, length, dtype=torch.bool) if cached.source_real is None else cached.source_real
        order = real.int().argsort(dim=1, descending=True, stable=True)
        first = torch.arange(0, prompts * length, length)[:, None]
        self.source_slots, self.source_ends = (first + order).int(), real.sum(dim=1, dtype=torch.int32)
        table = self.program.struct.slot_tables[SOURCE]
        table.slots, table.stride, table.length = self.source_slots.data_ptr(), length, length
        table.end = self.source_ends.data_ptr()

    def make_room(self, rows: int) -> None:
        """Make room for one more key and value of each row."""
        if self.length == self.slots.shape[1]:
            self.slots = F.pad(self.slots, (0, max(ROOM, self.length)))
            magnitude = 1.0 if self.rotary is None else self.rotary.magnitude
            self.program.reserve(self.slots.shape[1], self.angles(), magnitude)
        if self.used + rows > self.kv.shape[1]:
            self.kv = F.pad(self.kv, (0, 0, 0, max(ROOM * rows, self.kv.shape[1])))
            self.program.set_kv(self.kv)

    def angles(self) -> Float[Tensor, "token pairs"] | None:
        """The rotary angles of every position there is room for."""
        if self.rotary is None:
            return None
        return self.rotary.angles.lookup(torch.arange(self.slots.shape[1])[None], torch.float32)[0]

    def next(self, tokens: Int[Tensor, " batch"]) -> LazyLogits:
        rows = len(tokens)
        self.make_room(rows)
        position = torch.tensor([[self.length]])
        position = position if self.left_padding is None else position - self.left_padding[:, None]
        x = embed_tokens(self.embedding, tokens.view(rows, 1), position)
        self.length += 1
        own, source = self.program.struct.slot_tables[OWN], self.program.struct.slot_tables[SOURCE]
        own.slots, own.stride, own.length = self.slots.data_ptr(), self.slots.shape[1], self.length
        self.first_keys = self.find_first_keys(rows)
        own.begin = None if self.first_keys is None else self.first_keys.data_ptr()
        source.row_lists = self.row_sources.data_ptr()
        self.used += rows
        return LazyLogits(self.program.step(x, self.used - rows), self.unembedding)

    def find_first_keys(self, rows: int) -> Int[Tensor, " rows"] | None:
        """The place of the first key that each row attends to: behind its padding, and within the window."""
        if self.window is None or self.length <= self.window:
            return self.left_padding
        first = self.length - self.window
        if self.left_padding is None:
            return torch.full((rows,), first, dtype=torch.int32)
        return self.left_padding.clamp(min=first)

    def select(self, rows: Int[Tensor, " batch"], prompts: Int[Tensor, " any"] | None = None) -> None:
        self.slots, self.row_sources = self.slots[rows], self.row_sources[rows]
        self.left_padding = None if self.left_padding is None else self.left_padding[rows]


def make_native_steps(cached: CachedSteps, num_beams: int) -> NativeSteps | str:
    """The steps, or why the native engine cannot do them."""
    engine = native_library.library_or_reason()
    if dispatch.requested_engine() == "torch":
        return "the engine is torch"
    if isinstance(engine, str):
        return engine
    for parameter in (cached.model.unembedding, *cached.model.stack.parameters()):
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            return f"it computes float32 on a CPU, not {parameter.dtype} on {parameter.device}"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    try:
        return NativeSteps(cached, num_beams, engine)
    except UnsupportedPart as part:
        return f"it does not know {part}"


def build_program(builder: ProgramBuilder, cached: CachedSteps) -> DecodeProgram:
    """A program for all layers, recorded by running the equations of the blocks."""
    stack = cached.model.stack
    x = builder.value(cached.model.unembedding.shape[1])
    for block, cache in zip(cast("Iterable[Arrangement]", stack.blocks), cached.cache.blocks, strict=True):
        norms = {
            name: translate_module(builder, part) for name, part in block.named_children() if name.startswith("norm_")
        }
        attention = translate_self_attention(builder, block.attention)
        cross = None if block.cross is None else translate_cross_attention(builder, block.cross, cache.cross.kv)
        parts, feed_forward = BlockParts(block, norms), translate_module(builder, block.feed_forward)
        x = type(block).combine(parts, x, attention, cross, feed_forward)  # pyright: ignore[reportArgumentType]
    return DecodeProgram(builder, translate_module(builder, stack.closing)(cast("ProgramValue", x)))


def translate_module(builder: ProgramBuilder, module: nn.Module) -> Part:
    """The module as a function that records its operations."""
    if type(module) is nn.Identity:
        return lambda x: x
    if type(module) is Projection:
        return lambda x: builder.linear(x, module.weight, module.bias)
    if type(module) is nn.LayerNorm:
        return lambda x: builder.norm("layer_norm", x, module.weight, module.bias, module.eps)
    if type(module) is nn.RMSNorm and module.eps is not None:
        return lambda x: builder.norm("rms_norm", x, module.weight, None, cast("float", module.eps))
    if type(module) is FeedForward and module.activation in ACTIVATIONS:
        first, second = translate_module(builder, module.W_1), translate_module(builder, module.W_2)
        activation = ACTIVATIONS[module.activation]
        return lambda x: second(builder.record(activation, hidden := first(x), hidden.width))
    if type(module) is SwiGLU and module.activation is F.silu:
        gate, up, down = (translate_module(builder, part) for part in (module.W_gate, module.W_up, module.W_down))
        return lambda x: down(builder.record("swiglu", gated := gate(x), gated.width, other=up(x)))
    if type(module) is GatedFeedForward and module.activation in ACTIVATIONS:
        return translate_gated(builder, module)
    raise UnsupportedPart(type(module).__name__)


def translate_gated(builder: ProgramBuilder, module: GatedFeedForward) -> Part:
    gate, up, down = (translate_module(builder, part) for part in (module.W_gate, module.W_up, module.W_down))
    activation = ACTIVATIONS[module.activation]

    def feed_forward(x: ProgramValue) -> ProgramValue:
        gated = builder.record(activation, hidden := gate(x), hidden.width)
        return down(builder.record("multiply", gated, gated.width, other=up(x)))

    return feed_forward


def translate_self_attention(builder: ProgramBuilder, layer: MultiHeadAttention) -> Part:
    """A self-attention with queries, keys and values by one product."""
    positions = layer.positions
    if positions.enters == "attention" and type(positions) not in (Rotary, Alibi, Relative, RelativeBuckets):
        raise UnsupportedPart(f"{type(positions).__name__} positions in attention")
    project, project_out, sizes = translate_qkv(builder, layer), translate_module(builder, layer.W_O), head_sizes(layer)
    if type(positions) is Rotary:
        halves = positions.apply_angles is apply_rotary_halves

        def attend_rotated(x: ProgramValue) -> ProgramValue:
            return project_out(builder.self_attention(builder.rotate(project(x), sizes, halves), sizes))

        return attend_rotated
    score_bias = positions.bias(layer.W_O.weight.device)
    return lambda x: project_out(builder.self_attention(project(x), sizes, score_bias))


def translate_qkv(builder: ProgramBuilder, layer: MultiHeadAttention) -> Part:
    """Queries, keys and values side by side, with the layer's scale in the queries and its norms."""
    modules = [layer.W_Q, layer.W_K, layer.W_V]
    for module in modules:
        if type(module) is not Projection:
            raise UnsupportedPart(type(module).__name__)
    norms = layer.norm_Q, layer.norm_K
    factor = query_factor(layer)
    weights = [cast("Tensor", module.weight) for module in modules]
    biases = [cast("Tensor", module.bias) for module in modules] if layer.W_Q.bias is not None else None
    if norms != (None, None):
        gains = [head_gain(norm) for norm in norms]
        weight, bias = torch.cat(weights), None if biases is None else torch.cat(biases)
        eps = cast("float", cast("nn.RMSNorm", layer.norm_Q).eps)
        gains[0] = gains[0] * factor
        return lambda x: builder.norm_heads(builder.linear(x, weight, bias), head_sizes(layer), gains, eps)
    weight = torch.cat([weights[0] * factor, *weights[1:]])
    bias = None if biases is None else torch.cat([biases[0] * factor, *biases[1:]])
    return lambda x: builder.linear(x, weight, bias)


def query_factor(layer: MultiHeadAttention) -> float:
    """The queries times this, and the engine's own scale, give the scores of the layer."""
    return 1.0 if layer.scale is None else layer.scale / default_scale(layer.d_head)


def head_gain(norm: nn.Module | None) -> Tensor:
    """The gain of a norm of queries or keys, which the engine knows if it is an RMSNorm."""
    if type(norm) is not nn.RMSNorm or norm.eps is None or norm.weight is None:
        raise UnsupportedPart(f"{type(norm).__name__} of queries or keys")
    return norm.weight


def translate_cross_attention(
    builder: ProgramBuilder, layer: MultiHeadAttention, kv: tuple[Tensor, Tensor] | None
) -> Part:
    """A cross-attention to a source whose keys and values are in the cache."""
    assert kv is not None
    if type(layer.W_Q) is not Projection or layer.norm_Q is not None:
        raise UnsupportedPart(type(layer.W_Q if layer.norm_Q is None else layer.norm_Q).__name__)
    factor, W_Q = query_factor(layer), layer.W_Q
    weight, bias = W_Q.weight * factor, None if W_Q.bias is None else W_Q.bias * factor
    project_out, sizes, source = translate_module(builder, layer.W_O), head_sizes(layer), flatten_kv(*kv)
    return lambda x: project_out(builder.cross_attention(builder.linear(x, weight, bias), sizes, source))


def head_sizes(layer: MultiHeadAttention) -> HeadSizes:
    return HeadSizes(layer.heads, layer.kv_heads, layer.d_head)


def common_rotary(blocks: Iterable[nn.Module]) -> Rotary | None:
    """The rotary positions of the blocks that have any, which must be the same in all of them."""
    parts = [cast("Arrangement", block).attention.positions for block in blocks]
    different = {(part.d_head, part.base, part.scaling): part for part in parts if type(part) is Rotary}
    if len(different) > 1:
        raise UnsupportedPart("Rotary positions that differ from block to block")
    return next(iter(different.values()), None)


def common_window(blocks: Iterable[nn.Module]) -> int | None:
    """The window of the blocks, which must be the same in all of them: they share their lists of keys."""
    windows = {cast("Arrangement", block).attention.window for block in blocks}
    if len(windows) > 1:
        raise UnsupportedPart("windows that differ from block to block")
    return windows.pop()


def flatten_kv(K: Tensor, V: Tensor) -> Float[Tensor, "any any2"]:
    """One row of numbers for each token of each prompt: its keys, then its values, head by head."""
    return torch.cat([K, V], dim=1).transpose(1, 2).flatten(2).flatten(0, 1).contiguous()
