"""A decoding step for the native engine: what the layers of a model do to one new token of each row, as a program.

A `ProgramBuilder` records operations on values that do not exist yet; a `DecodeProgram` runs them in one call.
"""

import ctypes
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.biases import Bias
from transom.equations.region import Region
from transom.kernels.native_library import NativeLibrary, Operation, ProgramStruct, check_code, threads
from transom.kernels.packed_linear import PackedMatrix

# In the order of `enum OperationKind` in native/decode_program.hpp.
KINDS = [
    "linear",
    "add",
    "layer_norm",
    "rms_norm",
    "relu",
    "gelu",
    "swiglu",
    "rotary",
    "rotary_halves",
    "store_kv",
    "attend",
    "gelu_tanh",
    "silu",
    "multiply",
    "norm_heads",
]
OWN, SOURCE = 0, 1  # the slot tables: of self-attention, and of cross-attention


class UnsupportedPart(Exception):
    """Something that a program cannot do."""


@dataclass(frozen=True)
class HeadSizes:
    """The sizes of an attention."""

    heads: int
    kv_heads: int
    d_head: int


class ProgramValue(Tensor):
    """A value that a program will compute: a tensor only in shape, which the equation of a block can add up."""

    builder: "ProgramBuilder"
    number: int
    width: int

    def __add__(self, other: object) -> "ProgramValue":
        if not isinstance(other, ProgramValue):
            raise UnsupportedPart("adding what is not a value")
        return self.builder.record("add", self, self.width, other=other)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ == "__get__" or func in (Tensor.dim, Tensor.size):
            return super().__torch_function__(func, types, args, kwargs or {})
        raise UnsupportedPart(f"{func.__name__} in the equation of a block")


@dataclass
class ProgramBuilder:
    """Records operations; their input, other and output are numbers of values until registers are allocated."""

    engine: NativeLibrary
    operations: list[Operation] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)  # of each value
    references: list[Tensor] = field(default_factory=list)  # the memory that operations point at
    biases: dict[int, Bias] = field(default_factory=dict)  # by the index of their attention's operation

    def value(self, width: int) -> ProgramValue:
        """A new value that is not computed yet."""
        value = torch.empty(1, width).as_subclass(ProgramValue)
        value.builder, value.number, value.width = self, len(self.widths), width
        self.widths.append(width)
        return value

    def record(
        self, kind: str, x: ProgramValue, width: int, other: ProgramValue | None = None, **settings: Any
    ) -> ProgramValue:
        """The result of an operation on x; x itself if the operation has no result, which is a width of 0."""
        result = self.value(width) if width else x
        values = x.number, (x if other is None else other).number, result.number
        self.operations.append(Operation(KINDS.index(kind), *values, x.width, width, **settings))
        return result

    def linear(self, x: ProgramValue, weight: Tensor, bias: Tensor | None) -> ProgramValue:
        """x · weightᵀ + bias."""
        matrix = PackedMatrix(self.engine, weight, bias)
        weight, bias = matrix.weight, matrix.bias
        self.references += [weight, bias]
        return self.record("linear", x, matrix.out_features, weight=weight.data_ptr(), bias=bias.data_ptr())

    def norm(self, kind: str, x: ProgramValue, gain: Tensor | None, shift: Tensor | None, eps: float) -> ProgramValue:
        """x normalised, times `gain`, plus `shift`."""
        width = x.width
        gain = torch.ones(width) if gain is None else gain.detach().clone()
        shift = torch.zeros(width) if shift is None else shift.detach().clone()
        self.references += [gain, shift]
        return self.record(kind, x, width, weight=gain.data_ptr(), bias=shift.data_ptr(), eps=eps)

    def norm_heads(self, x: ProgramValue, heads: HeadSizes, gains: list[Tensor], eps: float) -> ProgramValue:
        """x with each query and key divided by its root mean square, times the gain of queries or that of keys."""
        gains = [gain.detach().clone() for gain in gains]
        self.references += gains
        pointers = {"weight": gains[0].data_ptr(), "bias": gains[1].data_ptr()}
        return self.record("norm_heads", x, x.width, eps=eps, **pointers, **asdict(heads))

    def rotate(self, x: ProgramValue, heads: HeadSizes, halves: bool) -> ProgramValue:
        """x with its queries and keys rotated by the angles of their position; the values after them stay."""
        return self.record("rotary_halves" if halves else "rotary", x, x.width, **asdict(heads))

    def self_attention(self, x: ProgramValue, heads: HeadSizes, bias: Bias | None = None) -> ProgramValue:
        """Store the keys and values in x, which come after its queries, and attend to all that are stored.

        A bias must depend on the distance alone.
        """
        self.record("store_kv", x, 0, **asdict(heads))
        if bias is not None:
            self.biases[len(self.operations)] = bias
        return self.record("attend", x, heads.heads * heads.d_head, slot_table=OWN, **asdict(heads))

    def cross_attention(self, x: ProgramValue, heads: HeadSizes, source_kv: Float[Tensor, "any any2"]) -> ProgramValue:
        """The attention of the queries in x to the keys and values of a source."""
        self.references.append(source_kv)
        width, kv_cache = heads.heads * heads.d_head, source_kv.data_ptr()
        return self.record("attend", x, width, slot_table=SOURCE, kv_cache=kv_cache, **asdict(heads))


class DecodeProgram:
    """The operations of a builder with their values in registers, ready to run."""

    def __init__(self, builder: ProgramBuilder, output: ProgramValue) -> None:
        self.native, self.references = builder.engine.native, builder.references
        registers, self.register_count = allocate_registers(builder)
        registers[output.number] = -1
        self.width, self.output_width = max(builder.widths), output.width
        self.operations = (Operation * len(builder.operations))(*builder.operations)
        for operation in self.operations:
            operation.input, operation.other = registers[operation.input], registers[operation.other]
            operation.output = registers[operation.output]
        self.struct = ProgramStruct(ctypes.addressof(self.operations), len(self.operations))
        self.biases, self.bias_tables = builder.biases, list[Tensor]()
        self.registers = self.output = self.rotary = torch.empty(0)

    def reserve(
        self, positions: int, angles: Float[Tensor, "token pairs"] | None = None, magnitude: float = 1.0
    ) -> None:
        """Prepare biases and angles for this many positions; rotated numbers are multiplied by `magnitude`."""
        self.bias_tables, self.struct.positions = [], positions
        if angles is not None:
            self.rotary = torch.stack([angles.cos(), angles.sin()], dim=2) * magnitude
            self.struct.rotary = self.rotary.data_ptr()
        for index, bias in self.biases.items():
            operation = self.operations[index]
            last_row = Region((1, operation.heads, 1, positions), device=torch.device("cpu"))
            self.bias_tables.append(bias.materialize(last_row)[0, :, 0].detach().float().contiguous())
            operation.weight = self.bias_tables[-1].data_ptr()

    def set_kv(self, kv_cache: Float[Tensor, "any any2 any3"]) -> None:
        """Store keys and values of self-attention in this tensor: (layers, slots, numbers of a slot)."""
        layer = -1
        for operation in self.operations:
            kind = KINDS[operation.kind]
            layer += kind == "store_kv"
            if kind == "store_kv" or (kind == "attend" and operation.slot_table == OWN):
                operation.kv_cache = kv_cache[layer].data_ptr()

    def step(self, x: Float[Tensor, "rows d_model"], slot: int) -> Float[Tensor, "rows any"]:
        """The output for each row of x; the next step overwrites it."""
        rows, struct = len(x), self.struct
        if rows > struct.register_size // self.width:
            self.registers = torch.empty(self.register_count, rows * self.width)
            self.output = torch.empty(rows * self.output_width)
            struct.registers, struct.output = self.registers.data_ptr(), self.output.data_ptr()
            struct.register_size = rows * self.width
        self.registers[0, : x.numel()] = x.flatten()
        struct.rows, struct.slot = rows, slot
        check_code(self.native.transom_decode_step(ctypes.byref(struct), threads()))
        return self.output[: rows * self.output_width].view(rows, self.output_width)


def allocate_registers(builder: ProgramBuilder) -> tuple[list[int], int]:
    """The register of each value, reused when its value is no longer needed, and how many registers there are."""
    operations = builder.operations
    last_use = {value: step for step, one in enumerate(operations) for value in (one.input, one.other)}
    registers, free, count = [0] * len(builder.widths), [], 1
    for step, operation in enumerate(operations):
        if operation.output != operation.input:
            if not free:
                free, count = [count], count + 1
            registers[operation.output] = free.pop()
        free += {registers[value] for value in (operation.input, operation.other) if last_use[value] == step}
    return registers, count
