"""A step of writing for the native engine: what the layers of a model do to one new token of each row, as a program.

A `Draft` writes down operations on values that are not there yet; a `Program` runs them, all in one call.
"""

import ctypes
from ctypes import c_double, c_int64, c_void_p
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transom.equations.biases import Bias
from transom.equations.blocks import Block
from transom.kernels import library
from transom.kernels.library import Engine
from transom.kernels.packed import Packed, done, prepared

# In the order of program.hpp.
KINDS = ("product", "add", "layer_norm", "rms_norm", "relu", "gelu", "gate", "turn", "turn_halves", "keep", "look")
OWN, SOURCE = 0, 1  # whose lists an attention goes by


class Lists(ctypes.Structure):
    """`struct Lists` of native/listed.hpp."""

    _fields_ = (
        ("slots", c_void_p),
        ("stride", c_int64),
        ("length", c_int64),
        ("begin", c_void_p),
        ("end", c_void_p),
        ("which", c_void_p),
    )


class Operation(ctypes.Structure):
    """`struct Operation` of native/program.hpp."""

    _fields_ = (
        *((name, c_int64) for name in ("kind", "from_", "other", "to", "inputs", "outputs")),
        *((name, c_void_p) for name in ("matrix", "shift", "held")),
        *((name, c_int64) for name in ("heads", "kv_heads", "d", "list")),
        ("eps", c_double),
    )


class Run(ctypes.Structure):
    """`struct Program` of native/program.hpp."""

    _fields_ = (
        ("operations", c_void_p),
        ("count", c_int64),
        ("space", c_void_p),
        ("output", c_void_p),
        ("size", c_int64),
        ("rows", c_int64),
        ("slot", c_int64),
        ("turns", c_void_p),
        ("places", c_int64),
        ("lists", Lists * 2),
    )


def fits(engine: Engine) -> bool:
    """Whether the library can write, and lays out what it is handed as this module does."""
    if not hasattr(engine.native, "transom_writing_layout"):
        return False
    engine.native.transom_writing_layout.restype = c_int64
    return engine.native.transom_writing_layout() == ctypes.sizeof(Run) << 12 | ctypes.sizeof(Operation)


class Unknown(Exception):
    """Something that a program cannot do."""


@dataclass(frozen=True)
class Heads:
    """The sizes of an attention."""

    heads: int
    kv_heads: int
    d_head: int

    def named(self) -> dict[str, Any]:
        return {"heads": self.heads, "kv_heads": self.kv_heads, "d": self.d_head}


class Value(Tensor):
    """A row of numbers that a program will compute: a tensor in shape, and something to add up in an equation."""

    draft: "Draft"
    number: int
    width: int

    def __add__(self, other: object) -> "Value":
        if not isinstance(other, Value):
            raise Unknown("adding what is not a value")
        return self.draft.noted("add", self, self.width, other=other)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ == "__get__" or func in (Tensor.dim, Tensor.size):
            return super().__torch_function__(func, types, args, kwargs or {})
        raise Unknown(f"{func.__name__} in the equation of a block")


@dataclass
class Noted:
    """One operation on values, by their numbers."""

    kind: str
    source: int
    other: int | None
    result: int | None
    settings: dict[str, Any]


@dataclass
class Draft:
    """Operations in their order."""

    engine: Engine
    notes: list[Noted] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)  # what the operations point at
    biases: dict[int, Bias] = field(default_factory=dict)  # by the number of the operation that looks

    def value(self, width: int) -> Value:
        """A value that is still to come."""
        found = torch.empty(1, width).as_subclass(Value)
        found.draft, found.number, found.width = self, len(self.widths), width
        self.widths.append(width)
        return found

    def noted(self, kind: str, x: Value, width: int, other: Value | None = None, **settings: Any) -> Value:
        """What comes of x."""
        result = self.value(width)
        settings |= {"inputs": x.width, "outputs": width}
        self.notes.append(Noted(kind, x.number, None if other is None else other.number, result.number, settings))
        return result

    def product(self, x: Value, weight: Tensor, bias: Tensor | None) -> Value:
        """x · weightᵀ + bias."""
        packed = Packed(self.engine, weight, bias)
        self.kept += [packed.matrix, packed.shift]
        return self.noted("product", x, packed.outputs, matrix=packed.matrix.data_ptr(), shift=packed.shift.data_ptr())

    def norm(self, kind: str, x: Value, gain: Tensor | None, shift: Tensor | None, eps: float) -> Value:
        """x normed, times `gain` plus `shift`."""
        width = x.width
        gain = torch.ones(width) if gain is None else gain.detach().clone()
        shift = torch.zeros(width) if shift is None else shift.detach().clone()
        self.kept += [gain, shift]
        return self.noted(kind, x, width, matrix=gain.data_ptr(), shift=shift.data_ptr(), eps=eps)

    def turned(self, x: Value, heads: Heads, halves: bool) -> Value:
        """The queries and keys in x turned by the angles of their position, the values behind them as they are."""
        return self.noted("turn_halves" if halves else "turn", x, x.width, **heads.named())

    def own(self, x: Value, heads: Heads, bias: Bias | None = None) -> Value:
        """Keep the keys and values in x, which stand behind its queries, and look at all that are kept.

        A bias must go by the distance alone.
        """
        settings = {"inputs": x.width, "outputs": 0} | heads.named()
        self.notes.append(Noted("keep", x.number, None, None, settings))
        if bias is not None:
            self.biases[len(self.notes)] = bias
        return self.noted("look", x, heads.heads * heads.d_head, list=OWN, **heads.named())

    def cross(self, x: Value, heads: Heads, held: Float[Tensor, "any any2"]) -> Value:
        """What the queries in x find among the keys and values of a source."""
        self.kept.append(held)
        return self.noted("look", x, heads.heads * heads.d_head, list=SOURCE, held=held.data_ptr(), **heads.named())


class Program:
    """A draft with its values put into registers, ready to run."""

    def __init__(self, draft: Draft, output: Value) -> None:
        self.native, self.kept = prepared(draft.engine), draft.kept
        places, self.registers = registers(draft)
        places[output.number] = -1
        self.width, self.output_width = max(draft.widths), output.width
        self.operations = (Operation * len(draft.notes))()
        for operation, note in zip(self.operations, draft.notes, strict=True):
            operation.kind, operation.from_ = KINDS.index(note.kind), places[note.source]
            operation.other = 0 if note.other is None else places[note.other]
            operation.to = 0 if note.result is None else places[note.result]
            for name, setting in note.settings.items():
                setattr(operation, name, setting)
        self.run = Run(ctypes.addressof(self.operations), len(self.operations))
        self.biases, self.added = draft.biases, list[Tensor]()
        self.space = self.output = self.turns = torch.empty(0)

    def reach(self, places: int, angles: Float[Tensor, "token pairs"] | None = None) -> None:
        """Prepare for so many positions: what biases add, and the angles to turn by."""
        self.added, self.run.places = [], places
        if angles is not None:
            self.turns = torch.stack([angles.cos(), angles.sin()], dim=2)
            self.run.turns = self.turns.data_ptr()
        for number, bias in self.biases.items():
            operation = self.operations[number]
            last = Block((1, operation.heads, 1, places), device=torch.device("cpu"))
            self.added.append(bias.added(last)[0, :, 0].detach().float().contiguous())
            operation.matrix = self.added[-1].data_ptr()

    def hold(self, held: Float[Tensor, "any any2 any3"]) -> None:
        """Keep the rows' own keys and values there: a row of numbers for each slot, in each layer."""
        layer = -1
        for operation in self.operations:
            kind = KINDS[operation.kind]
            layer += kind == "keep"
            if kind == "keep" or (kind == "look" and operation.list == OWN):
                operation.held = held[layer].data_ptr()

    def step(self, x: Float[Tensor, "rows d_model"], slot: int) -> Float[Tensor, "rows any"]:
        """The last value for each row of x; the next step writes over it."""
        rows, run = len(x), self.run
        if rows > run.size // self.width:
            self.space = torch.empty(self.registers, rows * self.width)
            self.output = torch.empty(rows * self.output_width)
            run.space, run.output, run.size = self.space.data_ptr(), self.output.data_ptr(), rows * self.width
        self.space[0, : x.numel()] = x.flatten()
        run.rows, run.slot = rows, slot
        done(self.native.transom_step(ctypes.byref(run), library.threads()))
        return self.output[: rows * self.output_width].view(rows, self.output_width)


def registers(draft: Draft) -> tuple[list[int], int]:
    """A register for each value, used again once nobody needs what is in it, and how many there are."""
    last = {number: place for place, note in enumerate(draft.notes) for number in (note.source, note.other)}
    places, free, most = [0] * len(draft.widths), [], 1
    for place, note in enumerate(draft.notes):
        if note.result is not None:
            if not free:
                free, most = [most], most + 1
            places[note.result] = free.pop()
        free += {places[number] for number in (note.source, note.other) if number is not None and last[number] == place}
    return places, most
